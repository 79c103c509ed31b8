//! Controllers of nodes, and what becomes of pods without one. A folder for each controller, with its policy, settings, rights and metrics.

pub mod pod_gc;
