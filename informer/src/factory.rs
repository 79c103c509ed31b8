//! One shared informer for each kind, for all users in a process.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use steersman_api::GroupVersionResource;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::list_watch::{ApiListerWatcher, Scope};
use crate::shared_informer::{AnyInformer, Config, Informer, NotKept, SharedInformer};
use crate::wire::meta::MetaOnly;
use crate::wire::{Object, Selection};

mod dependents;
mod lease;
#[cfg(test)]
mod tests;
pub use dependents::Dependent;
pub use lease::Lease;

/// One shared informer for each kind. Cheap to clone.
///
/// Users hold informers in one of two ways:
/// - **permanently** ([`informer`](Self::informer), [`informer_at`](Self::informer_at), [`scoped`](Self::scoped),
///   [`dynamic`](Self::dynamic)): the informer is there until [`shutdown`](Self::shutdown). [`start`](Self::start) starts all permanent informers together,
///   once all users have said which fields they need. This is for the kinds that a program knows.
/// - **by a lease** ([`lease`](Self::lease), [`lease_informer`](Self::lease_informer)): [`Lease::start`] starts this informer
///   alone. It stops when its last lease is dropped, unless it has become permanent. This is for kinds that come and go.
#[derive(Clone)]
pub struct SharedInformerFactory {
    inner: Arc<Inner>,
}

struct Inner {
    client: kube::Client,
    options: Options,
    state: Mutex<State>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Options for all informers of a factory.
#[derive(Clone, Default)]
pub struct Options {
    /// Which objects are cached. With a namespace, cluster-scoped kinds can't be listed.
    pub scope: Scope,
    /// The configuration of each informer. Jitter stretches the resync period of each informer to one to two times this
    /// one.
    pub informer: Config,
}

#[derive(Default)]
struct State {
    /// At most one informer of each resource, scope and Rust type. By type, so that a second selection of a kind shares the
    /// cache of the first one.
    informers: BTreeMap<GroupVersionResource, Vec<Entry>>,
}

struct Entry {
    informer: Arc<dyn AnyInformer>,
    /// The objects that the informer caches.
    scope: Scope,
    started: Started,
    held: Held,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Started {
    No,
    Yes,
}

/// What keeps an informer in the factory. A leased one becomes permanent when a user asks for it permanently; a permanent
/// one stays so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Permanently,
    /// By so many leases.
    Leased(usize),
}

/// The factory can't give an informer. This is a mistake in the program, which should end the start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The informer runs already, without some of the fields that the selection asks for.
    #[error(transparent)]
    NotKept(#[from] NotKept),
    /// The kind does not name a resource. Use [`SharedInformerFactory::informer_at`].
    #[error("the kind does not name its resource, so the caller must")]
    NoResource,
}

impl SharedInformerFactory {
    /// Makes a factory whose informers list and watch through `client`. The client must neither limit nor retry requests:
    /// reflectors back off by themselves.
    pub fn new(client: kube::Client, options: Options) -> Self {
        let state = Mutex::default();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        Self { inner: Arc::new(Inner { client, options, state, tasks, stop }) }
    }

    /// The permanent informer of a kind, as this selection reads it.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups; or the kind does not name its resource.
    pub fn informer<S: Selection>(&self) -> Result<Informer<S>, Error> {
        self.informer_at(S::Kind::resource().ok_or(Error::NoResource)?)
    }

    /// The permanent informer of a kind that does not name its resource.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups.
    pub fn informer_at<S: Selection>(&self, resource: GroupVersionResource) -> Result<Informer<S>, Error> {
        self.typed(resource, self.inner.options.scope.clone())
    }

    /// The permanent informer of the objects of a kind that `scope` selects, such as the secrets of one type. Unless `scope` is
    /// that of the factory, it has a watch and a cache of its own, and users who ask for the kind by name do not get it.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups; or the kind does not name its resource.
    pub fn scoped<S: Selection>(&self, scope: Scope) -> Result<Informer<S>, Error> {
        self.typed(S::Kind::resource().ok_or(Error::NoResource)?, scope)
    }

    fn typed<S: Selection>(
        &self,
        resource: GroupVersionResource,
        scope: Scope,
    ) -> Result<Informer<S>, Error> {
        let mut state = self.inner.state.lock();
        let (entry, informer) = self.inner.typed_entry(&mut state, resource, scope)?;
        entry.held = Held::Permanently;
        Ok(informer)
    }

    /// A lease of the informer of a kind, as this selection reads it. It is the informer that all users by type share; a new
    /// one does not run before [`Lease::start`].
    ///
    /// If other users hold the informer permanently, take the first lease before [`start`](Self::start), so that the informer
    /// keeps the selection's groups.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups; or the kind does not name its resource.
    pub fn lease_informer<S: Selection>(&self) -> Result<(Lease, Informer<S>), Error> {
        let resource = S::Kind::resource().ok_or(Error::NoResource)?;
        let mut state = self.inner.state.lock();
        let scope = self.inner.options.scope.clone();
        let (entry, informer) = self.inner.typed_entry(&mut state, resource, scope)?;
        if let Held::Leased(leases) = &mut entry.held {
            *leases += 1;
        }
        Ok((Lease::new(Arc::clone(&self.inner), Arc::clone(&entry.informer)), informer))
    }

    /// The permanent informer of a resource, whatever it caches: one of those that exist, or else a new one that caches
    /// metadata alone.
    ///
    /// A cache of metadata can't serve a user that asks by type later: the factory then makes a second informer. So ask by
    /// type first.
    pub fn dynamic(&self, resource: &GroupVersionResource) -> Arc<dyn AnyInformer> {
        let mut state = self.inner.state.lock();
        let entry = self.inner.any_entry(&mut state, resource);
        entry.held = Held::Permanently;
        Arc::clone(&entry.informer)
    }

