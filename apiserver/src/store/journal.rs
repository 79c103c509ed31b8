//! What makes a store outlive its process.
//!
//! The store lives in memory, and each write goes to a queue as it is made. One thread takes all that is queued, commits it
//! in one transaction, and says up to which version all is safe. No client learns of a write before: answers wait for it
//! ([`Store::settled`]), and so do watches. So no version is ever seen that a crash could take back, and many writers
//! share one wait for the disk.
//!
//! # When the disk is full
//!
//! The journal holds a reserve, a file of a few megabytes. When a commit finds no space, the journal gives parts of it back
//! until what has been taken already is committed, and tells the store, which then refuses writes that need more space and lets
//! deletes through. Once there is space for the reserve again (since the disk has it, or since deletes left some within the
//! file, which is then compacted) the store takes all writes again. The process goes on all the while, and can be started.
//!
//! Half of the reserve is for deletes alone, so that they can go on. A write that finds no space all the same is undone, with
//! all that were queued after it: their requests get an error at once, and reads go on.
//!
//! # Secrets
//!
//! With [`EncryptionKeys`], Secrets are encrypted on the disk. Those that are not, or with another key than the first, are written
//! anew at the start.
//!
//! [`Store::settled`]: super::Store::settled

mod database;
mod disk;
mod error;
mod folder;
mod seal;
mod volume;

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use redb::Database;
use steersman_api::ObjectKey;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

pub(crate) use self::database::Loaded;
use self::database::{FORMAT, check_format, load};
pub use self::disk::TestDisk;
pub use self::error::OpenError;
pub use self::seal::{EncryptionKeys, KeyFileError};
use self::volume::{FOR_DELETES, Folder, Volume, is_full};
use super::{SnapshotError, TableId};

/// The database's file in the data folder.
const FILE: &str = "store.redb";
/// How many bytes of the file are cached in memory: the objects are read once, at the start.
const CACHE: usize = 4 << 20;
/// How many writes are committed at once, at most.
const BATCH: usize = 1024;
/// How often the journal looks whether a full disk has space again.
const RETRY: Duration = Duration::from_secs(1);
/// After compacting the file the journal spends at least so many times as long on other things before it does so again.
const REST: u32 = 5;

/// One write, on its way to the disk.
pub(super) struct Entry {
    /// The version of the write.
    pub(super) version: u64,
    /// The table of the object.
    pub(super) table: TableId,
    /// Which object.
    pub(super) key: ObjectKey,
    /// Its new state; `None` if it is gone.
    pub(super) state: Option<Bytes>,
    /// How many bytes less than before it takes.
    pub(super) freed: u64,
}

/// The store of a journal.
pub(super) trait Keeper: Send + Sync + 'static {
    /// Takes in how far the journal is.
    fn note(&self, progress: Progress);

    /// Undoes all writes that are not safe. Returns the version of the last write so far: the journal drops those up to it
    /// that it has queued.
    fn undo(&self) -> u64;
}

/// What a journal tells its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// All writes up to this version are on the disk.
    Safe(u64),
    /// The disk is full: there is space for deletes only.
    Full,
    /// The disk has space again.
    Free,
    /// No write will be on the disk any more, and why. Nothing follows.
    Failed(String),
}

/// An open data folder. No other process can open it while it lives.
pub(crate) struct Journal {
    /// `None` after an error of the disk, until the next commit: the database takes nothing after one until it is opened anew.
    database: Option<Database>,
    /// After the database, which is closed first: the volume has the folder's lock.
    volume: Box<dyn Volume>,
    /// `None` while the reserve is held.
    shortage: Option<Shortage>,
    /// Queued writes up to this version were undone.
    undone: u64,
    keys: EncryptionKeys,
    /// `None` if a thread commits. Otherwise it is a task, and this is how long each commit takes.
    task: Option<Duration>,
}

/// What is known of a full disk.
struct Shortage {
    /// When to look again whether there is space.
    look_at: Instant,
    /// When the file may be compacted again.
    compact_at: Instant,
    /// How many bytes objects have left in the file since it was compacted.
    freed: u64,
}

impl Shortage {
    /// Begins now, with so many bytes unused in the file.
    fn begin(freed: u64) -> Self {
        let now = Instant::now();
        Self { look_at: now + RETRY, compact_at: now, freed }
    }
}

