//! Removal of a folder with everything in it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;

/// Maximum number of folders that are open at a time: a pod decides how deep its tree is.
const OPEN: usize = 64;

/// Why something of a tree is still there. Other parts of the tree may be gone.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Something is mounted in the tree, or on its top.
    #[error("{0:?} is still mounted")]
    Mounted(PathBuf),
    /// The operating system refused.
    #[error("removing {path:?}: {source}")]
    Io {
        /// What is still there.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Removes a folder with everything in it, or a file or link. Never enters a mount, not even one that arrives meanwhile, and
/// never follows a link below the folder that `path` is in. Does nothing if `path` does not exist. Blocks.
///
/// # Errors
/// The operating system's, or something is mounted in the tree.
pub fn remove_tree(path: &Path) -> Result<(), TreeError> {
    let refused = |errno: Errno| TreeError::Io { path: path.to_owned(), source: errno.into() };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused(Errno::INVAL));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match open(folder, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        parent => parent.map_err(refused)?,
    };
    let mut tree =
        Tree { folder, parent: parent.as_fd(), levels: Vec::new(), was_moved: false, names_tried: 0 };
    tree.remove(name)
}

/// A tree that is being removed.
struct Tree<'a> {
    /// The folder that the tree is in, by its path and open.
    folder: &'a Path,
    parent: BorrowedFd<'a>,
    /// From the top of the tree down to the folder that is being emptied, at most [`OPEN`].
    levels: Vec<Level>,
    /// Whether folders were moved into the top since it was opened.
    was_moved: bool,
    /// How many names were tried for folders that were moved into the top.
    names_tried: u64,
}

/// A folder whose entries are being removed.
struct Level {
    name: OsString,
    /// The open folder. A mount that arrives over its path later does not change which folder this is.
    entries: Dir,
}

impl Tree<'_> {
    /// Removes the tree of that name. A loop, since recursion would go as deep as the tree.
    fn remove(&mut self, name: &OsStr) -> Result<(), TreeError> {
        self.remove_entry(name, FileType::Unknown)?;
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.read() else {
                self.remove_emptied()?;
                continue;
            };
            let entry = entry.map_err(|errno| self.failure(OsStr::new(""), errno))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                self.remove_entry(name, entry.file_type())?;
            }
        }
        Ok(())
    }

    /// Removes an entry of the innermost folder, unless that entry is a folder itself: enters it then, or moves it up.
    fn remove_entry(&mut self, name: &OsStr, kind: FileType) -> Result<(), TreeError> {
        if matches!(kind, FileType::Directory | FileType::Unknown) {
            if self.levels.len() == OPEN {
                return self.move_to_top(name);
            }
            match self.innermost().and_then(|folder| enter(folder, name)) {
                Ok(entries) => {
                    self.levels.push(Level { name: name.to_owned(), entries });
                    return Ok(());
                }
                // The entry is no folder, or not any more.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(self.failure(name, errno)),
            }
        }
        let removed = self.innermost().and_then(|folder| unlinkat(folder, name, AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failure(name, errno)),
        }
    }

    /// Moves an entry of the innermost folder into the top, where there is room to enter it.
    fn move_to_top(&mut self, name: &OsStr) -> Result<(), TreeError> {
        loop {
            let free = format!("removed-{}", self.names_tried);
            self.names_tried += 1;
            let moved = match &self.levels[..] {
                [top, .., innermost] => {
                    let (from, to) = (innermost.entries.fd(), top.entries.fd());
                    from.and_then(|from| renameat(from, name, to?, &free))
                }
                _ => Ok(()),
            };
            match moved {
                Ok(()) => {
                    self.was_moved = true;
                    return Ok(());
                }
                Err(Errno::NOENT) => return Ok(()),
                // The name is not free.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
                Err(errno) => return Err(self.failure(name, errno)),
            }
        }
    }

    /// Removes the innermost folder, which has no more entries.
    fn remove_emptied(&mut self) -> Result<(), TreeError> {
        let Some(Level { name, entries }) = self.levels.pop() else { return Ok(()) };
        drop(entries);
        let removed = self.innermost().and_then(|above| unlinkat(above, &name, AtFlags::REMOVEDIR));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Folders may have been moved there after its entries were read.
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if self.levels.is_empty() && mem::take(&mut self.was_moved) =>
            {
                self.remove_entry(&name, FileType::Directory)
            }
            Err(errno) => Err(self.failure(&name, errno)),
        }
    }

    fn innermost(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.levels.last().map_or(Ok(self.parent), |level| level.entries.fd())
    }

    /// Why an entry of the innermost folder is still there.
    fn failure(&self, name: &OsStr, errno: Errno) -> TreeError {
        let mut path = self.folder.to_owned();
        path.extend(self.levels.iter().map(|level| &level.name));
        path.extend(Some(name).filter(|name| !name.is_empty()));
        match errno {
            // The kernel neither enters a mount here nor removes or moves what has a mount over it.
            Errno::XDEV | Errno::BUSY => TreeError::Mounted(path),
            _ => TreeError::Io { path, source: errno.into() },
        }
    }
}