    /// A lease of the informer of a resource, whatever it caches: one of those that exist, or else a new one that caches
    /// metadata alone. A new one does not run before [`Lease::start`].
    pub fn lease(&self, resource: &GroupVersionResource) -> Lease {
        let mut state = self.inner.state.lock();
        let entry = self.inner.any_entry(&mut state, resource);
        if let Held::Leased(leases) = &mut entry.held {
            *leases += 1;
        }
        Lease::new(Arc::clone(&self.inner), Arc::clone(&entry.informer))
    }

    /// Starts all permanent informers that do not run yet. Calling it again is harmless.
    pub fn start(&self) {
        let mut state = self.inner.state.lock();
        let entries = state.informers.values_mut().flatten();
        entries.filter(|entry| entry.held == Held::Permanently).for_each(|entry| self.inner.start(entry));
    }

    /// All informers, by resource, leased ones included.
    pub fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let state = self.inner.state.lock();
        state.informers.values().flatten().map(|entry| Arc::clone(&entry.informer)).collect()
    }

    /// The informers that have the factory's scope, by resource: each caches all objects of its kind in that scope.
    pub fn whole_informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let state = self.inner.state.lock();
        let entries = state.informers.values().flatten();
        let whole = entries.filter(|entry| entry.scope == self.inner.options.scope);
        whole.map(|entry| Arc::clone(&entry.informer)).collect()
    }

    /// The permanent informers, by resource. A program's readiness should depend on these alone: leased ones may be of kinds
    /// that the API server can't serve.
    pub fn permanent_informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let state = self.inner.state.lock();
        let permanent = state.informers.values().flatten().filter(|entry| entry.held == Held::Permanently);
        permanent.map(|entry| Arc::clone(&entry.informer)).collect()
    }

    /// Waits until each of these informers has synced, for `at_most` this long. Returns which kinds have synced. A kind that
    /// does not sync delays the others no longer than that.
    pub async fn wait_for_cache_sync(
        &self,
        informers: &[Arc<dyn AnyInformer>],
        at_most: Duration,
    ) -> BTreeMap<GroupVersionResource, bool> {
        let waits = informers.iter().map(|informer| async move {
            let mut synced = informer.watch_synced();
            let _ = tokio::time::timeout(at_most, synced.wait_for(|synced| *synced)).await;
            (informer.resource().clone(), informer.has_synced())
        });
        let mut all = BTreeMap::new();
        for (resource, synced) in futures::future::join_all(waits).await {
            *all.entry(resource).or_insert(true) &= synced;
        }
        all
    }

    /// Stops all informers and waits until they have ended.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Inner {
    /// The first entry of a resource with the factory's scope. If there is none, a new one, for metadata alone, that no lease
    /// holds yet.
    fn any_entry<'a>(&self, state: &'a mut State, resource: &GroupVersionResource) -> &'a mut Entry {
        let entries = state.informers.entry(resource.clone()).or_default();
        let at = entries.iter().position(|entry| entry.scope == self.options.scope).unwrap_or_else(|| {
            entries.push(self.entry::<MetaOnly>(resource.clone(), self.options.scope.clone()));
            entries.len() - 1
        });
        &mut entries[at]
    }

    /// The entry of a resource with this scope and the kind of `S`, and the informer with the selection's groups. If there is
    /// none, a new one, that no lease holds yet.
    fn typed_entry<'a, S: Selection>(
        &self,
        state: &'a mut State,
        resource: GroupVersionResource,
        scope: Scope,
    ) -> Result<(&'a mut Entry, Informer<S>), Error> {
        let typed =
            |entry: &Entry| Arc::clone(&entry.informer).as_any().downcast::<SharedInformer<S::Kind>>();
        let entries = state.informers.entry(resource.clone()).or_default();
        let same = |entry: &Entry| entry.scope == scope && typed(entry).is_ok();
        let at = match entries.iter().position(same) {
            Some(at) => at,
            None => {
                entries.push(self.entry::<S::Kind>(resource, scope));
                entries.len() - 1
            }
        };
        let entry = &mut entries[at];
        let informer = typed(entry).expect("the entry must have the informer of the type").select()?;
        Ok((entry, informer))
    }

    fn entry<K: Object>(&self, resource: GroupVersionResource, scope: Scope) -> Entry {
        let source = ApiListerWatcher::<K>::new(self.client.clone(), resource.clone(), scope.clone());
        let mut config = self.options.informer.clone();
        config.resync = config.resync.map(jittered);
        let informer = SharedInformer::new(Arc::new(source), resource, config);
        Entry { informer, scope, started: Started::No, held: Held::Leased(0) }
    }

    fn start(&self, entry: &mut Entry) {
        if std::mem::replace(&mut entry.started, Started::Yes) == Started::Yes {
            return;
        }
        let span = tracing::info_span!("informer", resource = %entry.informer.resource());
        let run = AssertUnwindSafe(Arc::clone(&entry.informer).run(self.stop.clone())).catch_unwind();
        let watched = async move {
            if run.await.is_err() {
                tracing::error!("Cache no longer counts as synced: its informer panicked");
            }
        };
        self.tasks.spawn(watched.instrument(span));
    }
}

/// One to two times the period, so that the caches do not resync all at once.
fn jittered(period: Duration) -> Duration {
    let more = period.as_secs_f64() * rand::Rng::random::<f64>(&mut rand::rng());
    Duration::try_from_secs_f64(more).map_or(Duration::MAX, |more| period.saturating_add(more))
}
