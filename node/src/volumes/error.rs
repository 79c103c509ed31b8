//! Why a pod's volumes are not as they should be.

use std::time::Duration;

/// Some volumes of a pod are not there. Events have told of it. The caller leaves the pod as it is and tries again; a pod
/// whose volumes a kubelet mounted goes on without those that are [unsupported](Self::is_unsupported).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[{}]: {}",
    .unmounted.join(" "), .unprocessed.join(" "), .reasons.join("; ")
)]
pub struct MountError {
    /// The names of all that are missing, sorted.
    pub unmounted: Vec<String>,
    /// Those among them of which no mount was tried: their claims can't be used, or their kinds are not supported.
    pub unprocessed: Vec<String>,
    /// Those among them whose kinds are not supported.
    pub unsupported: Vec<String>,
    /// Why, one a volume, in the order of the names.
    pub reasons: Vec<String>,
    /// When the first of them may be tried again: their back-off.
    pub retry_in: Duration,
}

impl MountError {
    /// Whether the volumes are missing only since their kinds are not supported.
    pub fn is_unsupported(&self) -> bool {
        self.unmounted == self.unsupported
    }
}

/// Something of a pod's volumes is still there. Nothing is lost; it is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("volumes of pod {pod} are still there: {reason}")]
pub struct UnmountError {
    /// The pod's uid.
    pub pod: String,
    /// What the node said no to.
    pub reason: String,
}

/// What became of what pods that are gone left behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Orphans {
    /// How many such pods had a folder (`orphan_pod_cleaned_volumes`).
    pub found: usize,
    /// How many still have one (`orphan_pod_cleaned_volumes_errors`).
    pub failed: usize,
}
