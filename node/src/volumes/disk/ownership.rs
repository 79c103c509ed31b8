//! The group that a volume belongs to.

use std::os::unix::fs::{PermissionsExt, lchown};
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
/// what is made in folders belongs to the group as well. What can't be changed is logged and left.
pub(in crate::volumes) fn give_to_group(path: &Path, group: u32, access: Access) -> Result<(), DiskError> {
    let meta = std::fs::symlink_metadata(path).during("looking at", path)?;
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).during("reading directory", path)? {
            give_to_group(&entry.during("reading directory", path)?.path(), group, access)?;
        }
    }
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
    Ok(())
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
    use std::os::unix::fs::MetadataExt;

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
}
