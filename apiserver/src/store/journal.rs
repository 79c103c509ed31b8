//! What makes a store outlive its process.
//!
//! The store lives in memory, and each write goes to a queue as it is made. One thread takes all that is queued, commits it
//! in one transaction, and says up to which version all is safe. Nobody is told of a write before: answers wait for it
//! ([`Store::settled`]), and so do watches. So no version is ever seen that a crash could take back, and many writers
//! share one wait for the disk.
//!
//! [`Store::settled`]: super::Store::settled

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use steersman_api::ObjectKey;

use super::TableId;

/// The file in the data folder.
const FILE: &str = "store.redb";
/// What it is called until it is whole: the database can't tell a file whose making was broken off from a foreign one.
const UNFINISHED: &str = "store.redb.new";
/// Locked by whoever uses the folder.
const LOCK: &str = "lock";
/// The form of what is in the file. To be counted up by whoever changes it.
const FORMAT: u64 = 1;
/// How much of the file is kept in memory: what is read once, at the start, need not stay.
const CACHE: usize = 4 << 20;
/// How many writes are committed at once, at most.
const BATCH: usize = 1024;

/// Objects by table, namespace and name, as JSON without kind and API version.
const OBJECTS: TableDefinition<'_, (&str, &str, &str), &[u8]> = TableDefinition::new("objects");
/// Numbers about the whole.
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
const FACT_FORMAT: &str = "format";
const FACT_REVISION: &str = "revision";

/// Why a data folder can't be used. Each is one line for whoever starts the server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder can't be made, or its mode not be set.
    #[error("data folder {}: {source}", folder.display())]
    Folder {
        /// Which folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is there, open to other users, and holds other things.
    #[error("data folder {}: it holds other things and is open to other users: name a folder of its own", .0.display())]
    Foreign(PathBuf),
    /// Another process has it.
    #[error("data folder {}: another server is using it", .0.display())]
    InUse(PathBuf),
    /// A later version of the program wrote it.
    #[error(
        "data folder {}: it was written by a newer version (format {found}, this one knows {FORMAT})",
        folder.display()
    )]
    Newer {
        /// Which folder.
        folder: PathBuf,
        /// The format it has.
        found: u64,
    },
    /// It can't be read: it is no store, or broken.
    #[error("data folder {}: {source}", folder.display())]
    Read {
        /// Which folder.
        folder: PathBuf,
        /// What the database says.
        source: Box<redb::Error>,
    },
    /// An object in it can't be read.
    #[error("data folder {}: {table} {key} is not readable: {why}", folder.display())]
    Object {
        /// Which folder.
        folder: PathBuf,
        /// Of which table.
        table: TableId,
        /// Which object.
        key: ObjectKey,
        /// What is wrong with it.
        why: String,
    },
}

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
}

/// What a data folder held.
pub(crate) struct Loaded {
    /// The version of the last write; zero in a new folder.
    pub(crate) revision: u64,
    /// All objects, in the order of tables and keys.
    pub(crate) objects: Vec<(TableId, ObjectKey, Bytes)>,
}

/// An open data folder. No other process can open it while it lives.
pub(crate) struct Journal {
    database: Database,
    /// Goes after the database.
    _lock: File,
}

/// The end of the queue that writers have, and the thread at the other end. Dropping it commits what is queued.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Entry>>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens a data folder, made with mode 0700 where it is missing, and reads what it holds.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open(folder: &Path) -> Result<(Self, Loaded), OpenError> {
        let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
        close(folder)?;
        let lock = take(folder)?;
        if !folder.join(FILE).try_exists().map_err(failed)? {
            make(folder)?;
        }
        // Before anything is written: the file is not this version's to touch, if it is a newer one's. One that can't be
        // looked at like this can't be opened below either, or is repaired there.
        if let Ok(found) = Database::builder().set_cache_size(CACHE).open_read_only(folder.join(FILE)) {
            check_format(&found, folder)?;
        }
        let database = Database::builder().set_cache_size(CACHE).open(folder.join(FILE));
        let database = database.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(folder.to_owned()),
            error => OpenError::Read { folder: folder.to_owned(), source: Box::new(error.into()) },
        })?;
        Self::of(database, lock, folder)
    }

    fn of(database: Database, lock: File, folder: &Path) -> Result<(Self, Loaded), OpenError> {
        let read = |source| OpenError::Read { folder: folder.to_owned(), source: Box::new(source) };
        let (format, loaded) = load(&database).map_err(read)?;
        if format > FORMAT {
            return Err(OpenError::Newer { folder: folder.to_owned(), found: format });
        }
        Ok((Self { database, _lock: lock }, loaded))
    }

    /// Starts the thread that commits. After each commit it calls `committed` with the newest version that is safe, or
    /// with what went wrong; after the first failure it ends.
    pub(super) fn start(self, committed: impl Fn(Result<u64, String>) + Send + 'static) -> Writer {
        let (queue, entries) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || self.run(&entries, &committed))
            .expect("a thread must start: without it nothing is safe");
        Writer { queue: Some(queue), thread: Some(thread) }
    }

    fn run(&self, entries: &mpsc::Receiver<Entry>, committed: &impl Fn(Result<u64, String>)) {
        let _alarm = Alarm(committed);
        while let Ok(first) = entries.recv() {
            let mut batch = vec![first];
            batch.extend(entries.try_iter().take(BATCH - 1));
            let last = batch.last().map_or(0, |entry| entry.version);
            match self.commit(&batch, last) {
                Ok(()) => committed(Ok(last)),
                Err(error) => {
                    tracing::error!(%error, "writes can't be stored any more");
                    committed(Err(error.to_string()));
                    return;
                }
            }
        }
    }

    fn commit(&self, batch: &[Entry], revision: u64) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        // Costs a little at each commit, and saves the repair at the start after a crash.
        transaction.set_quick_repair(true);
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for Entry { table, key, state, .. } in batch {
                let at = (table.as_str(), key.namespace.as_str(), key.name.as_str());
                match state {
                    Some(state) => _ = objects.insert(at, state.as_ref())?,
                    None => _ = objects.remove(at)?,
                }
            }
            transaction.open_table(FACTS)?.insert(FACT_REVISION, revision)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Tells those who wait, where the thread comes to an end that nobody foresaw: otherwise they would wait for ever.
