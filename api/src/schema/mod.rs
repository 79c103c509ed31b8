//! The schema table of the built-in kinds.
