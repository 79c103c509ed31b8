//! Following a table.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Change, Error, Store, TableId};

/// Reads a table's history forwards, at its own pace.
///
/// It holds no changes of its own: a slow reader costs nothing but the risk that the history is forgotten under it.
pub(crate) struct Cursor {
    store: Arc<Store>,
    table: TableId,
    /// Everything up to here was given out, or was never asked for.
    after: u64,
    wake: watch::Receiver<u64>,
}

/// What a cursor found.
pub(crate) struct Batch {
    /// In order; may be empty.
    pub(crate) changes: Vec<Arc<Change>>,
    /// With these changes the reader knows everything up to this version.
    pub(crate) version: u64,
}

impl Cursor {
    /// How many changes are taken under one lock.
    const BATCH: usize = 256;

    pub(super) fn new(store: Arc<Store>, table: TableId, after: u64, wake: watch::Receiver<u64>) -> Self {
        Self { store, table, after, wake }
    }

    /// The next changes, without waiting.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the reader was too slow, or began too far back.
    pub(crate) fn take(&mut self) -> Result<Batch, Error> {
        let state = self.store.shared.state.read();
        self.wake.mark_unchanged();
        let (changes, all) = match state.tables.get(&self.table) {
            Some(table) => table.after(self.after, state.settled, Self::BATCH)?,
            None => (Vec::new(), true),
        };
        // A reader who began ahead of all writes must not be moved back.
        let known = if all { state.settled } else { changes.last().map_or(self.after, |c| c.version()) };
        self.after = self.after.max(known);
        Ok(Batch { changes, version: self.after })
    }

    /// Resolves when there may be something to take.
    pub(crate) async fn changed(&mut self) {
        // Tables and their senders live as long as the store, so the wait can't fail.
        let _ = self.wake.changed().await;
    }
}
