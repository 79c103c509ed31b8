//! Removal of a folder with everything in it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, unlinkat,
};
use rustix::io::Errno;

use super::{DiskError, During};

/// A folder whose entries are being removed.
struct Level {
    path: PathBuf,
    /// The open folder. A mount that arrives over its path later does not change which folder this is.
    entries: Dir,
}

/// What became of a folder's next entry.
enum Next {
    /// The entry is a folder, which must be emptied first.
    Entered(Level),
    /// The entry is gone.
    Removed,
    /// The folder has no more entries.
    None,
}

/// A path that could not be removed, and why.
struct Failure(PathBuf, Errno);

/// Removes a folder with everything in it. Never enters a mount, not even one that arrives meanwhile, and never follows a
/// link. Keeps one file open for each level of the tree. Blocks.
///
/// # Errors
/// The operating system's, or [`DiskError::Mounted`]. Part of the tree may be gone by then.
pub(in crate::volumes) fn remove(path: &Path) -> Result<(), DiskError> {
    let Some(parent) = path.parent().filter(|_| path.file_name().is_some()) else {
        return Err(DiskError::Invalid(format!("{path:?} names no folder that can be removed")));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = open(parent, flags, Mode::empty()).during("opening directory", parent)?;
    remove_in(parent.as_fd(), path).map_err(|Failure(at, errno)| match errno {
        // The kernel neither enters a mount here nor removes a folder or file that has a mount over it.
        Errno::XDEV | Errno::BUSY => DiskError::Mounted { mount: at, path: path.to_owned() },
        _ => DiskError::Io { operation: "removing", path: at, source: errno.into() },
    })
}

fn remove_in(parent: BorrowedFd<'_>, path: &Path) -> Result<(), Failure> {
    let top = enter(parent, path).map_err(|errno| Failure(path.to_owned(), errno))?;
    // From the top down to the folder that is being emptied. No recursion: a pod decides how deep its tree is.
    let mut levels = vec![top];
    while let Some(level) = levels.last_mut() {
        match level.remove_next()? {
            Next::Entered(below) => levels.push(below),
            Next::Removed => {}
            Next::None => {
                let Level { path, .. } = levels.pop().expect("the level must be there");
                let above = levels.last().map_or(Ok(parent), |above| above.entries.fd());
                let removed = above.and_then(|above| unlinkat(above, name(&path), AtFlags::REMOVEDIR));
                unless_gone(removed).map_err(|errno| Failure(path, errno))?;
            }
        }
    }
    Ok(())
}

impl Level {
    fn remove_next(&mut self) -> Result<Next, Failure> {
        let Some(entry) = self.entries.read() else { return Ok(Next::None) };
        let opened = entry.and_then(|entry| Ok((entry, self.entries.fd()?)));
        let (entry, folder) = opened.map_err(|errno| Failure(self.path.clone(), errno))?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            return Ok(Next::Removed);
        }
        let path = self.path.join(OsStr::from_bytes(bytes));
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            match enter(folder, &path) {
                Ok(below) => return Ok(Next::Entered(below)),
                // The entry is no folder, or not any more.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(Failure(path, errno)),
            }
        }
        unless_gone(unlinkat(folder, entry.file_name(), AtFlags::empty()))
            .map_err(|errno| Failure(path, errno))?;
        Ok(Next::Removed)
    }
}

/// Opens the folder at `path`, whose parent is open, unless it is a mount point (`XDEV`) or a link (`LOOP` or `NOTDIR`).
fn enter(parent: BorrowedFd<'_>, path: &Path) -> Result<Level, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat2(parent, name(path), flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        // Kernels before 5.6 have no such call. What they tell apart are file systems, not mounts.
        Err(Errno::NOSYS) => {
            let folder = openat(parent, name(path), flags, Mode::empty())?;
            if fstat(&folder)?.st_dev != fstat(parent)?.st_dev {
                return Err(Errno::XDEV);
            }
            folder
        }
        opened => opened?,
    };
    Ok(Level { path: path.to_owned(), entries: Dir::new(folder)? })
}

/// The last part of a path that ends with a name.
fn name(path: &Path) -> &OsStr {
    path.file_name().expect("the path must end with a name")
}

fn unless_gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
}
