//! `status.volumesInUse`. Pure.
//!
//! The attach-detach controller detaches no volume that a node names there. This node mounts no volumes that are attached,
//! but a kubelet before it may have left some: those stay named while something of their plugin is mounted.

use std::path::Path;

use k8s_openapi::api::core::v1::Node;

/// Whether the Node names volumes in use, so that [`set`] needs to know what is mounted.
pub(super) fn are_told(node: &Node) -> bool {
    let told = node.status.as_ref().and_then(|status| status.volumes_in_use.as_ref());
    told.is_some_and(|told| !told.is_empty())
}

/// Keeps those of the volumes in use whose plugin has anything mounted, by the machine's mount points; `root` is the
/// kubelet's folder, without links. Which volume a mount belongs to only the plugin knows.
pub(super) fn set<P: AsRef<Path>>(node: &mut Node, root: &Path, mounts: &[P]) {
    let Some(status) = &mut node.status else { return };
    let plugins: Vec<String> = mounts.iter().filter_map(|mount| plugin_of(mount.as_ref(), root)).collect();
    let Some(told) = &mut status.volumes_in_use else { return };
    // A volume is named by its plugin, a slash, and what the plugin calls it.
    told.retain(|volume| {
        plugins
            .iter()
            .any(|plugin| volume.strip_prefix(plugin.as_str()).is_some_and(|rest| rest.starts_with('/')))
    });
    if told.is_empty() {
        status.volumes_in_use = None;
    }
}

/// The plugin that a mount is of: one for a pod (`pods/<uid>/volumes/kubernetes.io~csi/...`, or `volumeDevices`), or for the
/// node (`plugins/kubernetes.io/csi/...`; below `plugins/kubernetes.io/flexvolume` each driver is a plugin).
fn plugin_of(mount: &Path, root: &Path) -> Option<String> {
    let below = mount.strip_prefix(root).ok()?;
    let mut parts = below.iter().map(|part| part.to_string_lossy());
    match &*parts.next()? {
        "plugins" => {
            let mut plugin = || Some(format!("{}/{}", parts.next()?, parts.next()?));
            plugin().filter(|plugin| plugin != "kubernetes.io/flexvolume").or_else(plugin)
        }
        "pods" => {
            let kind = parts.nth(1)?;
            let plugin = parts.next()?.replace('~', "/");
            matches!(&*kind, "volumes" | "volumeDevices").then_some(plugin)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_in_use_while_anything_of_its_plugin_is_mounted() {
        let (csi, iscsi, flex) = ("kubernetes.io/csi/d^1", "kubernetes.io/iscsi/t:0:1", "vendor/driver/v");
        for (mounts, expected) in [
            (&[][..], &[][..]),
            (&["/kubelet/pods/u/volumes/kubernetes.io~csi/pvc-1/mount"], &[csi]),
            (&["/kubelet/pods/u/volumeDevices/kubernetes.io~csi/pvc-1"], &[csi]),
            (&["/kubelet/plugins/kubernetes.io/csi/d/0af3/globalmount"], &[csi]),
            (&["/kubelet/plugins/kubernetes.io/flexvolume/vendor/driver/mounts/v"], &[flex]),
            (&["/kubelet/pods/u/volumes/vendor~driver/v"], &[flex]),
            (
                &["/kubelet/plugins/kubernetes.io/iscsi/x", "/kubelet/pods/u/volumes/kubernetes.io~csi/p"],
                &[csi, iscsi],
            ),
            (
                &[
                    "/",
                    "/kubelet",
                    "/kubelet/pods/u/volumes/kubernetes.io~secret/s",
                    "/kubelet/pods/u/volume-subpaths/p/c/0",
                    "/other/plugins/kubernetes.io/csi/x",
                ],
                &[],
            ),
        ] {
            let told = json!({ "metadata": {}, "status": { "volumesInUse": [csi, iscsi, flex] } });
            let mut node: Node = serde_json::from_value(told).unwrap();
            set(&mut node, Path::new("/kubelet"), mounts);
            let kept = node.status.unwrap().volumes_in_use.unwrap_or_default();
            assert_eq!(kept, expected, "{mounts:?}");
        }
    }
}
