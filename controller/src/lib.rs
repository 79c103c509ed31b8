#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! The framework that controllers stand on: observe, plan, act.
//!
//! A controller ([`Controller`]) observes what its caches hold about a key, plans in a pure function, and carries the plan's
//! steps out, one call of the API server each. The [`runner`] takes keys from work queues and drives that cycle;
//! [`own_writes`] keeps a controller from deciding on a cache that does not show what the controller itself has written;
//! the [`registry`] builds the controllers that a selection enables.
//!
//! Start reading at [`controller`], then [`plan`].

pub mod call;
pub mod children;
pub mod client;
pub mod context;
pub mod controller;
pub mod debug;
pub mod feature_gates;
pub mod leading;
pub mod options;
pub mod own_writes;
pub mod plan;
pub mod pod_control;
pub mod pod_template;
pub mod rbac;
pub mod registry;
pub mod runner;
pub mod selecting;
pub mod server_version;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use controller::Controller;
