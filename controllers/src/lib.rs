//! The controllers of kube-controller-manager, and what they share.
//!
//! Each controller observes what its caches hold, plans in a pure function, and lets the runner act: see [`controller`].

pub mod call;
pub mod context;
pub mod controller;
pub mod endpoints;
pub mod job;
pub mod kinds;
pub mod own_writes;
pub mod plan;
pub mod pod_control;
pub mod pod_gc;
pub mod pod_template;
pub mod registry;
pub mod runner;
