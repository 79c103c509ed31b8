//! Shared informers: one watch and one cache for many users.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{GroupVersionResource, Meta, ObjectKey, ResourceVersion, Uid};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::delta_fifo::Level;
use crate::index::{BY_NAMESPACE, BY_OWNER_UID, Index, IndexId, IndexValue, owners};
use crate::list_watch::ListerWatcher;
use crate::lister::Lister;
use crate::processor::{EventHandler, Mailbox, deliver};
use crate::reflector::{self, Progress, Pulse, Reflector, WatchErrorHook, WatchState};
use crate::store::{Store, StoreWriter, store};
use crate::wire::{Object, Selection, View};

mod change;
mod commands;
mod mapping;
mod pump;
#[cfg(test)]
mod tests;
pub use change::{Change, MetaChange};
use commands::{Command, Receiver, Sender, commands};
pub use mapping::MappingRegistration;
use mapping::{Gate, Mapping};
use pump::Pump;

/// A cache of one kind. One reflector keeps it up to date for all users.
///
/// There are three sorts of users:
/// - **readers** look up objects through a [`Lister`] and indexes;
/// - **key mappings** ([`Informer::map`]) get each change as soon as readers can see it, in order, one at a time. They turn
///   changes into queue keys, so that nothing but keys needs a buffer. They must not wait;
/// - **handlers** ([`Informer::add_handler`]) run each in a task of its own, behind a bounded mailbox.
///
/// Users can come before the start or at any time after it. A late mapping or handler first gets all cached objects, marked as
/// initial.
pub struct SharedInformer<K: Object> {
    resource: GroupVersionResource,
    source: Arc<dyn ListerWatcher<K>>,
    config: Config,
    store: Store<K>,
    commands: Sender<K>,
    /// The groups of fields that users asked for. Fixed at the start.
    groups: AtomicU64,
    life: Mutex<Life<K>>,
    synced: watch::Sender<bool>,
    /// How the reflector is doing.
    pulse: Arc<Pulse>,
    /// How full the log between reflector and store is. Set at the start.
    level: OnceLock<Level<K>>,
    stop: CancellationToken,
    /// Cancelled when `run` ends.
    ended: CancellationToken,
    /// Set before `ended` if `run` ends by a panic.
    panicked: AtomicBool,
}

/// The configuration of a shared informer.
#[derive(Clone, Default)]
pub struct Config {
    /// The configuration of its reflector.
    pub reflector: reflector::Config,
    /// The period at which mappings get every object again, at least a second. `None` or zero: never. Handlers have periods of
    /// their own. Default: never.
    pub resync: Option<Duration>,
    /// Called with every failed list and watch.
    pub on_watch_error: Option<WatchErrorHook>,
}

enum Life<K> {
    /// Not started. Holds what the pump will need.
    New(StoreWriter<K>, Receiver<K>),
    /// Running, or stopped.
    Started,
}

/// The number of deltas by which a reflector may be ahead of its store.
const FIFO_CAPACITY: usize = 256;

/// The informer runs already, and does not keep some of the groups of fields that a selection asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the informer of {0} was started without some of the fields that the selection asks for")]
pub struct NotKept(pub GroupVersionResource);

impl<K: Object> SharedInformer<K> {
    /// Makes an informer of the objects of `source`. It does nothing until [`run`](Self::run).
    pub fn new(
        source: Arc<dyn ListerWatcher<K>>,
        resource: GroupVersionResource,
        config: Config,
    ) -> Arc<Self> {
        let (writer, store) = store();
        let (commands, received) = commands();
        Arc::new(Self {
            resource,
            source,
            config,
            store,
            commands,
            groups: AtomicU64::new(0),
            life: Mutex::new(Life::New(writer, received)),
            synced: watch::Sender::new(false),
            pulse: Arc::default(),
            level: OnceLock::new(),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
            panicked: AtomicBool::new(false),
        })
    }

