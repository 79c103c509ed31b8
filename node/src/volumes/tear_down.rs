//! Removes a pod's volumes by what is on disk: after a restart nothing else is known. Blocking.

use std::path::{Path, PathBuf};

use steersman_api::Uid;
use tokio::time::Instant;

use super::disk::{DiskError, During, mounts, names, remove_empty_dir, sub_path};
use super::kinds::{PLUGINS, empty_dir, local};
use super::metrics::{Metrics, Operation};
use super::path_locks::PathLocks;
use super::set_up::place;
use crate::root_dir::RootDir;

/// Removes all volumes of a pod, after unmounting what containers had of their parts. Goes as far as it can.
///
/// Returns the folders that it leaves: volumes of plugins that only another agent has. How such a volume is given back only
/// its plugin knows, and a kubelet that takes the machine over again does so by what is left here.
pub(super) fn volumes(
    root: &RootDir,
    uid: &Uid,
    locks: &PathLocks,
    metrics: &Metrics,
) -> Result<Vec<PathBuf>, DiskError> {
    sub_path::remove_all(&root.pod_sub_paths(uid))?;
    let (mut left, mut first) = (Vec::new(), None);
    for folder in names(&root.pod_devices(uid))? {
        left.extend(foreign(&root.pod_devices(uid).join(folder))?);
    }
    for folder in names(&root.pod_volumes(uid))? {
        let path = root.pod_volumes(uid).join(&folder);
        let Some(plugin) = own_plugin(&folder) else {
            left.extend(foreign(&path)?);
            continue;
        };
        let mut emptied = true;
        for volume in names(&path)? {
            let began = Instant::now();
            let gone = match plugin {
                // It holds what is not the pod's own: nothing in it is removed.
                local::PLUGIN => local::tear_down(&path.join(&volume))
                    .and_then(|()| local::tear_down_device(root, locks, &volume)),
                plugin => empty_dir::tear_down(&place(root, uid, plugin, &volume)),
            };
            metrics.done(Operation::Unmount, plugin, gone.is_ok(), began.elapsed());
            if let Err(error) = gone {
                tracing::warn!(pod = %uid, %volume, plugin = %folder, %error, "volume is still there");
                emptied = false;
                first.get_or_insert(error);
            }
        }
        if emptied {
            remove_empty_dir(&path)?;
        }
    }
    first.map_or(Ok(left), Err)
}

/// The plugin of this node whose volumes a folder holds.
fn own_plugin(folder: &str) -> Option<&'static str> {
    PLUGINS.into_iter().chain([local::PLUGIN]).find(|plugin| plugin.replace('/', "~") == folder)
}

/// Removes the empty volumes in a plugin's folder, and that folder if none is left. Returns the other volumes.
fn foreign(folder: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let volumes = names(folder)?;
    if volumes.is_empty() {
        remove_empty_dir(folder)?;
        return Ok(Vec::new());
    }
    // By the table of mounts: a look at a volume whose server is gone may never return.
    let mounted = mounts::below(folder)?;
    let real = std::fs::canonicalize(folder).during("resolving", folder)?;
    let mut left = Vec::new();
    for volume in volumes {
        let (path, real) = (folder.join(&volume), real.join(&volume));
        let is_mounted = mounted.iter().any(|mount| mount.starts_with(&real));
        if is_mounted || !names(&path).is_ok_and(|inside| inside.is_empty()) {
            left.push(path);
        } else {
            remove_empty_dir(&path)?;
        }
    }
    if left.is_empty() {
        remove_empty_dir(folder)?;
    }
    Ok(left)
}

/// Removes the folder of a pod that has no volumes any more, with all else that it holds.
pub(super) fn pod_folder(root: &RootDir, uid: &Uid) -> Result<(), DiskError> {
    let folder = root.pod(uid);
    remove_empty_dir(&root.pod_volumes(uid))?;
    for name in names(&folder)? {
        mounts::remove_tree(&folder.join(name))?;
    }
    remove_empty_dir(&folder)
}
