//! The controllers of kube-controller-manager, and what they share.
//!
//! Each controller observes what its caches hold, plans in a pure function, and lets the runner act: see [`controller`].

pub mod controller;
pub mod kinds;
pub mod plan;
