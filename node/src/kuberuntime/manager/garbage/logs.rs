//! Logs that nobody has any more. Reads and removes files, so these calls block.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use steersman_api::Uid;
use tracing::{debug, warn};

use crate::kuberuntime::log_path::pod_uid_of_directory;
use crate::tree::remove_tree;

/// The log folders below `root`, each with the pod that it is named after; none where `root` is not there.
pub(super) fn pod_folders(root: &Path) -> io::Result<Vec<(Uid, PathBuf)>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries
        .map(|entry| {
            let entry = entry?;
            Ok((pod_uid_of_directory(&entry.file_name().to_string_lossy()), entry.path()))
        })
        .collect()
}

/// Removes folders with everything in them, but for what is mounted there. Tries again at the next call what it could not
/// remove.
pub(super) fn remove_folders(folders: Vec<PathBuf>) {
    for folder in folders {
        debug!(folder = %folder.display(), "Removing pod logs");
        if let Err(error) = remove_tree(&folder) {
            warn!(folder = %folder.display(), %error, "Failed to remove pod logs directory");
        }
    }
}

/// The links below `root` that lead nowhere, each with the id of its container.
pub(super) fn dangling_links(root: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let dangling = links.map(|entry| entry.path()).filter(|path| {
        path.extension().is_some_and(|extension| extension == "log")
            && matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    });
    dangling.filter_map(|path| Some((container_id(&path)?, path))).collect()
}

/// The id at the end of a link's name. Of a name that was cut short this is no id, or the start of one: no container has it.
fn container_id(path: &Path) -> Option<String> {
    let name = path.file_stem()?.to_str()?;
    Some(name.rsplit('-').next()?.to_owned())
}

/// Removes links; what stays is tried again the next time.
pub(super) fn remove_links(links: Vec<PathBuf>) {
    for link in links {
        match fs::remove_file(&link) {
            Ok(()) => debug!(link = %link.display(), "Removed symlink"),
            Err(error) => {
                warn!(link = %link.display(), %error, "Failed to remove container log dead symlink");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::mount::{UnmountFlags, mount_bind, unmount};

    use super::*;

    #[test]
    fn folders_are_known_by_their_pods() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("shop_web_u-1")).unwrap();
        let found = pod_folders(root.path()).unwrap();
        assert_eq!(found, [(Uid::from("u-1"), root.path().join("shop_web_u-1"))]);
        assert_eq!(pod_folders(&root.path().join("missing")).unwrap(), []);
    }

    #[test]
    fn folders_go_without_what_is_mounted_in_them() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in ["web/app", "other/app", "precious"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("precious/file"), "").unwrap();
        mount_bind(at("precious"), at("web/app")).unwrap();
        remove_folders(vec![at("web"), at("other")]);
        let left = (at("precious/file").exists(), at("web/app/file").exists(), at("other").exists());
        unmount(at("web/app"), UnmountFlags::NOFOLLOW).unwrap();
        assert_eq!(left, (true, true, false));
        remove_folders(vec![at("web")]);
        assert!(!at("web").exists());
    }

    #[test]
    fn only_links_to_nothing_dangle() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("there"), "").unwrap();
        fs::write(path("file_ns_a-1.log"), "").unwrap();
        symlink(path("there"), path("web_ns_a-2.log")).unwrap();
        symlink(path("gone"), path("web_ns_a-3.log")).unwrap();
        symlink(path("gone"), path("other")).unwrap();
        assert_eq!(dangling_links(root.path()), [("3".to_owned(), path("web_ns_a-3.log"))]);
    }
}
