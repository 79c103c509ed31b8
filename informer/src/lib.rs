//! Shared informers for Kubernetes, in Rust.

pub mod delta_fifo;
pub mod intern;
pub mod list_watch;
pub mod wire;

pub use intern::Interned;
pub use steersman_api::{ArcStr, GroupVersionResource, Meta, ObjectKey, ResourceVersion, Time, Uid};
pub use wire::{Keeps, Object, Selection, View};

#[doc(hidden)]
pub use {bytes, serde, serde_json};
