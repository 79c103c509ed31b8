//! Who asks for a kind gets the same informer as everybody else.

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
    /// Which objects are cached. With a namespace, the factory is of no use for kinds that stand in none.
    pub scope: Scope,
    /// Of each informer. A resync period is spread by jitter: each informer has one to two times of it.
    pub informer: Config,
}

#[derive(Default)]
struct State {
    informers: BTreeMap<GroupVersionResource, Entry>,
}

#[derive(Default)]
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

/// An informer that can't be had: a mistake in the program, which should end the start.
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
    ///
    /// So ask by type first: a cache of bare metadata can't serve who asks by type later, and there will be two.
    pub fn dynamic(&self, resource: &GroupVersionResource) -> Arc<dyn AnyInformer> {
        let mut state = self.inner.state.lock();
        match state.informers.get(resource).and_then(|entry| entry.informers.first()) {
            Some((informer, _)) => Arc::clone(informer),
            None => self.shared_in::<MetaOnly>(&mut state, resource.clone()),
        }
    }

    fn shared<K: Object>(&self, resource: GroupVersionResource) -> Arc<SharedInformer<K>> {
        self.shared_in(&mut self.inner.state.lock(), resource)
    }

    fn shared_in<K: Object>(
        &self,
        state: &mut State,
        resource: GroupVersionResource,
    ) -> Arc<SharedInformer<K>> {
        let entry = state.informers.entry(resource.clone()).or_default();
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
                let run = AssertUnwindSafe(Arc::clone(informer).run(self.inner.stop.clone())).catch_unwind();
                let watched = async move {
                    if run.await.is_err() {
                        tracing::error!("the informer panicked; its cache no longer counts as synced");
                    }
                };
                self.inner.tasks.spawn(watched.instrument(span));
            }
        }
    }

    /// All informers, by resource.
    pub fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let state = self.inner.state.lock();
        state.informers.values().flat_map(|entry| &entry.informers).map(|(i, _)| Arc::clone(i)).collect()
    }

    /// Waits until each of these informers has its first list, or for `at_most`; says of which kinds all have. One sick
    /// kind keeps nobody from learning about the others.
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
    let more = period.as_secs_f64() * rand::Rng::random::<f64>(&mut rand::rng());
    Duration::try_from_secs_f64(more).map_or(Duration::MAX, |more| period.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use http::Response;
    use kube::client::Body;

    use super::*;
    use crate::{Interned, keep, kind, projection};

    projection! { struct Spec { pub node: Interned = 10 "nodeName" } }
    kind! { struct Pod("", "v1", "pods") { spec: Spec = 2 "spec" } }
    keep! { struct Placed: Pod => Spec }

    /// Over a server that never answers.
    fn factory() -> SharedInformerFactory {
        let silent = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        SharedInformerFactory::new(kube::Client::new(silent, "default"), Options::default())
    }

    fn pods() -> GroupVersionResource {
        GroupVersionResource::new("", "v1", "pods")
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_again_gets_the_same_by_type_or_by_name() {
        let factory = factory();
        let typed = factory.informer::<Placed>().unwrap();
        assert!(Arc::ptr_eq(&typed.any(), &factory.dynamic(&pods())));
        assert!(Arc::ptr_eq(&typed.any(), &factory.informer::<Placed>().unwrap().any()));
        assert_eq!(factory.informers().len(), 1);
        assert!(matches!(factory.informer::<MetaOnly>(), Err(Error::NoResource)));
    }

    #[tokio::test(start_paused = true)]
    async fn bare_metadata_does_not_serve_who_asks_by_type_later() {
        let factory = factory();
        let dynamic = factory.dynamic(&pods());
        let typed = factory.informer::<Placed>().unwrap();
        assert!(!Arc::ptr_eq(&typed.any(), &dynamic));
        assert!(Arc::ptr_eq(&dynamic, &factory.dynamic(&pods())));
        factory.start();
        let both = factory.wait_for_cache_sync(&factory.informers(), Duration::from_secs(1)).await;
        assert_eq!(both.into_iter().collect::<Vec<_>>(), [(pods(), false)]);
        factory.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_removed_ends_and_who_asks_again_gets_a_new_one() {
        let factory = factory();
        let (old, nodes) =
            (factory.dynamic(&pods()), factory.dynamic(&GroupVersionResource::new("", "v1", "nodes")));
        factory.start();
        factory.start();
        factory.remove(&pods());
        while !old.is_stopped() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!Arc::ptr_eq(&old, &factory.dynamic(&pods())));
        assert!(!nodes.is_stopped());
        factory.start();
        factory.shutdown().await;
        assert!(factory.informers().iter().all(|informer| informer.is_stopped()));
    }

    #[test]
    fn no_period_is_too_long_to_be_spread() {
        assert_eq!(jittered(Duration::MAX), Duration::MAX);
        let hour = Duration::from_secs(3600);
        assert!((hour..=2 * hour).contains(&jittered(hour)));
    }
}
