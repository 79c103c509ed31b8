//! What controllers cache of each kind: a file each. A controller says with `keep!` which groups of fields it reads.

pub mod pod;
