//! Where objects are kept: every version in memory, one order of all writes, and a journal where they are to last.
//!
//! The store knows keys, versions and history; of what an object means it knows nothing. All writes are conditional on
//! the state the writer saw, so that callers compute outside of any lock.

mod body;
mod budget;
mod cursor;
mod journal;
mod object;
mod snapshot;
mod table;
mod warm;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arcstr::ArcStr;
use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::Value;
use steersman_api::ObjectKey;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use cursor::Cursor;
pub use journal::TestDisk;
pub use journal::{EncryptionKeys, KeyFileError, OpenError};
pub(crate) use journal::{Journal, Loaded};
pub(crate) use object::{Form, Object, View};
pub(crate) use snapshot::Saved;
pub use snapshot::{SavedSnapshot, SnapshotError};
pub(crate) use table::{Change, ChangeKind, Snapshot};
pub(crate) use warm::Warm;

use crate::registry::Resource;
use budget::{Budget, Demand, Disk};
use journal::{Entry, Progress, Writer};
use object::Draft;
use table::Table;

/// Names a table: a resource with its group (`pods`, `jobs.batch`), whatever versions it is served in.
pub(crate) type TableId = ArcStr;

/// All tables under one revision, which counts every write, as etcd's does.
///
/// A write takes effect at once, and is *settled* when no crash can take it back: in memory that is the same moment,
/// with a journal a little later. Code that reports to a client what it read here waits for [`settled`](Self::settled)
/// first. Followers see settled writes only.
pub(crate) struct Store {
    shared: Arc<Shared>,
    /// Absent where nothing is to last. Its thread ends with the store, which waits for it.
    journal: OnceLock<Writer>,
    warm: Warm,
}

/// What the journal's thread knows as well.
struct Shared {
    state: RwLock<State>,
    /// Follows `state.settled`, for requests that wait until a version is safe.
    settled: watch::Sender<Settled>,
}

#[derive(Debug, Clone)]
struct Settled {
    /// Up to which version all writes are safe, or why no later write ever will be.
    safe: Result<u64, Arc<str>>,
    /// How often writes were undone.
    undone: u64,
}

/// A moment in the life of a store, see [`Store::settled_since`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(u64);

struct State {
    /// The version of the last write that is in effect. Begins at 1, since zero means "any".
    revision: u64,
    /// The last version that a write was given. After `revision` where writes were undone: no version is given twice, so that
    /// a request which has seen a state that was undone can't take a later one for it.
    issued: u64,
    /// The version of the last write that is safe; never after `revision`.
    settled: u64,
    /// What the objects of all tables take, and may take.
    budget: Budget,
    tables: Tables,
}

struct Tables {
    by_id: HashMap<TableId, Table>,
    /// The last version that an earlier process wrote. This process does not know the states before it.
    forgotten: u64,
    /// How many changes each table remembers.
    history: usize,
}

/// What a write does to its table.
enum Step {
    /// Puts an object in, in the place of its state before.
    Put(Arc<Object>),
    /// Removes the object of which this is the last state.
    Remove(Arc<Object>),
}

/// A write or a read that the present state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Create of a key that is taken: pick another name, or give up.
    #[error("the key exists")]
    Exists,
    /// The object has changed or gone since it was read: read again and decide anew.
    #[error("the object has another version")]
    Stale,
    /// The write needs more space, and the objects have all that they may take: delete some.
    #[error("no space is left")]
    NoSpace,
    /// Asked for a version whose history is forgotten: list anew. Carries the oldest version that is still known.
    #[error("versions before {0} are compacted")]
    Compacted(u64),
    /// Asked for a version that no write has reached. Carries the present one.
    #[error("the version lies ahead of {0}")]
    Future(u64),
}

/// Writes can't be made to last any more; the server has to be started again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store has failed: {0}")]
pub(crate) struct Failed(Arc<str>);

/// Why a request must not tell what it has written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Unsettled {
    /// No answer is possible any more.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The disk had no space, and writes were undone, among them perhaps what the request has written or read. Reads should
    /// be repeated; of a write it is unknown whether it was made.
    #[error("the disk is full, and the write may not have been stored")]
    Undone,
}

impl Store {
    /// An empty one whose tables remember that many changes each.
    pub(crate) fn new(history: usize) -> Self {
        Self::from_revision(history, 0)
    }

