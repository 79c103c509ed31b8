//! A disk in memory that loses what a disk may lose, that may be full, and that may fail.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redb::{Database, DatabaseError, StorageBackend};
use rustix::io::Errno;

use super::database::{Loaded, prepare};
use super::volume::Volume;
use super::{CACHE, EncryptionKeys, Journal, OpenError};

/// What is written at once, or not at all.
const SECTOR: usize = 512;
/// What the disk gives to the file at once. What was never written takes no space.
const BLOCK: usize = 4096;
/// How long a commit takes where time is paused: what it does on many disks of servers.
const COMMIT: Duration = Duration::from_millis(2);
/// How many blocks are reserved, and how many of these are given back at once.
const RESERVED: usize = 256;
const PART: usize = 16;

/// A file on a disk whose power is cut, after so many operations or when asked to. From then on everything fails.
#[derive(Debug)]
pub struct TestDisk(Mutex<File>);

/// The disk as a journal and its database use it.
#[derive(Debug)]
struct Mounted(Arc<TestDisk>);

#[derive(Debug)]
struct File {
    /// As the database sees it.
    now: Vec<u8>,
    /// As no crash can take it back.
    synced: Vec<u8>,
    /// What leads from `synced` to `now`.
    pending: Vec<Operation>,
    /// How many operations are still carried out; zero once the power is cut.
    power: usize,
    /// How many operations are carried out before one fails; `None` if none is to fail.
    sound: Option<usize>,
    /// How many blocks the disk has.
    blocks: usize,
    /// How many of them somebody else has.
    others: usize,
    /// How many of them are reserved.
    reserved: usize,
    /// Which blocks of the file have been written.
    written: BTreeSet<usize>,
}

#[derive(Debug)]
enum Operation {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

impl Operation {
    fn carry_out(&self, file: &mut Vec<u8>) {
        match self {
            Self::Length(length) => file.resize(*length, 0),
            Self::Bytes(at, bytes) => {
                // What lies beyond the end is lost, where the operation that moved the end was.
                let end = (at + bytes.len()).min(file.len());
                if *at < end {
                    file[*at..end].copy_from_slice(&bytes[..end - at]);
                }
            }
        }
    }

    /// The parts that come through, or not, each on its own.
    fn parts(self) -> Vec<Self> {
        let Self::Bytes(at, bytes) = self else { return vec![self] };
        let mut parts = Vec::new();
        let (mut from, end) = (at, at + bytes.len());
        while from < end {
            let to = ((from / SECTOR + 1) * SECTOR).min(end);
            parts.push(Self::Bytes(from, bytes[from - at..to - at].to_vec()));
            from = to;
        }
        parts
    }
}

impl TestDisk {
    /// One with this file, and power for so many operations.
    pub fn new(file: Vec<u8>, power: usize) -> Arc<Self> {
        let written = (0..file.len().div_ceil(BLOCK)).collect();
        let (pending, sound, blocks, others, reserved) = (Vec::new(), None, usize::MAX, 0, 0);
        let file = File {
            now: file.clone(),
            synced: file,
            pending,
            power,
            sound,
            blocks,
            others,
            reserved,
            written,
        };
        Arc::new(Self(Mutex::new(file)))
    }

    /// A file as the journal makes it for a new folder.
    pub fn new_file() -> Vec<u8> {
        let disk = Self::new(Vec::new(), usize::MAX);
        let database = Database::builder().create_with_backend(Mounted(Arc::clone(&disk)));
        let database = database.expect("a sound disk takes a database");
        prepare(&database).expect("a sound disk takes a database");
        drop(database);
        disk.after_the_crash(0)
    }

    /// Opens the journal on this disk.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub(crate) fn open(self: &Arc<Self>) -> Result<(Journal, Loaded), OpenError> {
        Journal::on(Box::new(Mounted(Arc::clone(self))), Path::new("/data"), EncryptionKeys::default())
    }