struct Alarm<'a, F: Fn(Result<u64, String>)>(&'a F);

impl<F: Fn(Result<u64, String>)> Drop for Alarm<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)(Err("the thread that stores writes has panicked".to_owned()));
        }
    }
}

/// Makes a folder where it is missing, and closes it to others.
///
/// One that was there is closed only if it is a store's, or empty: of anything else nobody knows who needs it.
fn close(folder: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let was_there = folder.try_exists().map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let open = fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o077 != 0;
    if !open {
        return Ok(());
    }
    let is_store = [FILE, UNFINISHED].iter().any(|file| folder.join(file).exists());
    let is_foreign = was_there && !is_store && fs::read_dir(folder).map_err(failed)?.next().is_some();
    if is_foreign {
        return Err(OpenError::Foreign(folder.to_owned()));
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)
}

/// Locks a folder, for as long as the file is open.
fn take(folder: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let lock =
        File::options().create(true).truncate(false).write(true).open(folder.join(LOCK)).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Makes the file of a folder that is taken: it is there when it is whole, whatever happens before.
fn make(folder: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let unfinished = folder.join(UNFINISHED);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    Database::create(&unfinished)
        .map_err(redb::Error::from)
        .and_then(|database| prepare(&database))
        .map_err(|source| OpenError::Read { folder: folder.to_owned(), source: Box::new(source) })?;
    fs::rename(&unfinished, folder.join(FILE)).map_err(failed)?;
    // Names last once the folders that have them are written.
    let sync = |folder: &Path| File::open(folder)?.sync_all();
    sync(folder).map_err(failed)?;
    // Where the folder itself is new it was made here; a parent that can't be read had it before.
    let _ = folder.canonicalize().map(|folder| folder.parent().map(sync));
    Ok(())
}

/// Makes the tables of a new file.
fn prepare(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(OBJECTS)?;
        let mut facts = transaction.open_table(FACTS)?;
        if facts.get(FACT_FORMAT)?.is_none() {
            facts.insert(FACT_FORMAT, FORMAT)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn check_format(database: &impl ReadableDatabase, folder: &Path) -> Result<(), OpenError> {
    let read = |error| OpenError::Read { folder: folder.to_owned(), source: Box::new(error) };
    match format_of(database).map_err(read)? {
        found if found > FORMAT => Err(OpenError::Newer { folder: folder.to_owned(), found }),
        _ => Ok(()),
    }
}

fn format_of(database: &impl ReadableDatabase) -> Result<u64, redb::Error> {
    let facts = database.begin_read()?.open_table(FACTS)?;
    Ok(facts.get(FACT_FORMAT)?.map_or(0, |format| format.value()))
}

fn load(database: &Database) -> Result<(u64, Loaded), redb::Error> {
    let transaction = database.begin_read()?;
    let facts = transaction.open_table(FACTS)?;
    let fact = |name| Ok::<_, redb::Error>(facts.get(name)?.map_or(0, |value| value.value()));
    let (format, revision) = (fact(FACT_FORMAT)?, fact(FACT_REVISION)?);
    let mut objects = Vec::new();
    if format <= FORMAT {
        let mut last = TableId::new();
        for found in transaction.open_table(OBJECTS)?.iter()? {
            let (at, state) = found?;
            let (table, namespace, name) = at.value();
            if last != table {
                last = table.into();
            }
            let key = ObjectKey::new(namespace, name);
            objects.push((last.clone(), key, Bytes::copy_from_slice(state.value())));
        }
    }
    Ok((format, Loaded { revision, objects }))
}

impl Writer {
    /// Queues a write. To be called in the order of versions.
    ///
    /// What waits here is bounded by the requests under way, of which each waits for its own writes.
    pub(super) fn write(&self, entry: Entry) {
        // Once the thread has failed, nobody's answer is a success any more.
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
