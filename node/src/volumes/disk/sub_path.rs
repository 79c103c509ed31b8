//! Parts of volumes, mounted on their own.
//!
//! Whoever writes to a volume may put links into it, and change them at any moment. So nothing here goes by a path twice:
//! the part is opened once, by the kernel's own rule that no step may lead out of the volume, and what is open is mounted.
//! Links that lead through the node's root and back into the volume are against that rule; where they lead is found out by
//! path, and then opened step by step, without following any link.

use std::fs::canonicalize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, mkdirat, open, openat, openat2,
    statat,
};
use rustix::io::Errno;

use super::{DiskError, During, is_missing, make_dirs, mounts, names, remove_empty_dir};

/// Opens a part of a volume, wherever links in the volume lead, as long as it is in it. Folders that are missing are made
/// with the mode of the volume.
pub(in crate::volumes) fn open_or_make(volume: &Path, part: &str) -> Result<OwnedFd, DiskError> {
    let steps: Vec<&str> = part.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    if part.starts_with('/') || steps.contains(&"..") {
        return Err(DiskError::Invalid(format!("{part:?} leads out of the volume")));
    }
    let root =
        open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).during("opening volume", volume)?;
    if steps.is_empty() {
        return Ok(root);
    }
    let whole = steps.join("/");
    let full = volume.join(&whole);
    match beneath(&root, volume, &whole) {
        Err(Errno::NOENT) => {}
        other => return other.during("opening", &full),
    }
    let mode = Mode::from_raw_mode(fstat(&root).during("looking at", volume)?.st_mode);
    let mut at = root.try_clone().during("opening volume", volume)?;
    for (depth, step) in steps.iter().enumerate() {
        at = match beneath(&root, volume, &steps[..=depth].join("/")) {
            Err(Errno::NOENT) => make_in(&at, step, mode).during("creating directory", &full)?,
            other => other.during("opening", &full)?,
        };
    }
    Ok(at)
}

/// Opens what is at `path` in the volume, whose root is open as well.
fn beneath(root: &OwnedFd, volume: &Path, path: &str) -> Result<OwnedFd, Errno> {
    match by_kernel(root, path) {
        // A link by way of the node's root, or a kernel before 5.6, which has no such rule.
        Err(Errno::XDEV | Errno::NOSYS) => by_steps(root, volume, path),
        other => other,
    }
}

fn by_kernel(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let attempts = 8;
    for _ in 1..attempts {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            // Something was renamed meanwhile, so that the kernel can't be sure.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
    openat2(root, path, flags, Mode::empty(), resolve)
}

/// Upstream's way: links lead where they lead on the node, which must be in the volume.
fn by_steps(root: &OwnedFd, volume: &Path, path: &str) -> Result<OwnedFd, Errno> {
    let real =
        |path: &Path| canonicalize(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
    let (volume, part) = (real(volume)?, real(&volume.join(path))?);
    let part = part.strip_prefix(&volume).map_err(|_| Errno::XDEV)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = root.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    for step in part.components() {
        let Component::Normal(step) = step else { return Err(Errno::XDEV) };
        at = openat(&at, step, flags, Mode::empty())?;
        // It was something else a moment ago.
        if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(at)
}

/// Makes a folder in an open one and opens it. One that is exchanged for a link meanwhile is not followed.
fn make_in(parent: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd, Errno> {
    mkdirat(parent, name, mode)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(parent, name, flags, Mode::empty())?;
    // Whatever the umask.
    fchmod(&made, mode)?;
    Ok(made)
}

/// Mounts what is open at `target`, unless it is there; the file or folder to mount over is made.
pub(in crate::volumes) fn mount_at(part: &OwnedFd, target: &Path) -> Result<(), DiskError> {
    let wanted = fstat(part).during("looking at", target)?;
    if mounts::is_mount_point(target)? {
        let there =
            statat(rustix::fs::CWD, target, AtFlags::SYMLINK_NOFOLLOW).during("looking at", target)?;
        if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino) {
            return Ok(());
        }
        mounts::unmount_all(target)?;
    }
    prepare_target(target, &wanted)?;
    mounts::bind(part.as_fd(), target).inspect_err(|_| _ = mounts::remove_tree(target))
}

fn prepare_target(target: &Path, wanted: &Stat) -> Result<(), DiskError> {
    if let Some(parent) = target.parent() {
        make_dirs(parent, 0o750)?;
    }
    let is_dir = FileType::from_raw_mode(wanted.st_mode) == FileType::Directory;
    let there = std::fs::symlink_metadata(target);
    if !is_missing(&there) {
        if there.during("looking at", target)?.is_dir() == is_dir {
            return Ok(());
        }
        mounts::remove_tree(target)?;
    }
    if is_dir {
        make_dirs(target, 0o750)
    } else {
        // A file can be mounted over by whatever is not a folder.
        std::fs::File::create_new(target).map(drop).during("creating file", target)
    }
}

/// Takes away all that is mounted of a pod's volumes' parts (`volume-subpaths`), and the folders.
pub(in crate::volumes) fn remove_all(sub_paths: &Path) -> Result<(), DiskError> {
    for volume in names(sub_paths)? {
        let volume = sub_paths.join(volume);
        for container in names(&volume)? {
            let container = volume.join(container);
            for index in names(&container)? {
                let target = container.join(index);
                mounts::unmount_all(&target)?;
                mounts::remove_tree(&target)?;
            }
            remove_empty_dir(&container)?;
        }
        remove_empty_dir(&volume)?;
    }
    remove_empty_dir(sub_paths)
}
