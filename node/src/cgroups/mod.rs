//! The control groups of pods, by quality of service.
//!
//! [`CgroupTree`] makes what the kubelet makes, on either version of control groups and in the notation of either driver:
//! `kubepods`, which holds all pods to what is left for them; in it `burstable` and `besteffort`, which weigh the classes
//! against each other; in each of the three the pods of that class, each limited to the sum of its containers. The runtime makes
//! containers' own groups in their pod's. What is to be set is decided by pure functions ([`Limits`], [`cpu`]).
//!
//! # Under systemd
//! With the driver `systemd` groups are slices, and systemd is had to make, limit and end them (the module `systemd`); what it
//! does not know of, such as huge pages, is written to their files. With `cgroupfs` it is not talked to. The runtime must have the
//! same driver.

pub mod cpu;
mod disabled;
mod error;
mod group;
mod hierarchies;
mod killing;
mod limits;
mod metrics;
mod name;
mod removal;
mod reserved;
mod systemd;
#[cfg(test)]
mod tests;
mod tree;
mod upkeep;

use std::collections::HashMap;
use std::io;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use crate::container::ContainerResources;
pub use crate::resources::{QosClass, qos_class};
pub use disabled::Disabled;
pub use error::Error;
pub use hierarchies::{CgroupVersion, Hierarchies};
pub use limits::{CpuQuota, Limits, PIDS, PodLimitSettings, left_for_pods};
pub use metrics::Metrics;
pub use name::{CgroupDriver, GroupName, pod_of_folder};
pub use removal::remove_patiently;
pub use reserved::{Extent, NotHeld, Reserved, Whose, hold};
pub use systemd::Error as SystemdError;
pub use tree::{CgroupSettings, CgroupTree};
pub use upkeep::Upkeep;

/// The memory of a pod's cgroup, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodMemory {
    /// What it uses, what the kernel keeps of files for it included; none where that is not known.
    pub used: Option<u64>,
    /// What it may use now; none without limit.
    pub limit: Option<u64>,
    /// What it is to be limited to by the pod's spec, if it is.
    pub wanted: Option<u64>,
}

impl PodMemory {
    /// The limit that it is to have, where that is less than it has.
    pub fn lowered(&self) -> Option<u64> {
        self.wanted.filter(|wanted| self.limit.is_none_or(|limit| *wanted < limit))
    }
}

/// The control groups of this node's pods. Blocking calls: files of the cgroup file system are written.
pub trait PodCgroups: Send + Sync + 'static {
    /// The cgroup of the pod as the runtime is told it (`cgroup_parent`): a path for the driver cgroupfs, a slice for
    /// systemd; empty where the node keeps no cgroups for pods (`cgroupsPerQOS: false`).
    fn parent_of(&self, pod: &Pod) -> String;

    /// Makes the pod's cgroup where it is missing, and sets its limits. Idempotent, and cheap where nothing changed: to be
    /// called at each sync, unless the pod is being resized. Limits that grow do so at once; one that shrinks stays for as
    /// long as the pod's containers have or use more, so that changes may be made to pod and containers in either order.
    ///
    /// # Errors
    /// The file system says no.
    fn ensure(&self, pod: &Pod) -> io::Result<()>;

    /// Sets the limits of a pod's cgroup as the last step of a resize: all of them, or it is an error.
    ///
    /// # Errors
    /// The file system says no, or a limit is below what the pod's containers have or use.
    fn resize(&self, pod: &Pod) -> io::Result<()>;

    /// How the pod's cgroup is held to its memory; nothing where the node keeps none.
    fn memory(&self, pod: &Pod) -> PodMemory;

    /// Whether the pod's cgroup is there; true where the node keeps none.
    fn exists(&self, pod: &Pod) -> bool;

    /// What the pod's cgroup has: processor time and memory, as far as they are limited or asked for; nothing where the node
    /// keeps none, or it is not there.
    fn given(&self, pod: &Pod) -> ContainerResources;

    /// Kills what still runs in the pod's cgroup, and removes it. Idempotent; works by uid alone, after a restart.
    ///
    /// # Errors
    /// Something can't be killed or removed yet; to be called again.
    fn remove(&self, pod: &Uid) -> io::Result<()>;

    /// The pods that have a cgroup.
    ///
    /// # Errors
    /// The file system says no.
    fn pods(&self) -> io::Result<HashMap<Uid, String>>;
}