/// The end of the queue that writers have, and the thread at the other end. Dropping it commits what is queued; where a task commits,
/// it is lost.
pub(super) struct Writer {
    queue: Option<mpsc::UnboundedSender<Entry>>,
    thread: Option<thread::JoinHandle<()>>,
    _task: JoinSet<()>,
    keys: EncryptionKeys,
}

impl Journal {
    /// Opens a data folder, made with mode 0700 where it is missing, and reads what it holds. Secrets are encrypted with `keys`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open(folder: &Path, keys: EncryptionKeys) -> Result<(Self, Loaded), OpenError> {
        let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
        folder::close(folder, false)?;
        let lock = folder::lock(folder)?;
        if !folder.join(FILE).try_exists().map_err(failed)? {
            folder::make(folder, |_| Ok::<_, OpenError>(()))?;
        }
        // Before anything is written: a file of a newer version must stay as it is. A file that can't be opened for reading
        // is repaired below, or can't be opened there either.
        if let Ok(found) = Database::builder().set_cache_size(CACHE).open_read_only(folder.join(FILE)) {
            check_format(&found, folder)?;
        }
        let (journal, loaded) = Self::on(Box::new(Folder::locked(folder, lock)), folder, keys)?;
        if journal.shortage.is_some() && loaded.revision == 0 {
            return Err(failed(io::ErrorKind::StorageFull.into()));
        }
        Ok((journal, loaded))
    }

    /// Opens the database of a volume. `folder` is its name in errors.
    fn on(volume: Box<dyn Volume>, folder: &Path, keys: EncryptionKeys) -> Result<(Self, Loaded), OpenError> {
        let read = |source| OpenError::Read { folder: folder.to_owned(), source: Box::new(source) };
        let mut opened = volume.open().map_err(redb::Error::from);
        while opened.as_ref().is_err_and(is_out_of_space)
            && volume.release_reserve(0).is_ok_and(|part| part > 0)
        {
            opened = volume.open().map_err(redb::Error::from);
        }
        let database = opened.map_err(|error| match error {
            redb::Error::DatabaseAlreadyOpen => OpenError::InUse(folder.to_owned()),
            error => read(error),
        })?;
        let (format, mut loaded) = load(&database).map_err(read)?;
        if format > FORMAT {
            return Err(OpenError::Newer { folder: folder.to_owned(), found: format });
        }
        let outdated = decrypt(&mut loaded, &keys, folder)?;
        // An earlier process may have left space in the file.
        let shortage = if holds_reserve(&*volume) { None } else { Some(Shortage::begin(u64::MAX)) };
        let mut journal = Self { database: Some(database), volume, shortage, undone: 0, keys, task: None };
        // The user may remove the old key after this start. So the start fails if a Secret can't be written with the new key.
        if !outdated.is_empty() {
            journal.commit(&outdated, loaded.revision).map_err(|error| match is_out_of_space(&error) {
                true => OpenError::NoSpaceForSecrets(folder.to_owned()),
                false => read(error),
            })?;
            tracing::info!(secrets = outdated.len(), "Wrote Secrets anew with the first key");
        }
        Ok((journal, loaded))
    }

    /// Has a task commit instead of a thread, which takes so long for it, so that a test on one thread with paused time is the same
    /// each time. Only for disks in memory: others would keep the runtime waiting.
    fn committing_as_task(mut self, takes: Duration) -> Self {
        self.task = Some(takes);
        self
    }

    /// Starts the thread that commits, and tells the store how far it is.
    ///
    /// # Panics
    /// Outside of a tokio runtime, if a task commits.
    pub(super) fn start(self, keeper: impl Keeper) -> Writer {
        if self.shortage.is_some() {
            tracing::warn!(
                "The disk of the data folder is full: only writes that need no more space are taken"
            );
            keeper.note(Progress::Full);
        }
        let (keys, (queue, entries)) = (self.keys.clone(), mpsc::unbounded_channel());
        let mut task = JoinSet::new();
        if self.task.is_some() {
            task.spawn(async move { self.run(entries, &keeper).await });
            return Writer { queue: Some(queue), thread: None, _task: task, keys };
        }
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime without I/O can be made");
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || runtime.block_on(self.run(entries, &keeper)))
            .expect("a thread must start: without it nothing is safe");
        Writer { queue: Some(queue), thread: Some(thread), _task: task, keys }
    }

    async fn run(mut self, mut entries: mpsc::UnboundedReceiver<Entry>, keeper: &impl Keeper) {
        let _alarm = Alarm(keeper);
        loop {
            let mut batch = Vec::new();
            match self.wait_for(&mut entries, &mut batch).await {
                Some(0) => return,
                Some(_) => {
                    batch.retain(|entry| entry.version > self.undone);
                    if let Err(error) = self.store(&batch, keeper) {
                        tracing::error!(%error, "The store has failed: writes can't be stored any more");
                        keeper.note(Progress::Failed(error.to_string()));
                        return;
                    }
                }
                None => {}
            }
            if self.shortage.as_ref().is_some_and(|shortage| Instant::now() >= shortage.look_at) {
                self.look_for_space(keeper);
            }
        }
    }

    /// Waits for the next writes. Returns how many there are, zero if there are no more writers, or `None` when it is time to look for
    /// space.
    async fn wait_for(
        &mut self,
        entries: &mut mpsc::UnboundedReceiver<Entry>,
        batch: &mut Vec<Entry>,
    ) -> Option<usize> {
        let next = entries.recv_many(batch, BATCH);
        let count = match &self.shortage {
            None => next.await,
            Some(shortage) => timeout_at(shortage.look_at, next).await.ok()?,
        };
        if let Some(takes) = self.task {
            sleep(takes).await;
        }
        Some(count)
    }

    /// Commits writes; in smaller parts where the disk is full, since each commit gives back the space of what it replaces.
    /// Where not even one fits, undoes it and all later writes.
    fn store(&mut self, batch: &[Entry], keeper: &impl Keeper) -> Result<(), redb::Error> {
        let (mut rest, mut most) = (batch, batch.len());
        while let Some(last) = rest.len().min(most).checked_sub(1) {
            let (part, later) = rest.split_at(last + 1);
            let version = part[last].version;
            match self.commit(part, version) {
                Ok(()) => {
                    if let Some(shortage) = &mut self.shortage {
                        let freed = part.iter().map(|entry| entry.freed).sum();
                        shortage.freed = shortage.freed.saturating_add(freed);
                    }
                    rest = later;
                    keeper.note(Progress::Safe(version));
                }
                Err(error) if !is_out_of_space(&error) => return Err(error),
                Err(_) => {
                    let released = self.run_out_of_space(part, keeper);
                    most = part.len().div_ceil(2);
                    if released == 0 && part.len() == 1 {
                        tracing::warn!("A write was undone: the disk of the data folder has no space for it");
                        self.undone = keeper.undo();
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells the store that the disk is full, and gives a part of the reserve back for these writes. Returns how many bytes.
    fn run_out_of_space(&mut self, writes: &[Entry], keeper: &impl Keeper) -> u64 {
        if self.shortage.is_none() {
            tracing::error!(
                "The disk of the data folder is full: only writes that need no more space are taken"
            );
            self.shortage = Some(Shortage::begin(0));
            keeper.note(Progress::Full);
        }
        let are_deletes = writes.iter().all(|entry| entry.state.is_none());
        let keep = if are_deletes { 0 } else { FOR_DELETES };
        self.volume.release_reserve(keep).unwrap_or_else(|error| {
            tracing::error!(%error, "The space that is reserved for deletes can't be had");
            0
        })
    }

    /// Holds the reserve again if there is space for it; compacts the file where that may help.
    fn look_for_space(&mut self, keeper: &impl Keeper) {
        let Some(shortage) = &mut self.shortage else { return };
        let now = Instant::now();
        shortage.look_at = now + RETRY;
        let mut held = holds_reserve(&*self.volume);
        if !held && shortage.freed > 0 && now >= shortage.compact_at {
            if self.database.is_none() {
                self.database = self.volume.open().ok();
            }
            match self.database.as_mut().map(Database::compact) {
                Some(Ok(_)) => shortage.freed = 0,
                Some(Err(error)) => {
                    tracing::debug!(%error, "The file of the store can't be compacted");
                    self.database = None;
                    let _ = self.volume.release_reserve(0);
                }
                None => _ = self.volume.release_reserve(0),
            }
            shortage.compact_at = now + now.elapsed() * REST;
            held = holds_reserve(&*self.volume);
        }
        if held {
            tracing::info!("The disk of the data folder has space again: all writes are taken");
            self.shortage = None;
            keeper.note(Progress::Free);
        }
    }

    /// Commits writes in one transaction. `revision` is the version of the last one.
    fn commit(&mut self, batch: &[Entry], revision: u64) -> Result<(), redb::Error> {
        let database = match &mut self.database {
            Some(database) => database,
            closed => closed.insert(self.volume.open()?),
        };
        let done = database::commit(database, batch, revision, &self.keys);
        if done.is_err() {
            self.database = None;
        }
        done
    }
}

/// Makes a data folder whose objects `fill` writes: it has them all, or is not made.
///
/// # Errors
/// [`SnapshotError::NotEmpty`], the folder can't be made, or `fill` fails.
pub(super) fn begin_with(
    folder: &Path,
    fill: impl FnOnce(&Database) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let check = || match folder::other_than_keys(folder)? {
        Some(found) => Err(SnapshotError::NotEmpty { folder: folder.to_owned(), found }),
        None => Ok(()),
    };
    // Before anything is changed in it, and again once nobody else changes it.
    check()?;
    folder::close(folder, true)?;
    let _lock = folder::lock(folder)?;
    check()?;
    folder::make(folder, fill)
}

/// Writes objects to the database of a folder that is being made. Encrypted states stay as they are.
pub(super) fn fill(
    database: &Database,
    batch: &[Entry],
    revision: u64,
    folder: &Path,
) -> Result<(), OpenError> {
    let written = database::commit(database, batch, revision, &EncryptionKeys::default());
    written.map_err(|source| OpenError::Read { folder: folder.to_owned(), source: Box::new(source) })
}

/// Decrypts all Secrets in `loaded`. Returns the Secrets that must be written again, since they are plain or under another key than
/// the first.
fn decrypt(loaded: &mut Loaded, keys: &EncryptionKeys, folder: &Path) -> Result<Vec<Entry>, OpenError> {
    let mut outdated = Vec::new();
    for (table, key, state) in &mut loaded.objects {
        let opened = keys.open(table, key, std::mem::take(state)).map_err(|why| OpenError::Object {
            folder: folder.to_owned(),
            table: table.clone(),
            key: key.clone(),
            why: why.to_string(),
        })?;
        *state = opened.state;
        if !opened.is_current {
            let (table, key, state) = (table.clone(), key.clone(), Some(state.clone()));
            outdated.push(Entry { version: loaded.revision, table, key, state, freed: 0 });
        }
    }
    Ok(outdated)
}

/// Whether the reserve is held, or nothing but a full disk keeps it from being so: where a file system can't reserve space the
/// server does without.
fn holds_reserve(volume: &dyn Volume) -> bool {
    match volume.hold_reserve() {
        Ok(()) => true,
        Err(error) if is_full(&error) => false,
        Err(error) => {
            tracing::warn!(%error, "Space for deletes can't be reserved on the disk of the data folder");
            true
        }
    }
}

fn is_out_of_space(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(error) if is_full(error))
}

/// Tells the store when the thread panics: requests would wait for their writes for ever.
struct Alarm<'a, K: Keeper>(&'a K);

impl<K: Keeper> Drop for Alarm<'_, K> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.note(Progress::Failed("the thread that stores writes has panicked".to_owned()));
        }
    }
}

impl Writer {
    /// The encrypted form of a state that is encrypted on the disk.
    pub(super) fn seal(&self, table: &TableId, key: &ObjectKey, state: &Bytes) -> Option<Vec<u8>> {
        self.keys.seal(table, key, state)
    }

    /// Queues a write. To be called in the order of versions.
    ///
    /// What waits here is bounded by the requests under way, of which each waits for its own writes. On a full disk it does not
    /// wait long.
    pub(super) fn write(&self, entry: Entry) {
        // Once the thread has failed, no answer is a success any more.
        let _ = self.queue.as_ref().map(|queue| queue.send(entry));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
