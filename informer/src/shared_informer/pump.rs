//! The task that writes a store and calls its mappings and handlers.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::{ObjectKey, ResourceVersion};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::change::{Initial, Raw};
use super::commands::{Command, Receiver};
use super::mapping::Mapping;
use crate::delta_fifo::{Consumer, Delta};
use crate::processor::Mailbox;
use crate::store::{Store, StoreWriter, Written};
use crate::wire::{Decoded, Object};

/// Applies deltas to the store, and hands them to mappings and handlers. It alone writes the store, so the changes that it
/// hands out always agree with the store's content.
pub(super) struct Pump<K: Object> {
    writer: StoreWriter<K>,
    store: Store<K>,
    log: Consumer<K>,
    commands: Receiver<K>,
    /// A list is under way.
    listing: bool,
    /// The keys of the objects that relists have changed since the last complete list.
    relisted: Vec<ObjectKey>,
    /// Set when the first list is complete and the mappings have got it.
    synced: watch::Sender<bool>,
    mappings: Vec<Mapping<K>>,
    resync: Option<Duration>,
    next_resync: Option<Instant>,
    handlers: Vec<Handler<K>>,
    /// The handlers' tasks.
    tasks: JoinSet<()>,
}

struct Handler<K> {
    mailbox: Arc<Mailbox<K>>,
    resync: Option<Duration>,
    next_resync: Option<Instant>,
    /// Cancelled to end its task, and by the end of its task.
    removed: CancellationToken,
}

/// The shortest resync period, as in client-go: each resync goes through the whole cache.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// When the next resync is due. `None` for a period of zero, and for one that is too long for the clock.
fn next_resync(period: Option<Duration>) -> Option<Instant> {
    let period = period.filter(|period| !period.is_zero())?;
    Instant::now().checked_add(period.max(MIN_RESYNC))
}

impl<K: Object> Pump<K> {
    /// Makes a pump that resyncs mappings every `resync`, and sets `synced` once the first list is complete and handed out.
    pub(super) fn new(
        (writer, store): (StoreWriter<K>, Store<K>),
        log: Consumer<K>,
        commands: Receiver<K>,
        resync: Option<Duration>,
        synced: watch::Sender<bool>,
    ) -> Self {
        Self {
            writer,
            store,
            log,
            commands,
            listing: false,
            relisted: Vec::new(),
            synced,
            mappings: Vec::new(),
            resync,
            next_resync: next_resync(resync),
            handlers: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Ends all handlers.
    pub(super) async fn shut_down(mut self) {
        self.tasks.shutdown().await;
    }

    /// Runs until the reflector is dropped.
    pub(super) async fn run(&mut self) {
        loop {
            let due = self.next_due();
            let resync = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = self.commands.recv() => self.obey(command),
                deltas = self.log.pop() => match deltas {
                    Some(deltas) => deltas.into_iter().for_each(|delta| self.apply(delta)),
                    None => return,
                },
                () = resync => self.resync_due(Instant::now()),
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!("Event handler panicked and gets no further events");
                    }
                    self.drop_removed();
                }
            }
        }
    }

    fn obey(&mut self, command: Command<K>) {
        match command {
            Command::Map(mapping) => {
                self.store.for_each(|object| {
                    mapping.call(Raw::Written(&Written::Added(Arc::clone(object)), Initial::Yes));
                });
                mapping.registered();
                self.mappings.push(mapping);
            }
            Command::Handle { mailbox, resync, removed, task } => {
                self.store.for_each(|object| mailbox.put(&Written::Added(Arc::clone(object)), true));
                if *self.synced.borrow() {
                    mailbox.complete_initial();
                }
                self.handlers.push(Handler { mailbox, resync, next_resync: next_resync(resync), removed });
                self.tasks.spawn(task);
            }
            Command::Resync => self.resync_mappings(),
            Command::DropRemovedMappings => self.mappings.retain(|mapping| !mapping.is_removed()),
        }
    }

    fn apply(&mut self, delta: Delta<K>) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                let version = self.version_of(&object);
                let written = self.writer.put(object);
                self.advance(version);
                self.tell(written);
            }
            Delta::Deleted(object) => {
                let version = self.version_of(&object);
                let written = self.writer.delete(object);
                self.advance(version);
                self.tell(written);
            }
            Delta::ListBegun => {
                self.listing = true;
                self.writer.begin_list();
            }
            Delta::ListComplete(version) => {
                self.listing = false;
                for swept in self.writer.complete_list(version) {
                    self.tell(Some(swept));
                }
                self.tell_relisted();
                if !self.synced.send_replace(true) {
                    self.handlers.iter().for_each(|handler| handler.mailbox.complete_initial());
                }
            }
            Delta::Bookmark(version) => self.writer.advance(version),
        }
    }

    /// The version that the store reaches with this change. `None` during a list, whose objects are in no order.
    fn version_of(&self, object: &Decoded<K>) -> Option<ResourceVersion> {
        let object = object.object().filter(|_| !self.listing)?;
        Some(object.meta().resource_version)
    }

    fn advance(&mut self, version: Option<ResourceVersion>) {
        if let Some(version) = version {
            self.writer.advance(version);
        }
    }

    fn tell(&mut self, written: Option<Written<K>>) {
        let Some(written) = written else { return };
        let initial = if *self.synced.borrow() { Initial::No } else { Initial::Yes };
        for mapping in &self.mappings {
            mapping.call(Raw::Written(&written, initial));
        }
        self.drop_removed();
        for handler in &self.handlers {
            handler.mailbox.put(&written, initial == Initial::Yes);
        }
        if self.listing
            && initial == Initial::No
            && let Written::Added(object) | Written::Updated(_, object) = &written
        {
            self.relisted.push(object.meta().key.clone());
        }
    }

    /// Calls the mappings again with the objects that a relist changed. When they got those changes, the store had not reached
    /// the list's version yet, so a sync that waits for a version would have been woken too early.
    fn tell_relisted(&mut self) {
        for key in std::mem::take(&mut self.relisted) {
            if let Some(object) = self.store.peek(&key) {
                self.mappings.iter().for_each(|mapping| mapping.call(Raw::Resync(&object)));
            }
        }
    }

    fn drop_removed(&mut self) {
        self.handlers.retain(|handler| !handler.removed.is_cancelled());
    }

    fn next_due(&self) -> Option<Instant> {
        self.handlers.iter().filter_map(|handler| handler.next_resync).chain(self.next_resync).min()
    }

    /// Resyncs whatever is due. Skips objects with a change in the log, which follows anyway.
    fn resync_due(&mut self, now: Instant) {
        self.drop_removed();
        let is_due = |next: Option<Instant>| next.is_some_and(|next| next <= now);
        if is_due(self.next_resync) {
            self.next_resync = next_resync(self.resync);
            self.resync_mappings();
        }
        let under_way = self.log.under_way();
        for handler in self.handlers.iter_mut().filter(|handler| is_due(handler.next_resync)) {
            handler.next_resync = next_resync(handler.resync);
            self.store.for_each(|object| {
                if !under_way.contains(&object.meta().key) {
                    handler.mailbox.resync(object);
                }
            });
        }
    }

    fn resync_mappings(&self) {
        let under_way = self.log.under_way();
        self.store.for_each(|object| {
            if !under_way.contains(&object.meta().key) {
                self.mappings.iter().for_each(|mapping| mapping.call(Raw::Resync(object)));
            }
        });
    }
}