/// Opens a folder whose parent is open, unless it is a mount point (`XDEV`) or a link (`LOOP` or `NOTDIR`).
fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat2(parent, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        // Kernels before 5.6 have no such call. What they tell apart are file systems, not mounts.
        Err(Errno::NOSYS) => {
            let folder = openat(parent, name, flags, Mode::empty())?;
            if fstat(&folder)?.st_dev != fstat(parent)?.st_dev {
                return Err(Errno::XDEV);
            }
            folder
        }
        opened => opened?,
    };
    Dir::new(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use rustix::fs::mkdirat;

    use super::*;

    /// Makes folders in one another, all of that name.
    fn make_deep(top: &Path, name: &str, depth: usize) {
        let mut folder = open(top, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..depth {
            mkdirat(&folder, name, Mode::RWXU).unwrap();
            folder = openat(&folder, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_tree_goes_with_its_links_and_without_what_they_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("tree/a/b")).unwrap();
        fs::create_dir(at("outside")).unwrap();
        fs::write(at("outside/file"), "x").unwrap();
        for link in ["tree/link", "tree/a/b/link", "link"] {
            symlink(at("outside"), at(link)).unwrap();
        }
        fs::write(at("file"), "x").unwrap();
        for name in ["tree", "link", "file", "missing", "missing/too"] {
            remove_tree(&at(name)).unwrap();
            assert!(at(name).symlink_metadata().is_err(), "{name}");
        }
        assert!(at("outside/file").is_file());
        remove_tree(Path::new("/")).unwrap_err();
    }

    #[test]
    fn what_can_not_be_removed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("tree/a")).unwrap();
        let tree = Tree {
            folder: folder.path(),
            parent: rustix::fs::CWD,
            levels: vec![Level {
                name: "tree".into(),
                entries: Dir::new(
                    open(folder.path().join("tree"), OFlags::DIRECTORY, Mode::empty()).unwrap(),
                )
                .unwrap(),
            }],
            was_moved: false,
            names_tried: 0,
        };
        let said = |name: &str, errno| tree.failure(OsStr::new(name), errno).to_string();
        let path = folder.path().join("tree");
        assert_eq!(said("a", Errno::XDEV), format!("{:?} is still mounted", path.join("a")));
        assert!(said("", Errno::ACCESS).starts_with(&format!("removing {path:?}: ")));
    }

    /// Set for the process of its own that [`a_tree_is_removed_however_deep_it_is`] starts.
    const CHILD: &str = "STEERSMAN_TEST_FEW_FILES";

    /// As with a limit on open files and on memory that the depth of the tree exceeds.
    #[test]
    fn a_tree_is_removed_however_deep_it_is() {
        if std::env::var_os(CHILD).is_none() {
            let name = "tree::tests::a_tree_is_removed_however_deep_it_is";
            let output = Command::new("sh")
                .args(["-c", "ulimit -n 256; exec \"$0\" --exact \"$1\""])
                .arg(std::env::current_exe().unwrap())
                .arg(name)
                .env(CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        make_deep(&tree, &"x".repeat(255), 1000);
        make_deep(&tree, "d", 200);
        // Names that folders would get when they are moved.
        for taken in ["removed-0/not-empty", "removed-2"] {
            fs::create_dir_all(tree.join(taken)).unwrap();
        }
        fs::write(tree.join("removed-1"), "x").unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }
}
