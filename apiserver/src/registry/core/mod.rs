//! Kinds of the core group.

pub(super) mod event;
pub(super) mod namespace;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod service;
pub(super) mod small;
