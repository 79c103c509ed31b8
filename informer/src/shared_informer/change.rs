//! The changes that mappings get.

use std::sync::Arc;

use steersman_api::{Meta, ObjectKey};

use crate::store::Written;
use crate::wire::{Object, Selection, View};

/// A change of the cache. A mapping gets it once readers can see it.
#[derive(Clone, Debug)]
pub enum Change<S: Selection> {
    /// The cache had no object of this key.
    Added {
        /// The object's state.
        object: View<S>,
        /// The object was cached before the mapping was registered, or came with the informer's first list.
        initial: bool,
    },
    /// An object has a new state. After a list that closed a gap, the new state may be that of another object of the same
    /// name, with another uid.
    Updated {
        /// The state before.
        old: View<S>,
        /// The state now.
        new: View<S>,
    },
    /// An object was deleted.
    Deleted {
        /// The last known state.
        last: View<S>,
    },
    /// The object has not changed since the mapping last got it. The mapping should handle it again.
    Resync {
        /// The object's state.
        object: View<S>,
    },
}

impl<S: Selection> Change<S> {
    /// The state before the change.
    pub fn old(&self) -> Option<&View<S>> {
        match self {
            Self::Added { .. } => None,
            Self::Updated { old: state, .. }
            | Self::Deleted { last: state }
            | Self::Resync { object: state } => Some(state),
        }
    }

    /// The state after the change.
    #[allow(clippy::new_ret_no_self, reason = "the old and the new state, as every handler calls them")]
    pub fn new(&self) -> Option<&View<S>> {
        match self {
            Self::Deleted { .. } => None,
            Self::Added { object: state, .. }
            | Self::Updated { new: state, .. }
            | Self::Resync { object: state } => Some(state),
        }
    }

    /// The newest known state. Of a deleted object it is the last one.
    pub fn newest(&self) -> &View<S> {
        self.new().or(self.old()).expect("a change must have a state before or after it")
    }

    /// The object's key.
    pub fn key(&self) -> &ObjectKey {
        &self.newest().meta().key
    }
}

/// A change of the cache by metadata alone, for mappings that work on any kind. See [`Change`].
#[derive(Clone, Copy, Debug)]
pub enum MetaChange<'a> {
    /// The cache had no object of this key.
    Added {
        /// The object's metadata.
        meta: &'a Meta,
        /// The object was cached before the mapping was registered, or came with the informer's first list.
        initial: bool,
    },
    /// An object has a new state, possibly of another uid.
    Updated {
        /// The metadata before.
        old: &'a Meta,
        /// The metadata now.
        new: &'a Meta,
    },
    /// An object was deleted.
    Deleted {
        /// The last known metadata.
        last: &'a Meta,
    },
    /// The object has not changed since the mapping last got it.
    Resync {
        /// The object's metadata.
        meta: &'a Meta,
    },
}

impl<'a> MetaChange<'a> {
    /// The metadata before the change.
    pub fn old(&self) -> Option<&'a Meta> {
        match *self {
            Self::Added { .. } => None,
            Self::Updated { old: meta, .. } | Self::Deleted { last: meta } | Self::Resync { meta } => {
                Some(meta)
            }
        }
    }

    /// The metadata after the change.
    #[allow(clippy::new_ret_no_self, reason = "the old and the new state, as every handler calls them")]
    pub fn new(&self) -> Option<&'a Meta> {
        match *self {
            Self::Deleted { .. } => None,
            Self::Added { meta, .. } | Self::Updated { new: meta, .. } | Self::Resync { meta } => Some(meta),
        }
    }

    /// The newest known metadata. Of a deleted object it is the last one.
    pub fn newest(&self) -> &'a Meta {
        self.new().or(self.old()).expect("a change must have a state before or after it")
    }

    /// The object's key.
    pub fn key(&self) -> &'a ObjectKey {
        &self.newest().key
    }
}

/// A change in the form in which the informer passes it on, before a mapping's own view of it.
pub(super) enum Raw<'a, K> {
    Written(&'a Written<K>, Initial),
    Resync(&'a Arc<K>),
}

/// Whether a change is part of a first list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Initial {
    Yes,
    No,
}

impl<'a, K: Object> Raw<'a, K> {
    /// The newest state.
    pub(super) fn object(&self) -> &'a Arc<K> {
        match *self {
            Self::Written(
                Written::Added(object) | Written::Updated(_, object) | Written::Deleted(object),
                _,
            )
            | Self::Resync(object) => object,
        }
    }

    pub(super) fn into_change<S: Selection<Kind = K>>(self) -> Change<S> {
        let view = |object: &Arc<K>| View::new(Arc::clone(object));
        match self {
            Self::Written(Written::Added(object), initial) => {
                Change::Added { object: view(object), initial: initial == Initial::Yes }
            }
            Self::Written(Written::Updated(old, new), _) => {
                Change::Updated { old: view(old), new: view(new) }
            }
            Self::Written(Written::Deleted(last), _) => Change::Deleted { last: view(last) },
            Self::Resync(object) => Change::Resync { object: view(object) },
        }
    }

    pub(super) fn as_meta_change(&self) -> MetaChange<'a> {
        match *self {
            Self::Written(Written::Added(object), initial) => {
                MetaChange::Added { meta: object.meta(), initial: initial == Initial::Yes }
            }
            Self::Written(Written::Updated(old, new), _) => {
                MetaChange::Updated { old: old.meta(), new: new.meta() }
            }
            Self::Written(Written::Deleted(last), _) => MetaChange::Deleted { last: last.meta() },
            Self::Resync(object) => MetaChange::Resync { meta: object.meta() },
        }
    }
}
