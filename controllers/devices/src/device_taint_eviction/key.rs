//! The keys of the controller's queue.

use std::fmt;

use steersman_api::{ArcStr, ObjectKey};

/// A pod or a DeviceTaintRule to sync.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Evict the pod, if and when it must go.
    Pod(ObjectKey),
    /// Write the status of the DeviceTaintRule of this name.
    Rule(ArcStr),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Rule(name) => write!(f, "rule:{name}"),
        }
    }
}
