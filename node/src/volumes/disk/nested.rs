//! Folders in a volume on which a container mounts other volumes.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, VolumeDevice, VolumeMount};

use super::{DiskError, make_dirs};

/// Makes the folders in `dir` over which containers of the pod mount other volumes: once the volume is mounted read-only,
/// nobody could.
pub(in crate::volumes) fn make_mount_points(pod: &Pod, volume: &str, dir: &Path) -> Result<(), DiskError> {
    for nested in mount_points(pod, volume)? {
        make_dirs(&dir.join(nested), 0o755)?;
    }
    Ok(())
}

/// Those folders, relative to the volume: of each container the topmost ones.
fn mount_points(pod: &Pod, volume: &str) -> Result<Vec<PathBuf>, DiskError> {
    let mut found = Vec::new();
    for (mounts, _) in volumes_of_containers(pod) {
        let mut all: Vec<_> = mounts.iter().map(|mount| lexically_clean(&mount.mount_path)).collect();
        all.sort();
        for mount in mounts.iter().filter(|mount| mount.name == volume) {
            let mine = lexically_clean(&mount.mount_path);
            if mine.starts_with("..") {
                return Err(DiskError::Invalid(format!("invalid container mount point {}", mine.display())));
            }
            let mut nested: Vec<&PathBuf> = Vec::new();
            for other in all.iter().filter(|other| **other != mine && other.starts_with(&mine)) {
                if !nested.iter().any(|above| *above != other && other.starts_with(above)) {
                    nested.push(other);
                }
            }
            let relative = nested.into_iter().filter_map(|nested| nested.strip_prefix(&mine).ok());
            found.extend(relative.map(Path::to_owned));
        }
    }
    Ok(found)
}

/// What each container, of all sorts, mounts and has as devices.
pub(in crate::volumes) fn volumes_of_containers(
    pod: &Pod,
) -> impl Iterator<Item = (&[VolumeMount], &[VolumeDevice])> {
    let spec = pod.spec.iter();
    let init = spec.clone().flat_map(|spec| spec.init_containers.iter().flatten());
    let regular = spec.clone().flat_map(|spec| &spec.containers);
    let ephemeral = spec.flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    init.chain(regular)
        .map(|container| (&container.volume_mounts, &container.volume_devices))
        .chain(ephemeral.map(|container| (&container.volume_mounts, &container.volume_devices)))
        .map(|(mounts, devices)| {
            (mounts.as_deref().unwrap_or_default(), devices.as_deref().unwrap_or_default())
        })
}

/// The path without `.`, and with `..` taken back, as its text says.
fn lexically_clean(path: &str) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if clean.file_name().is_some() => _ = clean.pop(),
            Component::ParentDir if clean.is_absolute() => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(mounts: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mounts: Vec<_> =
            mounts.iter().map(|(name, path)| json!({ "name": name, "mountPath": path })).collect();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {}, "spec": { "containers": [{ "name": "c", "volumeMounts": mounts }] },
        }))
        .unwrap();
        let found = mount_points(&pod, "v").map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn the_topmost_mounts_below_a_volume_have_folders_in_it() {
        for (mounts, expected) in [
            (&[("v", "/dir"), ("w", "/other")][..], &[][..]),
            (&[("v", "/dir"), ("w", "/dir/nested"), ("x", "/dir/nested/double")], &["nested"]),
            (&[("v", "/dir"), ("w", "/dir/nested-vol"), ("x", "/dir/nested")], &["nested", "nested-vol"]),
            (&[("v", "/dir"), ("w", "/dir2/nested")], &[]),
            (&[("v", "/dir/"), ("w", "/dir/./a//b")], &["a/b"]),
            (&[("w", "/dir"), ("v", "/dir/v")], &[]),
        ] {
            assert_eq!(nested(mounts).unwrap(), expected, "{mounts:?}");
        }
        assert_eq!(nested(&[("v", "../out")]).unwrap_err(), "invalid container mount point ../out");
    }
}
