//! Builders of Kubernetes objects, as JSON, for tests.
//!
//! This crate depends on no other crate of Steersman, so the tests of all of them can use it, as a dev-dependency.
//! A test names only what it is about; the builder fills in what the API server requires:
//!
//! ```
//! use steersman_testing::pod;
//!
//! let web = pod("web-1").label("app", "web").on("node-1").phase("Running").ready().build();
//! assert_eq!(web["spec"]["nodeName"], "node-1");
//! ```
//!
//! Most test files want the same members in all of their pods. They get a function of their own that returns the builder:
//! `fn running(name: &str) -> Pod { pod(name).namespace("ns").uid(name).phase("Running") }`.

pub mod certificates;
mod pod;

pub use pod::{Pod, pod};
