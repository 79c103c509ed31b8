//! A controller manager, as a process on a host of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::hosts::{Host, Hosts};
use crate::network::Link;

/// The Lease that managers compete for.
pub(crate) const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");

/// A manager with all controllers that are enabled by default.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) link: Link,
    informers: SharedInformerFactory,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    hosts: Hosts,
    runtime: Handle,
}

impl Process {
    /// Starts a manager whose identity is its name, on a new host.
    ///
    /// # Panics
    /// The manager can't be built.
    pub(crate) fn start(name: &str, link: Link, hosts: &Hosts) -> Self {
        let host = Host::new();
        let runtime = host.handle().clone();
        let entered = runtime.enter();
        let clients = Clients::over(link.clone());
        let informers = SharedInformerFactory::new(clients.watch_client(), Options::default());
        let (events, writers) = broadcaster(&clients, events::Metrics::new());
        let elector = elector(name, &clients, &events);
        let context = context(&clients, &informers, events, &elector);
        let leadership = leadership(elector, &context);
        let stop = CancellationToken::new();
        informers.start();
        let tasks = vec![
            runtime.spawn(writers.run(stop.child_token())),
            runtime.spawn({
                let stop = stop.clone();
                async move { leadership.run(&stop).await.expect("controllers end in time") }
            }),
        ];
        drop(entered);
        hosts.add(name, host);
        Self { name: name.to_owned(), link, informers, stop, tasks, hosts: hosts.clone(), runtime }
    }

    /// Sets its wall clock ahead by so many seconds, or back where they are negative.
    pub(crate) fn set_wall_clock_ahead(&self, seconds: i64) {
        self.hosts.set_wall_clock_ahead(&self.name, seconds);
    }

    /// Freezes it for a while, as SIGSTOP does.
    pub(crate) fn freeze(&self, how_long: Duration) {
        self.hosts.freeze(&self.name, how_long);
    }

    /// Ends it in the middle of what it does.
    pub(crate) fn kill(self) {
        self.hosts.cut_power(&self.name);
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Panics
    /// If it does.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.expect("a manager does not panic");
        }
        let informers = self.informers;
        self.runtime.spawn(async move { informers.shutdown().await }).await.expect("informers do not panic");
        self.hosts.cut_power(&self.name);
    }

    /// Whether one of its tasks has panicked, or ended by itself.
    pub(crate) fn has_failed(&self) -> bool {
        let has_ended = self.tasks.iter().any(JoinHandle::is_finished);
        has_ended || self.informers.informers().iter().any(|informer| informer.has_panicked())
    }

    /// Its caches.
    pub(crate) fn caches(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.informers.whole_informers()
    }
}

fn elector(name: &str, clients: &Clients, events: &events::Broadcaster) -> Elector {
    let elector = Elector::new(
        leader_election::Config::new(LEASE.0, LEASE.1, name),
        clients.lease_client("leader-election"),
        events.recorder("kube-controller-manager"),
        leader_election::Metrics::new(),
    );
    elector.expect("the defaults are valid")
}

fn context(
    clients: &Clients,
    informers: &SharedInformerFactory,
    events: events::Broadcaster,
    elector: &Elector,
) -> ControllerContext {
    let metrics = prometheus::Registry::new();
    ControllerContext {
        clients: clients.gated(Arc::new(elector.fence())),
        informers: informers.clone(),
        first_looks: FirstLooks::default(),
        rest_mapper: Arc::new(RestMapper::new(clients.component("discovery"))),
        root_ca: "an authority".into(),
        server_version: ServerVersion::fixed(36),
        events,
        clock: Clock::wall(),
        options: Arc::new(steersman_controllers::builtin().options()),
        gates: Arc::default(),
        queue_metrics: MetricsProvider::register(&metrics).expect("a new registry takes them"),
        metrics,
        debug: DebugPages::default(),
    }
}

fn leadership(elector: Elector, context: &ControllerContext) -> Leadership {
    let registry = steersman_controllers::builtin();
    let selection = Selection::parse(&["*"], &registry).expect("the pattern for all is valid");
    let controllers = registry.build(&selection, context, &runner::Metrics::new());
    let controllers = controllers.expect("the controllers can be built");
    let timing = Timing { start_interval: Duration::ZERO, shutdown_timeout: Duration::from_secs(30) };
    let retry_period = leader_election::Config::new(LEASE.0, LEASE.1, "").retry_period;
    Leadership::new(Some(elector), retry_period, controllers, context.informers.clone(), timing)
}

/// What a cache holds: the version of each object.
pub(crate) fn versions(cache: &dyn AnyInformer) -> BTreeMap<ObjectKey, String> {
    let mut versions = BTreeMap::new();
    cache.for_each_meta(&mut |meta| _ = versions.insert(meta.key.clone(), meta.resource_version.to_string()));
    versions
}
