//! The control groups of pods, by quality of service.

pub mod cpu;

use std::collections::HashMap;
use std::io;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

/// The control groups of this node's pods. Blocking calls: files of the cgroup file system are written.
pub trait PodCgroups: Send + Sync + 'static {
    /// The cgroup of the pod as the runtime is told it (`cgroup_parent`): a path for the driver cgroupfs, a slice for
    /// systemd; empty where the node keeps no cgroups for pods (`cgroupsPerQOS: false`).
    fn parent_of(&self, pod: &Pod) -> String;

    /// Makes the pod's cgroup where it is missing, and sets its limits. Idempotent.
    ///
    /// # Errors
    /// The file system says no.
    fn ensure(&self, pod: &Pod) -> io::Result<()>;

    /// Whether the pod's cgroup is there; true where the node keeps none.
    fn exists(&self, pod: &Pod) -> bool;

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
