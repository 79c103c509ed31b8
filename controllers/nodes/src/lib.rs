//! Controllers of nodes, and of pods whose node is gone: a folder for each, with its policy, settings, rights and
//! metrics.

pub mod pod_gc;
