//! The task that writes a store and tells its users.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use steersman_api::{ObjectKey, ResourceVersion};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::change::{Initial, Raw};
use super::mapping::Mapping;
use crate::delta_fifo::{Consumer, Delta};
use crate::processor::Mailbox;
use crate::store::{Store, StoreWriter, Written};
use crate::wire::{Decoded, Object};

/// What users ask of a running informer.
pub(super) enum Command<K> {
    Map(Mapping<K>),
    Handle {
        mailbox: Arc<Mailbox<K>>,
        resync: Option<Duration>,
        removed: CancellationToken,
        /// Runs the handler.
        task: BoxFuture<'static, ()>,
    },
    /// Calls the mappings with everything again.
    Resync,
    /// Drops the mappings that were removed.
    DropRemovedMappings,
}

/// Applies deltas, and tells of them. It alone writes the store, so that what it tells, and to whom, is always in step
/// with what the store holds.
pub(super) struct Pump<K: Object> {
    writer: StoreWriter<K>,
    store: Store<K>,
    log: Consumer<K>,
    commands: mpsc::UnboundedReceiver<Command<K>>,
    /// A list is under way.
    listing: bool,
    /// What lists after the first have changed since the last of them was complete.
    relisted: Vec<ObjectKey>,
    /// Set when the first list is complete and told.
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

/// No resync comes more often, as client-go has it: each goes through the whole cache.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// When the next resync is due; none for a period of zero, or for one that no clock can hold.
fn next_resync(period: Option<Duration>) -> Option<Instant> {
    let period = period.filter(|period| !period.is_zero())?;
    Instant::now().checked_add(period.max(MIN_RESYNC))
}

impl<K: Object> Pump<K> {
    /// Mappings are told of everything again each `resync`. `synced` is set once the first list is complete and told.
    pub(super) fn new(
        (writer, store): (StoreWriter<K>, Store<K>),
        log: Consumer<K>,
        commands: mpsc::UnboundedReceiver<Command<K>>,
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

    /// Runs until the reflector is gone.
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
                Some(command) = self.commands.recv() => self.obey(command),
                deltas = self.log.pop() => match deltas {
                    Some(deltas) => deltas.into_iter().for_each(|delta| self.apply(delta)),
                    None => return,
                },
                () = resync => self.resync_due(Instant::now()),
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!("an event handler panicked and is told nothing any more");
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

    /// The version that the store reaches with this change; none within a list, which comes in no order.
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

    /// Mappings were told of what a list changed before the store had reached the list's version, and a sync that waits
    /// for a version was woken too early: they are told again.
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

    /// Objects whose change waits to be applied are left out: the change tells of them anyway.
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
