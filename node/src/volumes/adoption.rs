//! Volumes that an agent before this one mounted and that this one can't mount. Pure.
//!
//! A machine that was not drained before this agent took it over may run pods with volumes of unsupported kinds. Their
//! containers have such volumes mounted, and the runtime says from where: that is enough to start a container anew.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, VolumeMount};

use super::MountedVolume;
use crate::cri::v1::Mount;

/// What the runtime has mounted in one container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerMounts {
    /// The container's name in the pod's spec.
    pub container: String,
    /// Its mounts, as the runtime tells them.
    pub mounts: Vec<Mount>,
}

/// Where the `wanted` volumes are, by name. Leaves out volumes that no container mounts as a whole. Also leaves out
/// paths outside of `pod_folder`, because the kubelet may not have made them for this pod.
pub(super) fn volumes(
    pod: &Pod,
    wanted: &[String],
    found: &[ContainerMounts],
    pod_folder: &Path,
) -> BTreeMap<String, MountedVolume> {
    let mut adopted = BTreeMap::new();
    for of_container in found {
        for asked in volume_mounts(pod, &of_container.container).filter(|asked| wanted.contains(&asked.name))
        {
            let there = of_container.mounts.iter().find(|there| is_same_path(asked, there));
            let there = there.filter(|there| Path::new(&there.host_path).starts_with(pod_folder));
            let (Some(there), true) = (there, is_whole(asked)) else { continue };
            adopted.entry(asked.name.clone()).or_insert_with(|| MountedVolume {
                path: there.host_path.clone().into(),
                read_only: there.readonly && asked.read_only != Some(true),
                relabel: there.selinux_relabel,
            });
        }
    }
    adopted
}

fn volume_mounts<'a>(pod: &'a Pod, container: &str) -> impl Iterator<Item = &'a VolumeMount> {
    let spec = pod.spec.iter();
    let containers =
        spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let container = containers.into_iter().find(|own| own.name == container);
    container.and_then(|container| container.volume_mounts.as_ref()).into_iter().flatten()
}

fn is_same_path(asked: &VolumeMount, there: &Mount) -> bool {
    asked.mount_path.trim_start_matches('/') == there.container_path.trim_start_matches('/')
}

/// Whether the container mounts the whole volume. The path of a part does not tell where the volume is.
fn is_whole(asked: &VolumeMount) -> bool {
    let names_a_part = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
    !names_a_part(&asked.sub_path) && !names_a_part(&asked.sub_path_expr)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FOLDER: &str = "/kubelet/pods/u-1";

    fn found(host_path: &str) -> Vec<ContainerMounts> {
        let mount = |container_path: &str, host_path: &str| Mount {
            container_path: container_path.to_owned(),
            host_path: host_path.to_owned(),
            readonly: true,
            ..Mount::default()
        };
        let mounts = vec![mount("/etc/hosts", "/kubelet/pods/u-1/etc-hosts"), mount("/data", host_path)];
        vec![ContainerMounts { container: "c".to_owned(), mounts }]
    }

    fn adopted(asked: Value, found: &[ContainerMounts]) -> Option<(String, bool)> {
        let pod = json!({
            "metadata": {}, "spec": { "containers": [{ "name": "b" }, { "name": "c", "volumeMounts": [asked] }] },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let mut volumes = volumes(&pod, &["data".to_owned()], found, Path::new(FOLDER));
        volumes.remove("data").map(|volume| (volume.path.display().to_string(), volume.read_only))
    }

    #[test]
    fn a_volume_is_where_the_runtime_mounted_it_from() {
        let volume = "/kubelet/pods/u-1/volumes/kubernetes.io~csi/pvc-1/mount";
        let there = |read_only| Some((volume.to_owned(), read_only));
        for (asked, path, expected) in [
            (json!({ "name": "data", "mountPath": "/data" }), volume, there(true)),
            (json!({ "name": "data", "mountPath": "data" }), volume, there(true)),
            (json!({ "name": "data", "mountPath": "/data", "readOnly": true }), volume, there(false)),
            (json!({ "name": "data", "mountPath": "/elsewhere" }), volume, None),
            (json!({ "name": "other", "mountPath": "/data" }), volume, None),
            (json!({ "name": "data", "mountPath": "/data", "subPath": "part" }), volume, None),
            (json!({ "name": "data", "mountPath": "/data" }), "/kubelet/pods/u-10/volumes/x", None),
            (json!({ "name": "data", "mountPath": "/data" }), "/", None),
        ] {
            assert_eq!(adopted(asked.clone(), &found(path)), expected, "{asked} {path}");
        }
        assert_eq!(adopted(json!({ "name": "data", "mountPath": "/data" }), &[]), None);
    }
}