    /// This informer as one user reads it. Before the start, adds the selection's groups to those that the cache keeps.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups.
    pub fn select<S: Selection<Kind = K>>(self: &Arc<Self>) -> Result<Informer<S>, NotKept> {
        let life = self.life.lock();
        match &*life {
            Life::New(..) => _ = self.groups.fetch_or(S::GROUPS, Ordering::AcqRel),
            Life::Started if S::GROUPS & !self.groups.load(Ordering::Acquire) != 0 => {
                return Err(NotKept(self.resource.clone()));
            }
            Life::Started => {}
        }
        Ok(Informer { shared: Arc::clone(self), selection: std::marker::PhantomData })
    }

    /// Registers a mapping of whatever form. An informer that has ended never calls it.
    fn map_raw(&self, call: mapping::Call<K>) -> MappingRegistration {
        let gate = Arc::new(Gate::default());
        self.commands.send(Command::Map(Mapping::new(Arc::clone(&gate), call)));
        let (synced, commands) = (self.synced.subscribe(), self.commands.clone());
        MappingRegistration::new(gate, synced, move || commands.send(Command::DropRemovedMappings))
    }

    /// Lists and watches until `stop` is cancelled or [`AnyInformer::stop`] is called. Then ends all handlers, also in the middle
    /// of an event. The cache stays readable. Returns at once if the informer was run before.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let started = std::mem::replace(&mut *self.life.lock(), Life::Started);
        let Life::New(writer, commands) = started else { return };
        let _ending = Ending(&self);
        let groups = self.groups.load(Ordering::Acquire);
        self.source.keep(groups);
        let (producer, consumer) = crate::delta_fifo::delta_fifo(FIFO_CAPACITY);
        let _ = self.level.set(consumer.level());
        let reflector =
            Reflector::new(Arc::clone(&self.source), self.resource.clone(), self.config.reflector.clone())
                .on_error(self.config.on_watch_error.clone())
                .pulse(Arc::clone(&self.pulse));
        let tables = (writer, self.store.clone());
        let mut pump = Pump::new(tables, consumer, commands, self.config.resync, self.synced.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.stop.cancelled() => {}
            // Neither ends by itself.
            () = reflector.list_and_watch(producer) => {}
            () = pump.run() => {}
        }
        pump.shut_down().await;
        tracing::debug!(resource = %self.resource, "Informer stopped");
    }
}

/// Marks an informer as ended when its run is over, for whatever reason. After a panic its cache no longer counts as synced,
/// because it is no longer kept up to date.
struct Ending<'a, K: Object>(&'a SharedInformer<K>);

impl<K: Object> Drop for Ending<'_, K> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.store(true, Ordering::Release);
            self.0.synced.send_replace(false);
        }
        self.0.pulse.turns_to(WatchState::Stopped);
        self.0.ended.cancel();
    }
}

/// A shared informer as one user reads it. Cheap to clone.
pub struct Informer<S: Selection> {
    shared: Arc<SharedInformer<S::Kind>>,
    selection: std::marker::PhantomData<fn() -> S>,
}

impl<S: Selection> Clone for Informer<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), selection: std::marker::PhantomData }
    }
}

impl<S: Selection> Informer<S> {
    /// A reader of the cache.
    pub fn lister(&self) -> Lister<S> {
        Lister::new(self.shared.store.clone())
    }

    /// Adds an index over all objects, present and future. If an index has this name already, returns that index, which must have
    /// the same values. `values` must not read this cache: it runs under the writer's lock.
    ///
    /// Objects on which `values` panics may belong under any value, so reads of the index that could need them fail.
    pub fn add_index(&self, name: &'static str, values: fn(&View<S>) -> Vec<IndexValue>) -> Index<S> {
        let values = move |object: &Arc<S::Kind>, found: &mut dyn FnMut(IndexValue)| {
            values(&View::new(Arc::clone(object))).into_iter().for_each(found);
        };
        Index::new(self.shared.store.add_index(name, Arc::new(values)))
    }

