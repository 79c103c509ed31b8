//! Where objects are kept: every version in memory, one order of all writes.
//!
//! The store knows keys, versions and history; of what an object means it knows nothing. All writes are conditional on
//! the state the writer saw, so that callers compute outside of any lock. What reads and writes it goes through the
//! methods of [`Store`], so that a persistent form can stand behind the same ones.

mod cursor;
mod object;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use arcstr::ArcStr;
use parking_lot::RwLock;
use serde_json::Value;
use steersman_api::ObjectKey;
use tokio::sync::watch;

pub(crate) use cursor::Cursor;
pub(crate) use object::{Object, View};
pub(crate) use table::{Change, ChangeKind, Snapshot};

use crate::registry::Resource;
use table::Table;

/// Names a table: a resource with its group (`pods`, `jobs.batch`), whatever versions it is served in.
pub(crate) type TableId = ArcStr;

/// All tables under one revision, which counts every write, as etcd's does.
pub(crate) struct Store {
    state: RwLock<State>,
    /// Follows `state.revision`; for those who wait until a version is reached.
    revision: watch::Sender<u64>,
}

struct State {
    /// The version of the last write. Begins at 1, since zero means "any".
    revision: u64,
    /// How many changes each table remembers.
    history: usize,
    tables: HashMap<TableId, Table>,
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
    /// Asked for a version whose history is forgotten: list anew. Carries the oldest version that is still known.
    #[error("versions before {0} are compacted")]
    Compacted(u64),
    /// Asked for a version that no write has reached. Carries the present one.
    #[error("the version lies ahead of {0}")]
    Future(u64),
}

impl Store {
    /// An empty one whose tables remember that many changes each.
    pub(crate) fn new(history: usize) -> Self {
        let state = State { revision: 1, history: history.max(1), tables: HashMap::new() };
        Self { state: RwLock::new(state), revision: watch::Sender::new(1) }
    }

    /// The version of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// Resolves once that version has been reached.
    pub(crate) async fn reached(&self, version: u64) {
        let mut revision = self.revision.subscribe();
        // The sender lives as long as `self`, so the wait can't fail.
        let _ = revision.wait_for(|revision| *revision >= version).await;
    }

    /// The present state of one object.
    pub(crate) fn get(&self, table: &TableId, key: &ObjectKey) -> Option<Arc<Object>> {
        self.state.read().tables.get(table)?.get(key).cloned()
    }

    /// Adds an object.
    ///
    /// # Errors
    /// [`Error::Exists`].
    pub(crate) fn create(
        &self,
        resource: &Arc<Resource>,
        key: ObjectKey,
        value: Value,
    ) -> Result<Arc<Object>, Error> {
        self.write(resource, |table, version| {
            if table.get(&key).is_some() {
                return Err(Error::Exists);
            }
            let object = Arc::new(Object::new(Arc::clone(resource), key, version, value));
            table.put(Arc::clone(&object));
            Ok(object)
        })
    }

    /// Puts a new state in the place of `seen`.
    ///
    /// # Errors
    /// [`Error::Stale`] if `seen` is no longer the present state.
    pub(crate) fn replace(&self, seen: &Object, value: Value) -> Result<Arc<Object>, Error> {
        self.write(&seen.resource, |table, version| {
            table.check(seen)?;
            let object = Arc::new(Object::new(Arc::clone(&seen.resource), seen.key.clone(), version, value));
            table.put(Arc::clone(&object));
            Ok(object)
        })
    }

    /// Removes the object. Its last state comes back, under the version of the removal.
    ///
    /// # Errors
    /// [`Error::Stale`] if `seen` is no longer the present state.
    pub(crate) fn remove(&self, seen: &Object) -> Result<Arc<Object>, Error> {
        self.write(&seen.resource, |table, version| {
            table.check(seen)?;
            let last = Arc::new(seen.at_version(version));
            table.remove(Arc::clone(&last));
            Ok(last)
        })
    }

    fn write(
        &self,
        resource: &Resource,
        act: impl FnOnce(&mut Table, u64) -> Result<Arc<Object>, Error>,
    ) -> Result<Arc<Object>, Error> {
        let mut state = self.state.write();
        let version = state.revision + 1;
        let written = act(state.table(&resource.table), version)?;
        state.revision = version;
        // Sent under the lock, so that nobody sees versions go backwards.
        state.table(&resource.table).announce(version);
        self.revision.send_replace(version);
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
        let state = self.state.read();
        let version = version.unwrap_or(state.revision);
        if version > state.revision {
            return Err(Error::Future(state.revision));
        }
        let objects = match state.tables.get(table) {
            Some(table) => table.at(version, namespace)?,
            None => Vec::new(),
        };
        Ok(Snapshot { version, objects })
    }

    /// Follows a table from just after that version.
    pub(crate) fn follow(self: &Arc<Self>, table: &TableId, after: u64) -> Cursor {
        let wake = self.state.write().table(table).subscribe();
        Cursor::new(Arc::clone(self), table.clone(), after, wake)
    }

    /// Follows a table from now on, and gives the present objects of that namespace: nothing falls between.
    pub(crate) fn snapshot_and_follow(
        self: &Arc<Self>,
        table: &TableId,
        namespace: &str,
    ) -> (Snapshot, Cursor) {
        let mut state = self.state.write();
        let version = state.revision;
        let objects = state.table(table).now(namespace);
        let wake = state.table(table).subscribe();
        drop(state);
        let cursor = Cursor::new(Arc::clone(self), table.clone(), version, wake);
        (Snapshot { version, objects }, cursor)
    }

    /// Forgets the history of all tables: versions before the present one are no longer known.
    pub(crate) fn compact(&self) {
        let mut state = self.state.write();
        let revision = state.revision;
        state.tables.values_mut().for_each(|table| table.compact(revision));
    }

    /// How many objects a table holds.
    pub(crate) fn len(&self, table: &TableId) -> usize {
        self.state.read().tables.get(table).map_or(0, Table::len)
    }
}

impl State {
    fn table(&mut self, id: &TableId) -> &mut Table {
        let history = self.history;
        // Not `entry`: it would clone the name on every write.
        if !self.tables.contains_key(id) {
            self.tables.insert(id.clone(), Table::new(history));
        }
        self.tables.get_mut(id).expect("the table must be there: it was just put in")
    }
}

#[cfg(test)]
mod tests;
