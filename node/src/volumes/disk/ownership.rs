//! The group that a volume belongs to.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use super::{DiskError, During};

/// What the group may do with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volumes) enum Access {
    /// Read and write.
    ReadWrite,
    /// Read.
    ReadOnly,
}

/// Gives a volume with all that is in it to a group (`fsGroup`): files can be read (and written), folders entered too, and
/// what is made in folders belongs to the group as well. Logs what can't be changed and leaves it.
pub(in crate::volumes) fn give_to_group(path: &Path, group: u32, access: Access) -> Result<(), DiskError> {
    give_all_to_group(path, group, access, &mut || {})
}

/// [`give_to_group`], calling `changed` after each file and folder. A folder is changed after all that is in it, so that the
/// volume's own folder [`is given`](is_given) only once everything is.
///
/// The depth of the volume, which a pod may have filled, costs neither stack nor open files.
pub(in crate::volumes) fn give_all_to_group(
    path: &Path,
    group: u32,
    access: Access,
    changed: &mut dyn FnMut(),
) -> Result<(), DiskError> {
    let mut give = |path: &Path, meta: &Metadata| {
        give_one_to_group(path, meta, group, access);
        changed();
    };
    let meta = std::fs::symlink_metadata(path).during("looking at", path)?;
    if !meta.is_dir() {
        give(path, &meta);
        return Ok(());
    }
    // Folders that are being walked through, each with its folders that are still to come.
    let mut walk = vec![(path.to_owned(), folders_after_files(path, &mut give)?)];
    while let Some((folder, inner)) = walk.last_mut() {
        if let Some(name) = inner.pop() {
            let next = folder.join(name);
            let inner = folders_after_files(&next, &mut give)?;
            walk.push((next, inner));
        } else {
            give(folder, &std::fs::symlink_metadata(&*folder).during("looking at", folder)?);
            walk.pop();
        }
    }
    Ok(())
}

/// Gives what is in a folder, except for its folders, and returns their names.
fn folders_after_files(
    folder: &Path,
    give: &mut dyn FnMut(&Path, &Metadata),
) -> Result<Vec<OsString>, DiskError> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).during("reading directory", folder)? {
        let entry = entry.during("reading directory", folder)?;
        let path = entry.path();
        let meta = entry.metadata().during("looking at", &path)?;
        if meta.is_dir() {
            folders.push(entry.file_name());
        } else {
            give(&path, &meta);
        }
    }
    Ok(folders)
}

fn give_one_to_group(path: &Path, meta: &Metadata, group: u32, access: Access) {
    if let Err(error) = lchown(path, None, Some(group)) {
        tracing::error!(path = %path.display(), %error, "group can't be changed");
    }
    // A link has no permissions of its own.
    if !meta.is_symlink() {
        let mode = mode_for_group(meta.permissions().mode(), meta.is_dir(), access);
        if let Err(error) = super::set_mode(path, mode) {
            tracing::error!(%error, "mode can't be changed");
        }
    }
}

/// Whether a volume's own folder belongs to the group and has the permissions that [`give_to_group`] gives it
/// (`fsGroupChangePolicy: OnRootMismatch`). A file never counts as given.
pub(in crate::volumes) fn is_given(path: &Path, group: u32, access: Access) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| {
        let mode = meta.permissions().mode() & 0o7777;
        meta.is_dir() && meta.gid() == group && mode_for_group(mode, true, access) == mode
    })
}

fn mode_for_group(mode: u32, is_dir: bool, access: Access) -> u32 {
    let wanted = match access {
        Access::ReadWrite => 0o660,
        Access::ReadOnly => 0o440,
    };
    (mode & 0o7777) | wanted | if is_dir { 0o2110 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_widened_as_upstream_does() {
        for (mode, is_dir, access, expected) in [
            (0o100_600, false, Access::ReadOnly, 0o640),
            (0o100_400, false, Access::ReadWrite, 0o660),
            (0o040_755, true, Access::ReadOnly, 0o2755),
            (0o040_777, true, Access::ReadWrite, 0o2777),
            (0o041_700, true, Access::ReadWrite, 0o3770),
        ] {
            assert_eq!(mode_for_group(mode, is_dir, access), expected, "{mode:o}");
        }
    }

    #[test]
    fn a_group_gets_all_that_is_in_a_volume_and_nothing_behind_its_links() {
        if !crate::volumes::tests::is_root() {
            return;
        }
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "x").unwrap();
        super::super::set_mode(&secret, 0o600).unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), "x").unwrap();
        std::os::unix::fs::symlink(&secret, dir.path().join("link")).unwrap();
        give_to_group(dir.path(), 4321, Access::ReadOnly).unwrap();
        let meta = |path: &Path| std::fs::symlink_metadata(path).unwrap();
        for path in ["", "sub", "sub/file", "link"] {
            assert_eq!(meta(&dir.path().join(path)).gid(), 4321, "{path:?}");
        }
        assert_eq!(meta(&dir.path().join("sub")).mode() & 0o7000, 0o2000);
        assert_eq!((meta(&secret).gid(), meta(&secret).mode() & 0o777), (0, 0o600));
    }

    #[test]
    fn a_folder_is_given_once_group_and_permissions_are_as_they_would_be_made() {
        if !crate::volumes::tests::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for (group, mode, given) in [
            (4321, 0o2770, true),
            (4321, 0o2775, true),
            (4321, 0o0770, false),
            (4321, 0o2750, false),
            (4322, 0o2770, false),
        ] {
            lchown(dir.path(), None, Some(group)).unwrap();
            super::super::set_mode(dir.path(), mode).unwrap();
            assert_eq!(is_given(dir.path(), 4321, Access::ReadWrite), given, "{group} {mode:o}");
        }
        give_to_group(&file, 4321, Access::ReadWrite).unwrap();
        assert!(!is_given(&file, 4321, Access::ReadWrite));
        assert!(!is_given(&dir.path().join("none"), 4321, Access::ReadWrite));
    }

    #[test]
    fn a_deep_volume_is_given_with_few_files_open_and_its_own_folder_last() {
        const DEPTH: usize = 600;
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join(["d"; DEPTH].join("/"));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("file"), "x").unwrap();
        let own = rustix::process::getegid().as_raw();
        let mut changed = 0;
        give_all_to_group(dir.path(), own, Access::ReadOnly, &mut || {
            if changed == 0 {
                let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
                assert!(open < DEPTH / 2, "{open} files are open at the deepest place");
            }
            changed += 1;
            assert_eq!(is_given(dir.path(), own, Access::ReadOnly), changed == DEPTH + 2);
        })
        .unwrap();
        assert_eq!(changed, DEPTH + 2);
    }
}
