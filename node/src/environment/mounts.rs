//! The volumes that a container has mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::expansion::expand;
use crate::cri::v1::{Mount, MountPropagation};
use crate::volumes::MountedVolume;

/// Where a container sees the managed hosts file.
pub(super) const ETC_HOSTS: &str = "/etc/hosts";

/// What a container's mounts are made of, beside the container.
pub struct MountInputs<'a> {
    /// The pod's volumes that are there, by name.
    pub volumes: &'a BTreeMap<String, MountedVolume>,
    /// The container's environment, for sub-paths.
    pub env: &'a [(String, String)],
    /// Whether the runtime can make mounts read-only with all that is mounted in them.
    pub recursive_read_only: bool,
    /// Prepares a volume's sub-path: the mount's index, the mount, the sub-path. See
    /// [`prepare_sub_path`](crate::volumes::MountedVolumes::prepare_sub_path).
    pub prepare_sub_path: &'a dyn Fn(usize, &VolumeMount, &str) -> Result<PathBuf, String>,
}

/// The mounts of a container's volumes, in its order. Blocking, as sub-paths are prepared.
///
/// # Errors
/// A volume is not there, or a mount can't be made as it is asked for; in words for the container's waiting state.
pub fn mounts(container: &Container, inputs: &MountInputs<'_>) -> Result<Vec<Mount>, String> {
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    mounts.map(|(index, asked)| mount(container, index, asked, inputs)).collect()
}

/// Whether a container mounts something of its own in the hosts file's place.
pub fn has_own_hosts(container: &Container) -> bool {
    container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == ETC_HOSTS)
}

/// Refuses raw block devices, which this node has no volumes for.
///
/// # Errors
/// The container wants one; in words for its waiting state.
pub fn refuse_devices(container: &Container) -> Result<(), String> {
    match container.volume_devices.iter().flatten().next() {
        None => Ok(()),
        Some(device) => Err(format!(
            "block devices are not supported: cannot pass volume {:?} into container {:?} as {}",
            device.name, container.name, device.device_path
        )),
    }
}

fn mount(
    container: &Container,
    index: usize,
    asked: &VolumeMount,
    inputs: &MountInputs<'_>,
) -> Result<Mount, String> {
    let volume = inputs.volumes.get(&asked.name).ok_or_else(|| {
        format!("cannot find volume {:?} to mount into container {:?}", asked.name, container.name)
    })?;
    let sub_path = sub_path(asked, inputs.env)?;
    let host_path = match sub_path.as_str() {
        "" => volume.path.clone(),
        sub_path => (inputs.prepare_sub_path)(index, asked, sub_path)?,
    };
    let propagation = propagation(asked.mount_propagation.as_deref())?;
    let recursive_read_only = recursive_read_only(asked, inputs.recursive_read_only)
        .map_err(|error| format!("failed to resolve recursive read-only mode: {error}"))?;
    let path = &asked.mount_path;
    let host_path = host_path.into_os_string().into_string();
    Ok(Mount {
        container_path: if path.starts_with('/') { path.clone() } else { format!("/{path}") },
        host_path: host_path.map_err(|path| format!("the path {} is not UTF-8", path.display()))?,
        readonly: asked.read_only == Some(true) || volume.read_only,
        recursive_read_only,
        selinux_relabel: volume.relabel,
        propagation: propagation.into(),
        ..Mount::default()
    })
}

/// `subPath`, or `subPathExpr` with its variables; empty for the whole volume.
fn sub_path(mount: &VolumeMount, env: &[(String, String)]) -> Result<String, String> {
    let sub_path = match mount.sub_path_expr.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => expanded(text, env)?,
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if sub_path.starts_with('/') {
        return Err(format!("error SubPath `{sub_path}` must not be an absolute path"));
    }
    if sub_path.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{sub_path}`: must not contain '..'"));
    }
    Ok(sub_path)
}

/// As upstream, a variable without a value counts as missing: it could lead to another folder than was meant.
fn expanded(text: &str, env: &[(String, String)]) -> Result<String, String> {
    let mut missing = BTreeSet::new();
    let expanded = expand(text, |name| {
        let value = env.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
        if value.is_empty() {
            missing.insert(name.to_owned());
        }
        Some(value)
    });
    if missing.is_empty() {
        return Ok(expanded);
    }
    Err(format!("missing value for {}", missing.into_iter().collect::<Vec<_>>().join(", ")))
}

fn propagation(mode: Option<&str>) -> Result<MountPropagation, String> {
    match mode {
        None | Some("None") => Ok(MountPropagation::PropagationPrivate),
        Some("HostToContainer") => Ok(MountPropagation::PropagationHostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::PropagationBidirectional),
        Some(mode) => Err(format!("invalid MountPropagation mode: {mode:?}")),
    }
}

fn recursive_read_only(mount: &VolumeMount, supported: bool) -> Result<bool, String> {
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    let refused = |why: &str| {
        Err(format!("volume {:?} requested recursive read-only mode, but it is {why}", mount.name))
    };
    if mount.read_only != Some(true) {
        return refused("not read-only");
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        return refused(&format!("not compatible with propagation {propagation:?}"));
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => refused("not supported by the runtime"),
        mode => Err(format!("unknown recursive read-only mode {mode:?}")),
    }
}

#[cfg(test)]
mod tests;