    /// One without objects yet, whose next version is the one after `revision`.
    pub(crate) fn from_revision(history: usize, revision: u64) -> Self {
        let (forgotten, revision) = (revision, revision.max(1));
        let tables = Tables { by_id: HashMap::new(), forgotten, history: history.max(1) };
        let budget = Budget::new(u64::MAX);
        let state = State { revision, issued: revision, settled: revision, budget, tables };
        let settled = Settled { safe: Ok(revision), undone: 0 };
        let shared = Shared { state: RwLock::new(state), settled: watch::Sender::new(settled) };
        Self { shared: Arc::new(shared), journal: OnceLock::new(), warm: Warm::default() }
    }

    /// The same, with a limit to the bytes that objects may take together, their keys included. By default there is none. To be
    /// called before there are objects.
    pub(crate) fn limited_to(self, bytes: u64) -> Self {
        self.shared.state.write().budget = Budget::new(bytes);
        self
    }

    /// Puts an object back that was there before the process began, without history and without an event. `json` is the
    /// journal's text of it.
    ///
    /// # Errors
    /// Why it can't be read.
    pub(crate) fn restore(
        &self,
        resource: &Arc<Resource>,
        key: ObjectKey,
        json: Bytes,
    ) -> Result<(), String> {
        let object = Arc::new(Object::restored(Arc::clone(resource), key, json)?);
        let mut state = self.shared.state.write();
        state.budget.count(object.space());
        state.tables.table(&resource.table).restore(object);
        Ok(())
    }

    /// Which objects have more at hand than their bytes.
    pub(crate) fn warm(&self) -> &Warm {
        &self.warm
    }

    /// From now on all writes go to the journal. To be called once, before the first write.
    ///
    /// `undone` is called after each time that writes were undone, since the disk had no space for them: what was derived from
    /// them must be derived anew.
    pub(crate) fn keep_in(&self, journal: Journal, undone: impl Fn() + Send + Sync + 'static) {
        let keeper = Keeper { shared: Arc::clone(&self.shared), undone: Box::new(undone) };
        if self.journal.set(journal.start(keeper)).is_err() {
            unreachable!("a store must be given its journal once");
        }
    }

