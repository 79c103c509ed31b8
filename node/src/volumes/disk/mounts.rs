//! Mount points: found, made, taken away.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, StatxAttributes, StatxFlags, statfs, statvfs, statx};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

use super::{DiskError, During, is_missing};
use crate::machine::parse::mount_points;
use crate::tree::{self, TreeError};

const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Whether a file or folder is the root of a mount. Returns false if `path` does not exist.
pub(in crate::volumes) fn is_mount_point(path: &Path) -> Result<bool, DiskError> {
    // Without asking a file system's server, which may be gone.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    match statx(CWD, path, flags, StatxFlags::TYPE) {
        Ok(stat) if stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        }
        Err(Errno::NOENT) => Ok(false),
        // Kernels before 5.8 don't say.
        Ok(_) => {
            let path = std::fs::canonicalize(path).during("resolving", path)?;
            Ok(all()?.contains(&path))
        }
        Err(error) => Err(error).during("looking at", path),
    }
}

/// Whether a folder is the root of a file system in memory.
pub(in crate::volumes) fn is_tmpfs(path: &Path) -> Result<bool, DiskError> {
    if !is_mount_point(path)? {
        return Ok(false);
    }
    let kind = statfs(path).during("looking at the file system of", path)?.f_type;
    // The type's width differs from machine to machine.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Ok(kind as i64 == TMPFS_MAGIC)
}

/// Mounts a file system in memory over a folder, of at most `size` bytes (0: as the kernel has it), never swapped out where
/// the kernel knows how.
pub(in crate::volumes) fn mount_tmpfs(path: &Path, size: u64) -> Result<(), DiskError> {
    let size = (size > 0).then(|| format!("size={size}"));
    let options = |noswap: Option<&str>| {
        let options: Vec<&str> = size.as_deref().into_iter().chain(noswap).collect();
        CString::new(options.join(",")).expect("options of a mount must not contain NUL")
    };
    let attempt = |options: CString| mount("tmpfs", path, "tmpfs", MountFlags::empty(), options.as_c_str());
    match attempt(options(Some("noswap"))) {
        Err(Errno::INVAL) => attempt(options(None)),
        other => other,
    }
    .during("mounting tmpfs over", path)
}

/// Mounts a file system in memory that is never swapped out, and takes it away again; `folder` must be there.
pub(in crate::volumes) fn try_noswap(folder: &Path) -> Result<(), DiskError> {
    let place = &folder.join("tmpfs-noswap-test");
    std::fs::create_dir_all(place).during("making", place)?;
    let mounted = mount("tmpfs", place, "tmpfs", MountFlags::empty(), c"noswap");
    let mounted = mounted.during("mounting tmpfs with the option noswap over", place);
    if mounted.is_ok() {
        unmount_all(place)?;
    }
    std::fs::remove_dir(place).during("removing", place)?;
    mounted
}

/// Mounts what is open over a file or folder.
pub(in crate::volumes) fn bind(source: impl AsFd, target: &Path) -> Result<(), DiskError> {
    // The open file can't be exchanged for another, as its path could.
    let source = format!("/proc/self/fd/{}", source.as_fd().as_raw_fd());
    mount_bind(source, target).during("mounting over", target)
}

/// Changes the flags of a mount: those that it has, with or without those that `options` name (`ro`, `noexec`, `exec` and
/// the like). Logs other options and ignores them, as the kernel does for a folder that is mounted over another.
pub(in crate::volumes) fn remount_with<'a>(
    target: &Path,
    options: impl Iterator<Item = &'a str>,
) -> Result<(), DiskError> {
    let told = statvfs(target).during("looking at the file system of", target)?.f_flag;
    let mut flags = MountFlags::BIND;
    for (has, flag) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        flags.set(flag, told.contains(has));
    }
    let access_times = MountFlags::NOATIME | MountFlags::RELATIME | MountFlags::STRICTATIME;
    for option in options {
        match option {
            "ro" => flags.insert(MountFlags::RDONLY),
            "rw" => flags.remove(MountFlags::RDONLY),
            "nosuid" => flags.insert(MountFlags::NOSUID),
            "suid" => flags.remove(MountFlags::NOSUID),
            "nodev" => flags.insert(MountFlags::NODEV),
            "dev" => flags.remove(MountFlags::NODEV),
            "noexec" => flags.insert(MountFlags::NOEXEC),
            "exec" => flags.remove(MountFlags::NOEXEC),
            "nodiratime" => flags.insert(MountFlags::NODIRATIME),
            "diratime" => flags.remove(MountFlags::NODIRATIME),
            "noatime" => flags = (flags - access_times) | MountFlags::NOATIME,
            "relatime" => flags = (flags - access_times) | MountFlags::RELATIME,
            "strictatime" => flags = (flags - access_times) | MountFlags::STRICTATIME,
            other => tracing::warn!(target = %target.display(), option = other, "mount option has no effect"),
        }
    }
    mount_remount(target, flags, c"").during("remounting", target)
}