    /// Calls `mapping` with every change as soon as readers can see it. The mapping must be quick and must not wait: the
    /// cache does not advance meanwhile. If it panics, it misses that change, and nothing else happens.
    ///
    /// Dropping the registration changes nothing; [`MappingRegistration::remove`] ends the calls.
    pub fn map(&self, mapping: impl Fn(&Change<S>) + Send + Sync + 'static) -> MappingRegistration {
        self.shared.map_raw(Box::new(move |change| mapping(&change.into_change())))
    }

    /// Calls `handler` with every change, in a task of its own. With a `resync` period (at least a second; zero is never), the
    /// handler also gets every object again once per period. A handler gets nothing after it has panicked, nor if it is added
    /// after the informer has ended.
    pub fn add_handler(&self, handler: impl EventHandler<S>, resync: Option<Duration>) -> Registration {
        let mailbox = Arc::new(Mailbox::new());
        let removed = CancellationToken::new();
        let task = {
            let (mailbox, removed) = (Arc::clone(&mailbox), removed.clone());
            async move {
                // However the task ends, its mailbox is dropped.
                let _removed = removed.clone().drop_guard();
                removed.run_until_cancelled(deliver(mailbox, handler)).await;
            }
        };
        let handle = Arc::clone(&mailbox);
        let command = Command::Handle { mailbox, resync, removed: removed.clone(), task: Box::pin(task) };
        self.shared.commands.send(command);
        Registration { removed, synced: Arc::new(move || handle.has_synced()) }
    }

    /// Whether the first list is in the cache and the mappings have got it. False again once the informer has ended by a panic; an
    /// informer that was stopped stays synced.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the informer has synced or ended. Returns whether it has synced.
    pub async fn synced(&self) -> bool {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives as long as this handle does.
        let _ = self.shared.ended.run_until_cancelled(synced.wait_for(|synced| *synced)).await;
        self.has_synced()
    }

    /// The cache has all changes up to this version.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.shared.store.last_sync_resource_version()
    }

    /// The same informer, with its type erased. It reads metadata alone.
    pub fn any(&self) -> Arc<dyn AnyInformer> {
        Arc::clone(&self.shared) as Arc<dyn AnyInformer>
    }
}

