//! What a container's environment holds, and where its variables are put into other texts.

pub mod expansion;