    /// Opens the journal on this disk, for a test on one thread with paused time.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub(crate) fn open_on_one_thread(self: &Arc<Self>) -> Result<(Journal, Loaded), OpenError> {
        let (journal, loaded) = self.open()?;
        Ok((journal.committing_as_task(COMMIT), loaded))
    }

    /// One with this file, and so many blocks of 4 KiB. Its power is never cut.
    pub fn of_blocks(file: Vec<u8>, blocks: usize) -> Arc<Self> {
        let disk = Self::new(file, usize::MAX);
        disk.0.lock().blocks = blocks;
        disk
    }

    /// Keeps all users of the disk waiting for as long as the guard lives.
    pub fn hold(&self) -> impl Drop {
        self.0.lock()
    }

    /// Somebody else takes all that is left.
    pub fn fill(&self) {
        let mut file = self.0.lock();
        file.others += file.free();
    }

    /// Somebody else gives back what it took.
    pub fn empty(&self) {
        self.0.lock().others = 0;
    }

    /// One operation fails, after so many others. The disk goes on after it.
    pub fn fail_after(&self, operations: usize) {
        self.0.lock().sound = Some(operations);
    }

    /// Cuts the power.
    pub fn cut(&self) {
        self.cut_after(0);
    }

    /// Cuts the power after so many operations.
    pub fn cut_after(&self, operations: usize) {
        self.0.lock().power = operations;
    }

    /// Whether the power is cut.
    pub fn is_dead(&self) -> bool {
        self.0.lock().power == 0
    }

    /// What is there when the power is back: all that was synced, and by chance parts of what was not, in any order but
    /// that of operations on one place. To be called once.
    pub fn after_the_crash(&self, mut chance: u64) -> Vec<u8> {
        let mut file = self.0.lock();
        let mut image = mem::take(&mut file.synced);
        // Of a crash in which nothing, or everything, came through there are as many as of others.
        let likely: u64 = match chance % 6 {
            0 => 0,
            1 => 256,
            _ => (chance >> 8) % 256,
        };
        for part in mem::take(&mut file.pending).into_iter().flat_map(Operation::parts) {
            chance = next(chance);
            if chance >> 56 < likely {
                part.carry_out(&mut image);
            }
        }
        image
    }
}

/// SplitMix64.
fn next(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl File {
    /// Whether there is power for one more operation, and it does not fail.
    fn spend(&mut self) -> io::Result<()> {
        if self.power == 0 {
            return Err(io::Error::other("the power is cut"));
        }
        self.power -= 1;
        if self.sound == Some(0) {
            self.sound = None;
            return Err(Errno::IO.into());
        }
        self.sound = self.sound.map(|sound| sound - 1);
        Ok(())
    }

    /// How many blocks nobody has.
    fn free(&self) -> usize {
        self.blocks - self.others - self.reserved - self.written.len()
    }

    /// Has the disk give to the file what an operation needs.
    fn allocate(&mut self, operation: &Operation) -> io::Result<()> {
        match operation {
            Operation::Length(length) => _ = self.written.split_off(&length.div_ceil(BLOCK)),
            Operation::Bytes(at, bytes) => {
                let blocks = at / BLOCK..(at + bytes.len()).div_ceil(BLOCK);
                let new: Vec<usize> = blocks.filter(|block| !self.written.contains(block)).collect();
                if new.len() > self.free() {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.written.extend(new);
            }
        }
        Ok(())
    }

    fn change(&mut self, operation: Operation) -> io::Result<()> {
        self.spend()?;
        self.allocate(&operation)?;
        operation.carry_out(&mut self.now);
        self.pending.push(operation);
        Ok(())
    }
}

impl StorageBackend for Mounted {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.lock().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.0.0.lock();
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let found = file.now.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.0.lock().change(Operation::Length(usize::try_from(len).map_err(io::Error::other)?))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut guard = self.0.0.lock();
        let file = &mut *guard;
        file.spend()?;
        for operation in file.pending.drain(..) {
            operation.carry_out(&mut file.synced);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        self.0.0.lock().change(Operation::Bytes(at, data.to_vec()))
    }
}

impl Volume for Mounted {
    fn open(&self) -> Result<Database, DatabaseError> {
        Database::builder().set_cache_size(CACHE).create_with_backend(Mounted(Arc::clone(&self.0)))
    }

    fn hold_reserve(&self) -> io::Result<()> {
        let mut file = self.0.0.lock();
        let missing = RESERVED - file.reserved;
        if missing > file.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.reserved += missing;
        Ok(())
    }

    fn release_reserve(&self, keep: u64) -> io::Result<u64> {
        let mut file = self.0.0.lock();
        // Half of it is for deletes, as on real disks.
        let keep = if keep == 0 { 0 } else { RESERVED / 2 };
        let part = file.reserved.saturating_sub(keep).min(PART);
        file.reserved -= part;
        Ok((part * BLOCK) as u64)
    }
}
