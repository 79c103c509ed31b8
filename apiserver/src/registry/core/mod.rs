//! Kinds of the core group.

mod ephemeral;
pub(super) mod event;
pub(super) mod namespace;
pub(super) mod node;
pub(super) mod pod;
mod resize;
pub(super) mod service;
pub(super) mod service_ranges;
pub(super) mod small;
