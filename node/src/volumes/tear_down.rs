//! A pod's volumes taken away, from what is on disk alone: after a restart nothing else is known. Blocking.

use steersman_api::Uid;
use tokio::time::Instant;

use super::disk::{DiskError, mounts, names, remove_empty_dir, sub_path};
use super::kinds::{PLUGINS, empty_dir};
use super::metrics::{Metrics, Operation};
use super::set_up::place;
use crate::root_dir::RootDir;

/// Takes away all volumes of a pod, first what is mounted of their parts. Goes as far as it can.
pub(super) fn volumes(root: &RootDir, uid: &Uid, metrics: &Metrics) -> Result<(), DiskError> {
    sub_path::remove_all(&root.pod_sub_paths(uid))?;
    let mut first = None;
    for folder in names(&root.pod_volumes(uid))? {
        let path = root.pod_volumes(uid).join(&folder);
        let plugin = PLUGINS.into_iter().find(|plugin| plugin.replace('/', "~") == folder);
        for volume in names(&path)? {
            let began = Instant::now();
            let gone = match plugin {
                Some(plugin) => empty_dir::tear_down(&place(root, uid, plugin, &volume)),
                None => foreign(&path.join(&volume), &folder),
            };
            metrics.done(Operation::Unmount, plugin.unwrap_or("N/A"), gone.is_ok(), began.elapsed());
            if let Err(error) = gone {
                tracing::warn!(pod = %uid, %volume, plugin = %folder, %error, "volume is still there");
                first.get_or_insert(error);
            }
        }
        if first.is_none() {
            remove_empty_dir(&path)?;
        }
    }
    first.map_or(Ok(()), Err)
}

/// A volume of a plugin that only another agent has had: what is empty goes, and nothing else.
fn foreign(path: &std::path::Path, plugin: &str) -> Result<(), DiskError> {
    if mounts::is_mount_point(path)? || !names(path)?.is_empty() {
        let what = path.display();
        return Err(DiskError::Invalid(format!(
            "{what} is of plugin {plugin}, which this node does not have"
        )));
    }
    remove_empty_dir(path)
}

/// Takes away the folder of a pod without volumes, and all else that it holds.
pub(super) fn pod_folder(root: &RootDir, uid: &Uid) -> Result<(), DiskError> {
    let folder = root.pod(uid);
    remove_empty_dir(&root.pod_volumes(uid))?;
    for name in names(&folder)? {
        mounts::remove_tree(&folder.join(name))?;
    }
    remove_empty_dir(&folder)
}
