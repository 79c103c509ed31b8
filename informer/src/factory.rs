//! Who asks for a kind gets the same informer as everybody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::GroupVersionResource;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::list_watch::{ApiListerWatcher, Scope};
use crate::shared_informer::{AnyInformer, Config, Informer, NotKept, SharedInformer};
use crate::wire::meta::MetaOnly;
use crate::wire::{Object, Selection};

/// One shared informer for each kind, started and stopped together. Cheap to clone.
///
/// Informers are asked for first and started afterwards; those that are asked for later run from the next
/// [`start`](Self::start) on. Each can be removed while the others run.
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

/// What holds for all informers of a factory.
#[derive(Clone, Default)]
pub struct Options {
    /// Which objects are cached.
    pub scope: Scope,
    /// Of each informer. A resync period is spread by jitter: each informer has one to two times of it.
    pub informer: Config,
}

#[derive(Default)]
struct State {
    informers: BTreeMap<GroupVersionResource, Entry>,
}

struct Entry {
    /// The kinds that are decoded in some way: at the most one of each Rust type. By type, so that a second selection of a
    /// kind shares the first one's cache.
    informers: Vec<(Arc<dyn AnyInformer>, Started)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Started {
    No,
    Yes,
}

/// A kind that does not say where it is served: ask for it by its resource.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cache runs, without some of the fields that are asked for.
    #[error(transparent)]
    NotKept(#[from] NotKept),
    /// The kind has no resource of its own.
    #[error("a kind known only at run time must be asked for by its resource")]
    NoResource,
}

impl SharedInformerFactory {
    /// A factory of informers that list and watch through `client`, which must neither limit nor retry: reflectors do.
    pub fn new(client: kube::Client, options: Options) -> Self {
        let state = Mutex::default();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        Self { inner: Arc::new(Inner { client, options, state, tasks, stop }) }
    }

    /// The informer of a kind, as this selection reads it.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups; or the kind does not say where it is served.
    pub fn informer<S: Selection>(&self) -> Result<Informer<S>, Error> {
        let resource = S::Kind::resource().ok_or(Error::NoResource)?;
        Ok(self.shared::<S::Kind>(resource).select()?)
    }

    /// The informer of a kind that does not say where it is served.
    ///
    /// # Errors
    /// The informer runs already, without some of the selection's groups.
    pub fn informer_at<S: Selection>(&self, resource: GroupVersionResource) -> Result<Informer<S>, Error> {
        Ok(self.shared::<S::Kind>(resource).select()?)
    }

    /// The informer of a resource, whatever it caches of it: one that was asked for by type if there is one, else one
    /// that keeps the metadata alone.
    pub fn dynamic(&self, resource: &GroupVersionResource) -> Arc<dyn AnyInformer> {
        if let Some(entry) = self.inner.state.lock().informers.get(resource)
            && let Some((informer, _)) = entry.informers.first()
        {
            return Arc::clone(informer);
        }
        self.shared::<MetaOnly>(resource.clone())
    }

    fn shared<K: Object>(&self, resource: GroupVersionResource) -> Arc<SharedInformer<K>> {
        let mut state = self.inner.state.lock();
        let entry =
            state.informers.entry(resource.clone()).or_insert_with(|| Entry { informers: Vec::new() });
        let same = |(informer, _): &(Arc<dyn AnyInformer>, Started)| {
            Arc::clone(informer).as_any().downcast::<SharedInformer<K>>().ok()
        };
        if let Some(informer) = entry.informers.iter().find_map(same) {
            return informer;
        }
        let options = &self.inner.options;
        let source =
            ApiListerWatcher::<K>::new(self.inner.client.clone(), resource.clone(), options.scope.clone());
        let mut config = options.informer.clone();
        config.resync = config.resync.map(jittered);
        let informer = SharedInformer::new(Arc::new(source), resource, config);
        entry.informers.push((Arc::clone(&informer) as Arc<dyn AnyInformer>, Started::No));
        informer
    }

    /// Starts all informers that do not run yet. Calling it again is harmless.
    pub fn start(&self) {
        let mut state = self.inner.state.lock();
        for (informer, started) in state.informers.values_mut().flat_map(|entry| &mut entry.informers) {
            if std::mem::replace(started, Started::Yes) == Started::No {
                let span = tracing::info_span!("informer", resource = %informer.resource());
                let run = Arc::clone(informer).run(self.inner.stop.clone());
                self.inner.tasks.spawn(run.instrument(span));
            }
        }
    }

    /// All informers, by resource.
    pub fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let state = self.inner.state.lock();
        state.informers.values().flat_map(|entry| &entry.informers).map(|(i, _)| Arc::clone(i)).collect()
    }

    /// Waits until each of these informers has its first list, or for `at_most`; says which have. One sick kind keeps
    /// nobody from learning about the others.
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
        futures::future::join_all(waits).await.into_iter().collect()
    }

    /// Stops the informers of a resource and forgets them; who asks again gets a new one. What others still hold of the
    /// old one stays readable, and stale.
    pub fn remove(&self, resource: &GroupVersionResource) {
        let removed = self.inner.state.lock().informers.remove(resource);
        for (informer, _) in removed.into_iter().flat_map(|entry| entry.informers) {
            informer.stop();
        }
    }

    /// Stops all informers and waits for their ends.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

/// One to two times the period, so that not all caches are gone through at once.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + rand::Rng::random::<f64>(&mut rand::rng()))
}
