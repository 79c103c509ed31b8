//! The keys of the controller's queue.

use std::fmt;

use steersman_api::ObjectKey;

/// A pod, a PodGroup or a claim to sync.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Make the pod's claims, and reserve them if the pod is scheduled already.
    Pod(ObjectKey),
    /// Make the claims of the PodGroup.
    Group(ObjectKey),
    /// Release the claim from consumers that are done.
    Claim(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Group(key) => write!(f, "podgroup:{key}"),
            Self::Claim(key) => write!(f, "claim:{key}"),
        }
    }
}
