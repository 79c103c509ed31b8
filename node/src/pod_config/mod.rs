//! PodConfig: which pods this node is to run, as several sources say.
//!
//! ```text
//! api  (informer on spec.nodeName) ──┐
//! file (manifests, inotify)  ────────┼─ set: all the pods it has ─▶ a merging store each ─▶ one channel of updates
//! url  (manifests)  ─────────────────┘
//! ```
//!
//! Each source says all it has whenever something changed (upstream's SET). Its [store](merge::PodStorage) finds what is
//! new, changed, ending, gone, or has a foreign status, and the [mux](mux::PodConfig) delivers that in order. Pods of
//! files and URLs are static pods: [`manifest`] makes them, [`mirror`] shows them on the API server.

pub mod annotations;
pub mod api;
pub mod file;
pub mod manifest;
pub mod merge;
pub mod mirror;
pub mod mux;
#[cfg(test)]
mod tests;
pub mod update;
pub mod url;

pub use annotations::{is_mirror_pod, is_static_pod};
pub use mirror::{MirrorClient, MirrorPlan};
pub use mux::{Closed, PodConfig, SourceHandle, UPDATES};
pub use update::{PodOperation, PodUpdate, Source, SourcePod};
