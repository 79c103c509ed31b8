//! The disk that a journal writes to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::{CACHE, FILE};

/// The file that holds the reserve.
const RESERVE: &str = "reserve";
/// How many bytes are reserved on the disk. A delete needs a few pages of 4 KiB until the one after it; what is being written
/// when the disk fills up needs its own size.
const RESERVED: u64 = 8 << 20;
/// How many of them only deletes may use.
pub(super) const FOR_DELETES: u64 = RESERVED / 2;
/// How many bytes of the reserve are given back at once.
const PART: u64 = 512 << 10;

/// Where a journal's database is, and the space that is held for it.
pub(super) trait Volume: Send {
    /// Opens the database.
    ///
    /// # Errors
    /// It can't be read, or not be written.
    fn open(&self) -> Result<Database, DatabaseError>;

    /// Holds the reserve: nobody else can use that space of the disk. Does nothing where it is held.
    ///
    /// # Errors
    /// There is no space for it. What is held of it already stays so.
    fn hold_reserve(&self) -> io::Result<()>;

    /// Gives a part of the reserve back, so that the database can grow by it, and keeps `keep` bytes. Not all at once: the
    /// program that filled the disk takes what is left. Returns how many bytes; zero if no more than `keep` are held.
    ///
    /// # Errors
    /// The system does not let us.
    fn release_reserve(&self, keep: u64) -> io::Result<u64>;
}

/// The folder of a server, as a volume.
pub(super) struct Folder {
    path: PathBuf,
    /// Keeps other processes away.
    _lock: File,
}

impl Folder {
    /// A folder whose lock is held.
    pub(super) fn locked(path: &Path, lock: File) -> Self {
        Self { path: path.to_owned(), _lock: lock }
    }

    fn reserve(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600).open(self.path.join(RESERVE))
    }
}

impl Volume for Folder {
    fn open(&self) -> Result<Database, DatabaseError> {
        Database::builder().set_cache_size(CACHE).open(self.path.join(FILE))
    }

    fn hold_reserve(&self) -> io::Result<()> {
        let file = self.reserve()?;
        let held = file.metadata()?.len();
        if held >= RESERVED {
            return Ok(());
        }
        // A file system may leave a part of what it could not do.
        allocate(&file, held).inspect_err(|_| _ = file.set_len(held))
    }

    fn release_reserve(&self, keep: u64) -> io::Result<u64> {
        let file = self.reserve()?;
        let held = file.metadata()?.len();
        let part = held.saturating_sub(keep).min(PART);
        file.set_len(held - part)?;
        Ok(part)
    }
}

/// Gives a file all of the blocks that it is to have, and does not have yet.
fn allocate(mut file: &File, held: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), held, RESERVED - held) {
        // The file system can't do it, and has to take bytes instead.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            file.seek(SeekFrom::End(0))?;
            io::copy(&mut io::repeat(0).take(RESERVED - held), &mut file)?;
            file.sync_all()
        }
        done => Ok(done?),
    }
}

/// Whether a disk, or what one user may have of it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