    /// Marks the present moment, for [`settled_since`](Self::settled_since).
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.shared.settled.borrow().undone)
    }

    /// Resolves once all that was written so far is safe.
    ///
    /// `mark` must be from before the caller's first read or write: what it has seen since then is known to last if this
    /// succeeds.
    ///
    /// # Errors
    /// See [`Unsettled`].
    pub(crate) async fn settled_since(&self, mark: Mark) -> Result<(), Unsettled> {
        let revision = self.revision();
        let mut settled = self.shared.settled.subscribe();
        let done = |settled: &Settled| {
            settled.undone != mark.0 || settled.safe.as_ref().map_or(true, |safe| *safe >= revision)
        };
        // The sender lives as long as `self`, so the wait can't fail.
        match settled.wait_for(done).await.as_deref() {
            Ok(Settled { safe: Err(why), .. }) => Err(Failed(Arc::clone(why)).into()),
            Ok(Settled { undone, .. }) if *undone != mark.0 => Err(Unsettled::Undone),
            _ => Ok(()),
        }
    }

    /// Resolves once the present state is safe, whatever becomes of it until then.
    ///
    /// # Errors
    /// It never will be.
    pub(crate) async fn settled(&self) -> Result<(), Failed> {
        loop {
            match self.settled_since(self.mark()).await {
                Ok(()) => return Ok(()),
                Err(Unsettled::Failed(failed)) => return Err(failed),
                Err(Unsettled::Undone) => {}
            }
        }
    }

    /// Resolves when writes can't be made to last any more.
    pub(crate) async fn failed(&self) -> Failed {
        let mut settled = self.shared.settled.subscribe();
        if let Ok(Settled { safe: Err(why), .. }) =
            settled.wait_for(|settled| settled.safe.is_err()).await.as_deref()
        {
            return Failed(Arc::clone(why));
        }
        // The sender lives as long as `self`.
        std::future::pending().await
    }

    /// The version of the last write that is in effect.
    pub(crate) fn revision(&self) -> u64 {
        self.shared.state.read().revision
    }

    /// Resolves once that version has been reached, and is safe; or never will be.
    pub(crate) async fn reached(&self, version: u64) {
        let mut settled = self.shared.settled.subscribe();
        // The sender lives as long as `self`, so the wait can't fail.
        let _ = settled.wait_for(|settled| settled.safe.as_ref().map_or(true, |safe| *safe >= version)).await;
    }

    /// The present state of one object.
    pub(crate) fn get(&self, table: &TableId, key: &ObjectKey) -> Option<Arc<Object>> {
        self.shared.state.read().tables.get(table)?.get(key).cloned()
    }

    /// Adds an object.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoSpace`].
    pub(crate) fn create(
        &self,
        resource: &Arc<Resource>,
        key: ObjectKey,
        value: Value,
    ) -> Result<Arc<Object>, Error> {
        let draft = Draft::new(resource, value);
        let written = self.write(resource, |table, version| {
            if table.get(&key).is_some() {
                return Err(Error::Exists);
            }
            Ok(Step::Put(Arc::new(Object::new(Arc::clone(resource), key, version, draft))))
        })?;
        self.warm.note_value(&written);
        Ok(written)
    }

    /// Puts a new state in the place of `seen`.
    ///
    /// # Errors
    /// [`Error::Stale`] if `seen` is no longer the present state; [`Error::NoSpace`].
    pub(crate) fn replace(&self, seen: &Object, value: Value) -> Result<Arc<Object>, Error> {
        let draft = Draft::new(&seen.resource, value);
        let written = self.write(&seen.resource, |table, version| {
            table.check(seen)?;
            let (resource, key) = (Arc::clone(&seen.resource), seen.key.clone());
            Ok(Step::Put(Arc::new(Object::new(resource, key, version, draft))))
        })?;
        self.warm.note_value(&written);
        Ok(written)
    }

    /// Removes the object. Its last state comes back, under the version of the removal.
    ///
    /// # Errors
    /// [`Error::Stale`] if `seen` is no longer the present state.
    pub(crate) fn remove(&self, seen: &Object) -> Result<Arc<Object>, Error> {
        self.write(&seen.resource, |table, version| {
            table.check(seen)?;
            Ok(Step::Remove(Arc::new(seen.at_version(version))))
        })
    }

    fn write(
        &self,
        resource: &Resource,
        decide: impl FnOnce(&Table, u64) -> Result<Step, Error>,
    ) -> Result<Arc<Object>, Error> {
        let mut guard = self.shared.state.write();
        let State { revision, issued, settled, budget, tables } = &mut *guard;
        let version = *issued + 1;
        let table = tables.table(&resource.table);
        let step = decide(table, version)?;
        let (Step::Put(written) | Step::Remove(written)) = &step;
        let written = Arc::clone(written);
        let demand = Demand {
            before: table.get(&written.key).map_or(0, |before| before.space()),
            after: if matches!(step, Step::Put(_)) { written.space() } else { 0 },
            deleting: written.deletion_timestamp().is_some(),
        };
        budget.take(demand)?;
        let json = match step {
            Step::Put(object) => {
                let json = object.json().clone();
                table.put(object, *settled);
                Some(json)
            }
            Step::Remove(last) => {
                table.remove(last, *settled);
                None
            }
        };
        (*revision, *issued) = (version, version);
        match self.journal.get() {
            // Queued under the lock, so in the order of versions.
            Some(journal) => journal.write(Entry {
                version,
                table: resource.table.clone(),
                key: written.key.clone(),
                state: json,
                freed: demand.before.saturating_sub(demand.after),
            }),
            None => {
                *settled = version;
                // Sent under the lock, so that no follower sees versions go backwards.
                table.announce(version);
                self.shared.settled.send_modify(|settled| settled.safe = Ok(version));
            }
        }
        Ok(written)
    }

    /// The objects of one namespace (or of all, if it is empty) at a version, or now.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Future`].
    pub(crate) fn snapshot(
        &self,
        table: &TableId,
        namespace: &str,
        version: Option<u64>,
    ) -> Result<Snapshot, Error> {
        let state = self.shared.state.read();
        let version = version.unwrap_or(state.revision);
        if version > state.revision {
            return Err(Error::Future(state.revision));
        }
        let objects = match state.tables.get(table) {
            Some(table) => table.at(version, namespace)?,
            // Without objects now, it may have had some in an earlier life.
            None if version < state.tables.forgotten => {
                return Err(Error::Compacted(state.tables.forgotten));
            }
            None => Vec::new(),
        };
        Ok(Snapshot { version, objects })
    }

    /// Follows a table from just after that version.
    pub(crate) fn follow(self: &Arc<Self>, table: &TableId, after: u64) -> Cursor {
        let wake = self.shared.state.write().tables.table(table).subscribe();
        Cursor::new(Arc::clone(self), table.clone(), after, wake)
    }

    /// Follows a table from now on, and gives the present objects of that namespace: nothing falls between.
    pub(crate) fn snapshot_and_follow(
        self: &Arc<Self>,
        table: &TableId,
        namespace: &str,
    ) -> (Snapshot, Cursor) {
        let mut state = self.shared.state.write();
        let version = state.revision;
        let objects = state.tables.table(table).now(namespace);
        let wake = state.tables.table(table).subscribe();
        drop(state);
        let cursor = Cursor::new(Arc::clone(self), table.clone(), version, wake);
        (Snapshot { version, objects }, cursor)
    }

    /// Forgets the history of all tables: versions before the last that is safe are no longer known.
    pub(crate) fn compact(&self) {
        let mut state = self.shared.state.write();
        let settled = state.settled;
        state.tables.by_id.values_mut().for_each(|table| table.compact(settled));
    }

    /// Forgets of all tables what was written before `before` and is safe, and hands back the memory.
    pub(crate) fn forget(&self, before: Instant) {
        let mut guard = self.shared.state.write();
        let State { settled, tables, .. } = &mut *guard;
        let forgotten: Vec<_> =
            tables.by_id.values_mut().map(|table| table.forget(before, *settled)).collect();
        drop(guard);
        // Not under the lock: it takes a while.
        drop(forgotten);
    }

    /// How many bytes the objects take, their keys included.
    pub(crate) fn used(&self) -> u64 {
        self.shared.state.read().budget.used()
    }

    /// How many objects a table holds.
    pub(crate) fn len(&self, table: &TableId) -> usize {
        self.shared.state.read().tables.get(table).map_or(0, Table::len)
    }
}

