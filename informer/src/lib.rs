#![doc = include_str!("../README.md")]
//!
//! # Where to start reading
//!
//! ```text
//! API server ── list_watch ── wire ──> reflector ──> delta_fifo ──> store ──> lister, indexes
//!   bytes        streams     objects   state machine   ordered       │
//!                                                                    ├──> key mappings ──> work_queue ──> controllers
//!                                                                    └──> processor ──> handlers
//! ```
//!
//! Start at [`SharedInformer`] and [`SharedInformerFactory`].

pub mod backoff;
pub mod delta_fifo;
pub mod factory;
pub mod index;
pub mod intern;
pub mod list_watch;
mod lister;
#[cfg(feature = "kube-runtime")]
pub mod object_refs;
pub mod processor;
mod recent_lists;
pub mod reflector;
pub mod shared_informer;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod throttle;
pub mod wire;
pub mod work_queue;

pub use factory::SharedInformerFactory;
pub use index::{Index, IndexValue};
pub use intern::Interned;
pub use lister::Lister;
pub use processor::{Event, EventHandler};
pub use shared_informer::{
    AnyInformer, Change, Informer, MappingRegistration, MetaChange, Registration, SharedInformer,
};
pub use steersman_api::{ArcStr, GroupVersionResource, Meta, ObjectKey, ResourceVersion, Time, Uid};
pub use store::Unreadable;
pub use wire::{Keeps, Object, Selection, View};

#[doc(hidden)]
pub use {bytes, serde, serde_json};