/// Takes away whatever is mounted on a file or folder, one over the other.
pub(in crate::volumes) fn unmount_all(path: &Path) -> Result<(), DiskError> {
    while is_mount_point(path)? {
        unmount(path, UnmountFlags::NOFOLLOW).during("unmounting", path)?;
    }
    Ok(())
}

/// Removes a file, or a folder with everything in it, but nothing if there is a mount in the folder. Does nothing if `path`
/// does not exist.
pub(in crate::volumes) fn remove_tree(path: &Path) -> Result<(), DiskError> {
    let found = std::fs::symlink_metadata(path);
    if is_missing(&found) {
        return Ok(());
    }
    if found.during("looking at", path)?.is_dir()
        && let Some(mount) = below(path)?.into_iter().next()
    {
        return Err(DiskError::Mounted { mount, path: path.to_owned() });
    }
    tree::remove_tree(path).map_err(|error| match error {
        TreeError::Mounted(mount) => DiskError::Mounted { mount, path: path.to_owned() },
        TreeError::Io { path, source } => DiskError::Io { operation: "removing", path, source },
    })
}

/// The mount points in a folder, itself among them, in the order in which they were mounted.
pub(in crate::volumes) fn below(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let real = std::fs::canonicalize(path).during("resolving", path)?;
    Ok(all()?.into_iter().filter(|mount| mount.starts_with(&real)).collect())
}

/// All mount points, as the process sees them.
fn all() -> Result<Vec<PathBuf>, DiskError> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = std::fs::read(TABLE).during("reading", Path::new(TABLE))?;
    Ok(mount_points(&table))
}

/// Has mounts below a folder seen by those who have the folder mounted, as [`share`](crate::volumes::share) tells.
pub(in crate::volumes) fn share(folder: &Path) -> Result<(), DiskError> {
    let folder = &std::fs::canonicalize(folder).during("resolving", folder)?;
    const TABLE: &str = "/proc/self/mountinfo";
    let table = std::fs::read(TABLE).during("reading", Path::new(TABLE))?;
    if is_shared(&table, folder) {
        return Ok(());
    }
    // With what is mounted below it already, which would be hidden else.
    mount_bind_recursive(folder, folder).during("mounting over itself", folder)?;
    let flags = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    mount_change(folder, flags).during("sharing mounts below", folder)
}

/// Whether a folder, whose path has no links, is on a mount that is shared: the last one made of those that hold it the
/// closest.
fn is_shared(table: &[u8], folder: &Path) -> bool {
    let lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mounts = mount_points(table).into_iter().zip(lines);
    let holding = mounts.filter(|(point, _)| folder.starts_with(point));
    // Of equal ones this takes the last.
    let closest = holding.max_by_key(|(point, _)| point.components().count());
    closest.is_some_and(|(_, line)| {
        // Optional fields begin with the seventh, and end with a dash.
        let optional = line.split(|byte| *byte == b' ').skip(6).take_while(|field| *field != b"-");
        optional.into_iter().any(|field| field.starts_with(b"shared:"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_shared_as_the_last_mount_that_holds_it_closest() {
        let table = b"1 0 8:1 / / rw,relatime - ext4 /dev/root rw\n\
                      2 1 0:22 / /data rw shared:7 - tmpfs tmpfs rw\n\
                      3 2 0:23 / /data/own rw master:7 - tmpfs tmpfs rw\n\
                      4 2 0:24 / /data/both rw - tmpfs tmpfs rw\n\
                      5 4 0:24 / /data/both rw master:3 shared:8 - tmpfs tmpfs rw\n";
        for (folder, shared) in [
            ("/var", false),
            ("/data", true),
            ("/data/x/y", true),
            ("/database", false),
            ("/data/own/x", false),
            ("/data/both/x", true),
        ] {
            assert_eq!(is_shared(table, Path::new(folder)), shared, "{folder}");
        }
    }

    #[test]
    fn a_mount_point_is_told_from_a_folder() {
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_mount_point(dir.path()).unwrap());
        assert!(!is_mount_point(&dir.path().join("none")).unwrap());
    }

    #[test]
    fn trying_what_the_kernel_keeps_from_swap_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::create_dir(&plain).unwrap();
        if crate::volumes::tests::is_root() && mount_tmpfs(&plain, 0).is_ok() {
            // The options of the mount say what the kernel took.
            let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            let kept = table.lines().any(|line| line.contains("plain") && line.contains("noswap"));
            assert_eq!(try_noswap(folder.path()).is_ok(), kept, "{table}");
            unmount_all(&plain).unwrap();
        }
        std::fs::remove_dir(&plain).unwrap();
        let _ = try_noswap(folder.path());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