/// A handler's place among the handlers. Dropping it changes nothing.
#[derive(Clone)]
pub struct Registration {
    removed: CancellationToken,
    synced: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Registration {
    /// Whether the handler has handled all objects that were cached when it was added, and the informer's first list.
    pub fn has_synced(&self) -> bool {
        (self.synced)()
    }

    /// Removes the handler. It gets no further event; the event that it is handling is cancelled where it next waits.
    pub fn remove(&self) {
        self.removed.cancel();
    }
}

/// A shared informer of any kind, by metadata: for controllers that work on any kind, such as garbage collection and quota.
pub trait AnyInformer: Send + Sync + 'static {
    /// The resource that it caches.
    fn resource(&self) -> &GroupVersionResource;
    /// The metadata of the object of this key.
    fn meta(&self, key: &ObjectKey) -> Option<Meta>;
    /// The metadata of the object of this uid.
    fn meta_by_uid(&self, uid: &Uid) -> Option<Meta>;
    /// The metadata of the objects, in all namespaces, that refer to an owner of this uid, managing or not. The first call makes
    /// the index.
    ///
    /// The caller must compare the references with the owner: an owner that has a namespace owns objects of its namespace only.
    fn owned_by(&self, owner: &Uid) -> Vec<Meta>;
    /// Calls `look` with the metadata of every object that is cached when the call begins. `look` may read this cache.
    fn for_each_meta(&self, look: &mut dyn FnMut(&Meta));
    /// Whether the cache holds an object of this namespace. Looks at each object until it finds one.
    fn holds_any_in(&self, namespace: &str) -> bool;
    /// Calls `mapping` with every change as soon as readers can see it, first with all objects that are cached, marked as
    /// initial. The same holds as for [`Informer::map`].
    fn map_meta(&self, mapping: Box<dyn Fn(MetaChange<'_>) + Send + Sync>) -> MappingRegistration;
    /// Calls the mappings with every object again, as a resync does, after all earlier changes and requests.
    fn resync(&self);
    /// The number of cached objects of a namespace, unreadable ones included. The first call makes the index.
    fn count_in(&self, namespace: &str) -> usize;
    /// The number of cached objects.
    fn len(&self) -> usize;
    /// Whether the cache is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The number of cached objects that can't be read.
    fn unreadable_len(&self) -> usize;
    /// Whether the first list is in the cache and the informer has not panicked since.
    fn has_synced(&self) -> bool;
    /// Changes when [`has_synced`](Self::has_synced) does.
    fn watch_synced(&self) -> watch::Receiver<bool>;
    /// The cache has all changes up to this version.
    fn last_sync_resource_version(&self) -> ResourceVersion;
    /// How the informer's reflector is doing.
    fn progress(&self) -> Progress;
    /// An estimate of the memory of the cache, in bytes. Looks at every object, so call it only when somebody asks.
    fn bytes(&self) -> usize;
    /// Stops the informer for good.
    fn stop(&self);
    /// Whether the informer ran and has ended, so that the cache grows stale.
    fn is_stopped(&self) -> bool;
    /// Whether the informer has ended by a panic.
    fn has_panicked(&self) -> bool;
    /// Runs the informer: see [`SharedInformer::run`].
    fn run(self: Arc<Self>, stop: CancellationToken) -> futures::future::BoxFuture<'static, ()>;
    /// This informer, to be downcast to its type.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Object> AnyInformer for SharedInformer<K> {
    fn resource(&self) -> &GroupVersionResource {
        &self.resource
    }
    fn meta(&self, key: &ObjectKey) -> Option<Meta> {
        self.store.meta(key)
    }
    fn meta_by_uid(&self, uid: &Uid) -> Option<Meta> {
        self.store.meta_by_uid(uid)
    }
    fn owned_by(&self, owner: &Uid) -> Vec<Meta> {
        let index: IndexId = self.store.add_index(BY_OWNER_UID, Arc::new(owners::<K>));
        let mut owned = Vec::new();
        self.store
            .for_each_by_index(index, &owner.clone().into(), |object| owned.push(object.meta().clone()));
        owned
    }
    fn for_each_meta(&self, look: &mut dyn FnMut(&Meta)) {
        self.store.for_each(|object| look(object.meta()));
    }
    fn holds_any_in(&self, namespace: &str) -> bool {
        self.store.holds_any(|meta| meta.key.namespace == namespace)
    }
    fn map_meta(&self, mapping: Box<dyn Fn(MetaChange<'_>) + Send + Sync>) -> MappingRegistration {
        self.map_raw(Box::new(move |change| mapping(change.as_meta_change())))
    }
    fn resync(&self) {
        self.commands.send(Command::Resync);
    }
    fn count_in(&self, namespace: &str) -> usize {
        let by_namespace = |object: &Arc<K>, found: &mut dyn FnMut(IndexValue)| {
            found(object.meta().key.namespace.clone().into());
        };
        let index = self.store.add_index(BY_NAMESPACE, Arc::new(by_namespace));
        self.store.count_by_index(index, &namespace.into())
    }
    fn len(&self) -> usize {
        self.store.len()
    }
    fn unreadable_len(&self) -> usize {
        self.store.unreadable_len()
    }
    fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }
    fn watch_synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }
    fn last_sync_resource_version(&self) -> ResourceVersion {
        self.store.last_sync_resource_version()
    }
    fn progress(&self) -> Progress {
        let (queued, since) = self.level.get().map_or((0, None), Level::read);
        self.pulse.progress(queued, since)
    }
    fn bytes(&self) -> usize {
        self.store.bytes()
    }
    fn stop(&self) {
        self.stop.cancel();
    }
    fn is_stopped(&self) -> bool {
        self.ended.is_cancelled()
    }
    fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Acquire)
    }
    fn run(self: Arc<Self>, stop: CancellationToken) -> futures::future::BoxFuture<'static, ()> {
        Box::pin(Self::run(self, stop))
    }
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
