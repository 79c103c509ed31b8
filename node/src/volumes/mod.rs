//! The volumes of pods: made or mounted, filled, kept fresh, and taken away again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, VolumeMount};
use steersman_api::Uid;

mod adoption;
mod back_off;
pub mod claims;
mod count;
mod disk;
mod error;
mod kinds;
mod manager;
mod metrics;
mod mounting;
mod one_pod;
mod path_locks;
mod payload;
mod refusal;
mod set_up;
mod state;
mod tear_down;
#[cfg(test)]
mod tests;
pub mod tokens;

pub use adoption::ContainerMounts;
pub use error::{MountError, Orphans, UnmountError};
pub use manager::{Parts, VolumeManager};
pub use metrics::Metrics;

/// Has mounts below the node's folder seen by containers that have a part of it mounted, and theirs by the node: what
/// `mountPropagation` stands on. Where the folder is on a mount that is not shared, it is mounted over itself for good, as
/// upstream does. To be called before the first pod, and again after a restart. Blocking.
///
/// # Errors
/// The system says no: this process may not mount. Pods run all the same, without propagation of mounts.
pub fn share(root: &Path) -> Result<(), ShareError> {
    disk::mounts::share(root).map_err(|error| ShareError(error.to_string()))
}

/// Whether file systems in memory can be kept from being swapped out, tried by mounting one in this folder. Blocking.
pub fn can_be_kept_from_swap(folder: &Path) -> bool {
    let tried = disk::mounts::try_noswap(folder);
    tried.inspect_err(|error| tracing::info!(%error, "tmpfs can't be kept from being swapped out")).is_ok()
}

/// See [`share`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShareError(String);

/// The volumes of a pod as containers can mount them.
pub trait MountedVolumes: Send + Sync + 'static {
    /// The pod's volumes that are mounted, by the name that the pod's spec gives them.
    fn mounted(&self, pod: &Uid) -> BTreeMap<String, MountedVolume>;

    /// The groups that the pod's mounted volumes give to its processes, sorted.
    fn groups(&self, pod: &Uid) -> BTreeSet<i64>;

    /// The path on the node of a mount's sub-path (`mount.sub_path`, expanded already), made safe against links that lead
    /// out of the volume; made as a folder where missing. Blocking.
    ///
    /// # Errors
    /// It leads out of the volume, or the file system says no; in words for the container's waiting state.
    fn prepare_sub_path(
        &self,
        pod: &Pod,
        container: &str,
        mount_index: usize,
        mount: &VolumeMount,
        sub_path: &str,
    ) -> Result<PathBuf, String>;
}

/// What a volume manager may do to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// All that a kubelet does, as root.
    All,
    /// Only what every user may: volumes that should be in memory are on disk, files belong to the user who runs this program,
    /// and an empty folder stands for any persistent volume. For simulated containers, which read nothing.
    Ordinary,
}

/// A volume that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedVolume {
    /// Where it is on the node.
    pub path: PathBuf,
    /// Whether nobody may write to it, whatever the mount says.
    pub read_only: bool,
    /// Whether it has a label of SELinux to be given by the runtime.
    pub relabel: bool,
}