/// A store, as its journal sees it.
struct Keeper {
    shared: Arc<Shared>,
    /// Called after writes were undone.
    undone: Box<dyn Fn() + Send + Sync>,
}

impl journal::Keeper for Keeper {
    fn note(&self, progress: Progress) {
        let mut state = self.shared.state.write();
        let settled = &self.shared.settled;
        match progress {
            Progress::Safe(version) => {
                state.settled = version;
                // Sent under the lock, so that no follower sees versions go backwards.
                state.tables.by_id.values().for_each(|table| table.announce(version));
                settled.send_modify(|settled| settled.safe = Ok(version));
            }
            Progress::Full => state.budget.set_disk(Disk::Full),
            Progress::Free => state.budget.set_disk(Disk::Free),
            Progress::Failed(why) => settled.send_modify(|settled| settled.safe = Err(why.into())),
        }
    }

    fn undo(&self) -> u64 {
        let mut guard = self.shared.state.write();
        let State { revision, issued, settled, budget, tables } = &mut *guard;
        let changes = tables.by_id.values_mut().flat_map(|table| table.undo_after(*settled));
        for Change { kind, object, before, .. } in changes.collect::<Vec<_>>().iter().map(Arc::as_ref) {
            budget.undo(Demand {
                before: before.as_ref().map_or(0, |before| before.space()),
                after: if *kind == ChangeKind::Deleted { 0 } else { object.space() },
                deleting: false,
            });
        }
        *revision = *settled;
        let issued = *issued;
        // Sent under the lock: no request that saw a write which is now undone may be told that it is safe.
        self.shared.settled.send_modify(|settled| settled.undone += 1);
        drop(guard);
        (self.undone)();
        issued
    }
}

impl Tables {
    fn get(&self, id: &TableId) -> Option<&Table> {
        self.by_id.get(id)
    }

    /// The table, made where there is none yet.
    fn table(&mut self, id: &TableId) -> &mut Table {
        // Not `entry`: it would clone the name on every write.
        if !self.by_id.contains_key(id) {
            self.by_id.insert(id.clone(), Table::new(self.history, self.forgotten));
        }
        self.by_id.get_mut(id).expect("the table must be there: it was just put in")
    }
}

#[cfg(test)]
mod tests;
