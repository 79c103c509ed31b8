//! `emptyDir`, and the folder under every volume that is filled from objects.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use steersman_api::quantity::Quantity;

use crate::node_info::NodeInfo;
use crate::resources::{amount, every_container_limits, limits, pod_level, pod_limits};
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
    let own = !amount(&limits(pod_level(pod)), "memory").is_zero();
    let limited = own || every_container_limits(pod, "memory");
    limited.then(|| u64::try_from(amount(&pod_limits(pod), "memory").value()).ok())?
}

/// What can't be read limits nothing.
fn bytes(text: &Text) -> u64 {
    let amount = text.0.parse().map(Quantity::value);
    amount.ok().and_then(|amount| u64::try_from(amount).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pods_memory_is_limited_if_it_or_each_of_its_containers_is() {
        let limit = |amount: &str| json!({ "limits": { "memory": amount } });
        let one = |resources: Value| json!({ "containers": [{ "name": "c", "resources": resources }] });
        for (spec, expected) in [
            (one(json!({})), None),
            (one(limit("10")), Some(10)),
            (json!({ "containers": [{ "name": "a", "resources": limit("10") }, { "name": "b" }] }), None),
            (json!({ "containers": [{ "name": "a" }], "resources": limit("30") }), Some(30)),
            (
                json!({
                    "initContainers": [
                        { "name": "s", "restartPolicy": "Always", "resources": limit("5") },
                        { "name": "i", "resources": limit("50") },
                    ],
                    "containers": [{ "name": "a", "resources": limit("10") }],
                    "overhead": { "memory": "1" },
                }),
                Some(56),
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
            assert_eq!(memory_limit(&pod), expected, "{spec}");
        }
    }
}
