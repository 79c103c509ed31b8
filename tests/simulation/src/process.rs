//! A controller manager, as a process that may be killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use steersman_api::ObjectKey;
use steersman_client::events::{self, broadcaster};
use steersman_client::leader_election::{self, Elector};
use steersman_client::{Clients, RestMapper};
use steersman_controller::children::FirstLooks;
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::debug::DebugPages;
use steersman_controller::leading::Leadership;
use steersman_controller::registry::Selection;
use steersman_controller::runner::{self, Timing};
use steersman_controller::server_version::ServerVersion;
use steersman_informer::factory::Options;
use steersman_informer::work_queue::MetricsProvider;
use steersman_informer::{AnyInformer, SharedInformerFactory};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::network::{Flow, Link};

/// The Lease that managers compete for.
pub(crate) const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");

/// A manager with all controllers that are enabled by default.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) link: Link,
    /// By how many seconds its wall clock is ahead.
    ahead: Arc<AtomicI64>,
    informers: SharedInformerFactory,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Process {
    /// Starts a manager whose identity is its name.
    ///
    /// # Panics
    /// The manager can't be built.
    pub(crate) fn start(name: &str, link: Link, now: steersman_apiserver::Clock) -> Self {
        let clients = Clients::over(link.clone());
        let metrics = prometheus::Registry::new();
        let (events, writers) = broadcaster(&clients, events::Metrics::new());
        let config = leader_election::Config::new(LEASE.0, LEASE.1, name);
        let retry_period = config.retry_period;
        let elector = Elector::new(
            config,
            clients.lease_client("leader-election"),
            events.recorder("kube-controller-manager"),
            leader_election::Metrics::new(),
        );
        let elector = elector.expect("the defaults are valid");
        let informers = SharedInformerFactory::new(clients.watch_client(), Options::default());
        let registry = steersman_controllers::builtin();
        let ahead = Arc::new(AtomicI64::new(0));
        let context = ControllerContext {
            clients: clients.gated(Arc::new(elector.fence())),
            informers: informers.clone(),
            first_looks: FirstLooks::default(),
            rest_mapper: Arc::new(RestMapper::new(clients.component("discovery"))),
            root_ca: "an authority".into(),
            server_version: ServerVersion::fixed(36),
            events,
            clock: {
                let ahead = Arc::clone(&ahead);
                Clock::of(move || now.now() + jiff::SignedDuration::from_secs(ahead.load(Ordering::Relaxed)))
            },
            options: Arc::new(registry.options()),
            gates: Arc::default(),
            queue_metrics: MetricsProvider::register(&metrics).expect("a new registry takes them"),
            metrics,
            debug: DebugPages::default(),
        };
        let selection = Selection::parse(&["*"], &registry).expect("the pattern for all is valid");
        let controllers = registry.build(&selection, &context, &runner::Metrics::new());
        let controllers = controllers.expect("the controllers can be built");
        let timing = Timing { start_interval: Duration::ZERO, shutdown_timeout: Duration::from_secs(30) };
        let leadership = Leadership::new(Some(elector), retry_period, controllers, informers.clone(), timing);

        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        informers.start();
        tasks.spawn(writers.run(stop.child_token()));
        tasks.spawn({
            let stop = stop.clone();
            async move { leadership.run(&stop).await.expect("controllers end in time") }
        });
        Self { name: name.to_owned(), link, ahead, informers, stop, tasks }
    }

    /// Moves its wall clock.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::Relaxed);
    }

    /// Ends it in the middle of what it does.
    pub(crate) fn kill(mut self) {
        self.tasks.abort_all();
        self.link.set_flow(Flow::Dead);
        // The first poll tells the informers to end.
        let _ = self.informers.shutdown().now_or_never();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a manager does not panic");
        }
        self.informers.shutdown().await;
        self.link.set_flow(Flow::Dead);
    }

    /// Whether one of its tasks has panicked.
    pub(crate) fn has_panicked(&mut self) -> bool {
        let ended = self.tasks.try_join_next().is_some_and(|ended| ended.is_err());
        ended || self.informers.informers().iter().any(|informer| informer.has_panicked())
    }

    /// Its caches.
    pub(crate) fn caches(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.informers.whole_informers()
    }
}

/// What a cache holds: the version of each object.
pub(crate) fn versions(cache: &dyn AnyInformer) -> BTreeMap<ObjectKey, String> {
    let mut versions = BTreeMap::new();
    cache.for_each_meta(&mut |meta| _ = versions.insert(meta.key.clone(), meta.resource_version.to_string()));
    versions
}
