//! `emptyDir`, and the folder under every volume that is filled from objects.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use steersman_api::quantity::Quantity;

use crate::node_info::NodeInfo;
use crate::volumes::disk::ownership::{Access, give_to_group};
use crate::volumes::disk::{DiskError, During, make_dirs, mounts, set_mode};

/// As upstream names it.
pub(in crate::volumes) const PLUGIN: &str = "kubernetes.io/empty-dir";

/// Everybody may use an empty directory.
const MODE: u32 = 0o777;

/// Where such a folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct Place {
    /// Itself.
    pub(in crate::volumes) dir: PathBuf,
    /// The folder whose file `ready` says that it was made.
    pub(in crate::volumes) notes: PathBuf,
}

/// What the folder is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volumes) enum Medium {
    /// The node's disk.
    Disk,
    /// Memory, of at most so many bytes; 0 for what the kernel allows.
    Memory(u64),
}

impl Place {
    fn is_ready(&self) -> bool {
        self.notes.join("ready").is_file()
    }
}

/// Makes the folder, unless it is there.
pub(in crate::volumes) fn set_up(place: &Place, medium: Medium, group: Option<u32>) -> Result<(), DiskError> {
    let there = match medium {
        Medium::Disk => place.dir.is_dir(),
        // A restart of the machine takes it away.
        Medium::Memory(_) => mounts::is_tmpfs(&place.dir)?,
    };
    if there && place.is_ready() {
        return Ok(());
    }
    make_dirs(&place.dir, MODE)?;
    if let (Medium::Memory(size), false) = (medium, there) {
        mounts::mount_tmpfs(&place.dir, size)?;
    }
    if medium == Medium::Disk {
        set_mode(&place.dir, MODE)?;
    }
    if let Some(group) = group {
        give_to_group(&place.dir, group, Access::ReadWrite)?;
    }
    make_dirs(&place.notes, 0o750)?;
    let ready = place.notes.join("ready");
    std::fs::File::create(&ready).map(drop).during("creating file", &ready)
}

/// Takes it away with all that is in it, whatever it is on.
pub(in crate::volumes) fn tear_down(place: &Place) -> Result<(), DiskError> {
    mounts::remove_tree(&place.notes)?;
    mounts::unmount_all(&place.dir)?;
    mounts::remove_tree(&place.dir)
}

/// How many bytes a folder in memory may hold: what the volume says, or else what the pod may have, or else what all pods
/// may have; the smallest of them.
pub(in crate::volumes) fn memory_size(
    source: Option<&EmptyDirVolumeSource>,
    pod: &Pod,
    node: &dyn NodeInfo,
) -> u64 {
    let allocatable = node.allocatable();
    let own = source.and_then(|source| source.size_limit.as_ref());
    let sizes = [allocatable.get("memory").map(bytes), memory_limit(pod), own.map(bytes)];
    sizes.into_iter().flatten().filter(|size| *size > 0).min().unwrap_or(0)
}

/// The memory that the pod as a whole may have: its own limit, or the sum of its containers' if all have one.
fn memory_limit(pod: &Pod) -> Option<u64> {
    let spec = pod.spec.as_ref()?;
    let limit = |resources: Option<&ResourceRequirements>| {
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        limits.and_then(|limits| limits.get("memory")).map(bytes).filter(|limit| *limit > 0)
    };
    let overhead = spec.overhead.as_ref().and_then(|overhead| overhead.get("memory")).map_or(0, bytes);
    if let Some(own) = limit(spec.resources.as_ref()) {
        return own.checked_add(overhead);
    }
    let mut sum = 0u64;
    for container in &spec.containers {
        sum = sum.checked_add(limit(container.resources.as_ref())?)?;
    }
    let (mut sidecars, mut most) = (0u64, 0);
    for container in spec.init_containers.iter().flatten() {
        let own = limit(container.resources.as_ref())?;
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.checked_add(own)?;
            most = most.max(sidecars);
        } else {
            most = most.max(sidecars.checked_add(own)?);
        }
    }
    most.max(sum.checked_add(sidecars)?).checked_add(overhead)
}

/// What can't be read limits nothing.
fn bytes(text: &Text) -> u64 {
    let amount = text.0.parse().map(Quantity::value);
    amount.ok().and_then(|amount| u64::try_from(amount).ok()).unwrap_or(0)
}
