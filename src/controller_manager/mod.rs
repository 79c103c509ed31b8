//! Wires `steersman controller-manager`: clients, caches, controllers, leadership, HTTP.
//!
//! ```text
//! start    configuration ─> clients ─> secure port ─> candidate and its fence ─> caches ─> all controllers are built
//! run      caches fill at once, leading or not; controllers run while this process leads
//! stop     controllers ─> lease ─> caches ─> events ─> HTTP ─> connections
//! ```

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use serde_json::Value;
use steersman_client::events::{self, Writers};
use steersman_client::leader_election::{self, Elector};
use steersman_client::{Clients, Limits, RestMapper, clients, config, config_from, root_ca, transport};
use steersman_controller::children::FirstLooks;
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::debug::DebugPages;
use steersman_controller::feature_gates::FeatureGates;
use steersman_controller::leading::Leadership;
use steersman_controller::options::OptionSet;
use steersman_controller::registry::{self, Selection};
use steersman_controller::runner::{self, Controllers, ShutdownTimeout, Timing};
use steersman_controller::server_version::ServerVersion;
use steersman_informer::reflector::WatchErrorHook;
use steersman_informer::work_queue::{self, MetricsProvider};
use steersman_informer::{SharedInformerFactory, factory, shared_informer};
use steersman_serving::auth;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::cli::{Address, ControllerManager};
use crate::serve::slis::Slis;
use crate::serve::{self, Served, process};
use crate::signals::Signals;
use crate::version;

mod checks;
mod report;
mod secure_port;
mod troubles;

pub(crate) use secure_port::Error as SecurePortError;
use secure_port::Port;

/// The component of the manager's own events.
const COMPONENT: &str = "kube-controller-manager";

/// The namespace of the controllers' service accounts.
const ACCOUNTS_NAMESPACE: &str = "kube-system";

/// The limits of the client for discovery, whose many requests come all at once; client-go: `DiscoveryClient`.
const DISCOVERY_LIMITS: Limits = Limits::new(20.0, 200);

/// Leases are watched in batches: each node renews its lease every 10 s, and the node lifecycle controller, which reads them,
/// waits for `--node-monitor-grace-period` (50 s).
const BATCHED_WATCH: &str = "/apis/coordination.k8s.io/v1/leases";

/// How long events and HTTP answers may take to be sent at shutdown. The event writers flush for five seconds.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(6);

/// Why the manager did not start, or ended. A restart seldom helps: an administrator has to find the cause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The process can't listen for signals.
    #[error("listening for signals: {0}")]
    Signals(#[source] io::Error),
    /// The address of the API server, or the credentials, are missing or invalid.
    #[error(transparent)]
    Configure(#[from] config::Error),
    /// The client can't use the credentials or certificates.
    #[error("connecting to the API server: {0}")]
    Connect(#[from] transport::Error),
    /// Two parts of the process register the same metric.
    #[error("registering metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Two parts of the process register the same metric of work queues.
    #[error(transparent)]
    QueueMetrics(#[from] work_queue::Error),
    /// The settings of leader election are invalid.
    #[error("leader election: {0}")]
    Election(#[from] leader_election::ConfigError),
    /// The constructor of a controller failed.
    #[error(transparent)]
    Build(#[from] registry::Error),
    /// The HTTP port can't be bound.
    #[error("serving at {address}: {source}")]
    Serve {
        /// The address from the command line.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The secure port can't be opened.
    #[error(transparent)]
    SecurePort(#[from] secure_port::Error),
    /// Syncs did not end within the shutdown timeout.
    #[error(transparent)]
    Shutdown(#[from] ShutdownTimeout),
}

/// Runs the manager until a signal stops it.
///
/// # Errors
/// If the manager can't start, or its syncs do not end within the shutdown timeout.
pub(crate) async fn run(options: ControllerManager) -> Result<(), Error> {
    tracing::info!(version = version::STEERSMAN, kubernetes = version::info().git_version, "Starting");
    options.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let (stop, mut background) = (CancellationToken::new(), JoinSet::new());
    background.spawn(Signals::listen().map_err(Error::Signals)?.watch(stop.clone()));
    let foundation = connect(&options)?;
    let clients = foundation.clients.clone();
    let secure_port = match &options.secure_port {
        Some(port) => {
            // Reviews go to the server that their kubeconfig names, even if --master names another one.
            let own = options.kubeconfig.as_deref();
            let own = own.filter(|_| options.master.as_deref().unwrap_or_default().is_empty());
            let metrics = auth::Metrics::new();
            metrics.register(&foundation.metrics)?;
            match stop.run_until_cancelled(Port::open(port, own, &clients, &metrics)).await {
                Some(opened) => Some(opened?),
                None => {
                    clients.close().await;
                    return Ok(());
                }
            }
        }
        None => None,
    };
    let work = Work {
        selection: &options.selection,
        timing: options.timing,
        options: options.options.clone(),
        gates: options.gates.clone(),
        min_resync_period: options.min_resync_period,
        election: options.election.as_ref(),
    };
    let mut manager = Manager::build(foundation, work)?;
    let served = manager.served(options.configz, options.disabled_metrics)?;
    if let Some(address) = &options.http_address {
        manager.serve(address, served.clone()).await?;
    }
    if let (Some(port), Some(settings)) = (secure_port, options.secure_port) {
        let component = secure_port::component(options.flags, &options.gates);
        port.serve(settings, served, component, &mut manager.last, &manager.told);
    }
    let ended = manager.run(&stop).await;
    clients.close().await;
    // Until here, a second signal ends the process at once.
    background.shutdown().await;
    tracing::info!("Stopped");
    Ok(ended?)
}

fn connect(options: &ControllerManager) -> Result<Foundation, Error> {
    let metrics = Registry::new();
    process::register(&metrics)?;
    let event_metrics = events::Metrics::new();
    event_metrics.register(&metrics)?;
    let config = config_from(options.kubeconfig.as_deref(), options.master.as_deref())?;
    tracing::info!(server = %config.cluster_url, "Using API server");
    let root_ca = root_ca(&config, options.kubeconfig.as_deref())?.into();
    let mut client_options = clients::Options { limits: options.limits, ..clients::Options::default() };
    client_options.transport.batched_watches = vec![BATCHED_WATCH];
    if let Some(election) = &options.election {
        client_options.transport.lease_duration = election.lease_duration;
        client_options.transport.write_unacknowledged = election.margin();
    }
    client_options.metrics.register(&metrics)?;
    let clients = Clients::connect(config.clone(), client_options)?;
    let clients = if options.service_account_credentials {
        clients.with_service_accounts(&config, ACCOUNTS_NAMESPACE)?
    } else {
        clients
    };
    Ok(Foundation { clients, root_ca, metrics, event_metrics })
}

/// The parts below a manager, which it may share with other parts of the process.
pub(crate) struct Foundation {
    /// Clients to the API server.
    pub(crate) clients: Clients,
    /// The certificate authorities, in PEM, of the API server. Empty if it has none.
    pub(crate) root_ca: Arc<str>,
    /// The registry of the manager's metrics.
    pub(crate) metrics: Registry,
    /// The metrics of its events, already registered.
    pub(crate) event_metrics: events::Metrics,
}

/// The settings of a manager.
pub(crate) struct Work<'a> {
    /// The controllers to run.
    pub(crate) selection: &'a Selection,
    /// How the controllers start and stop.
    pub(crate) timing: Timing,
    /// The controllers' options.
    pub(crate) options: OptionSet,
    /// The feature gates.
    pub(crate) gates: FeatureGates,
    /// The time after which informers notify handlers of all objects again; zero: never.
    pub(crate) min_resync_period: Duration,
    /// The settings of leader election; `None` runs the controllers without it.
    pub(crate) election: Option<&'a leader_election::Config>,
}

/// All parts, connected; HTTP and events aside, none of them runs.
pub(crate) struct Manager {
    writers: Writers,
    informers: SharedInformerFactory,
    controllers: Controllers,
    leadership: Leadership,
    metrics: Registry,
    debug: DebugPages,
    server_version: ServerVersion,
    /// Tells those who only tell of things to end.
    told: CancellationToken,
    last: JoinSet<()>,
}

impl Manager {
    /// Puts a manager together.
    ///
    /// # Errors
    /// A controller can't be built, or metrics clash.
    pub(crate) fn build(foundation: Foundation, work: Work<'_>) -> Result<Self, Error> {
        let Foundation { clients, root_ca, metrics, event_metrics } = foundation;
        let queue_metrics = MetricsProvider::register(&metrics)?;
        let (election_metrics, run_metrics) = (leader_election::Metrics::new(), runner::Metrics::new());
        election_metrics.register(&metrics)?;
        run_metrics.register(&metrics)?;
        work.gates.register(&metrics)?;
        let (events, writers) = events::broadcaster(&clients, event_metrics);

        let elector = match work.election {
            None => None,
            Some(config) => {
                let (client, recorder) =
                    (clients.lease_client("leader-election"), events.recorder(COMPONENT));
                Some(Elector::new(config.clone(), client, recorder, election_metrics)?)
            }
        };
        let (told, mut last) = (CancellationToken::new(), JoinSet::new());
        if let (Some(elector), Some(election)) = (&elector, work.election) {
            let (identity, lease) = (elector.identity().to_owned(), election.name.clone());
            let telling = troubles::tell_of_leader(elector.leader(), identity, lease, told.clone());
            last.spawn(telling.instrument(tracing::info_span!("standing_by")));
        }
        let gated = match &elector {
            Some(elector) => clients.gated(Arc::new(elector.fence())),
            None => clients.clone(),
        };

        let resync = Some(work.min_resync_period).filter(|period| !period.is_zero());
        let (watch_failures, count) = serve::caches::watch_failures()?;
        metrics.register(Box::new(watch_failures))?;
        let tell = troubles::hook();
        let on_watch_error: WatchErrorHook = Arc::new(move |resource, error| {
            count(resource, error);
            tell(resource, error);
        });
        let informer = shared_informer::Config {
            resync,
            on_watch_error: Some(on_watch_error),
            ..shared_informer::Config::default()
        };
        let informers = SharedInformerFactory::new(
            clients.watch_client(),
            factory::Options { informer, ..factory::Options::default() },
        );
        metrics.register(Box::new(serve::caches::CacheCollector::new(informers.clone())?))?;

        let debug = DebugPages::default();
        let discovery = clients.sender_with("controller-discovery", DISCOVERY_LIMITS);
        let server_version = ServerVersion::of(discovery.clone());
        let context = ControllerContext {
            first_looks: FirstLooks::default(),
            clients: gated,
            informers: informers.clone(),
            rest_mapper: Arc::new(RestMapper::new(discovery.client())),
            root_ca,
            server_version: server_version.clone(),
            events,
            clock: Clock::wall(),
            options: Arc::new(work.options),
            gates: Arc::new(work.gates),
            metrics: metrics.clone(),
            queue_metrics,
            debug: debug.clone(),
        };
        let registry = steersman_controllers::builtin();
        let controllers = registry.build(work.selection, &context, &run_metrics)?;
        let leadership = Leadership::new(
            elector,
            work.election.map_or(Duration::ZERO, |election| election.retry_period),
            controllers.clone(),
            informers.clone(),
            work.timing,
        );
        Ok(Self { writers, informers, controllers, leadership, metrics, debug, server_version, told, last })
    }

    /// The pages of both ports, without the metrics that are disabled.
    ///
    /// # Errors
    /// If a metric's description is invalid.
    pub(crate) fn served(&self, configz: Value, disabled_metrics: BTreeSet<String>) -> Result<Served, Error> {
        Ok(Served {
            metrics: self.metrics.clone(),
            disabled_metrics: Arc::new(disabled_metrics),
            live: Arc::new(checks::live(&self.informers)),
            ready: Arc::new(checks::ready(&self.informers, &self.controllers)),
            slis: Slis::new()?,
            configz,
            controllers: report::reporter(&self.controllers, &self.informers),
            debug: self.debug.clone(),
        })
    }

    /// Serves pages over plain HTTP, until [`run`](Self::run) ends.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub(crate) async fn serve(&mut self, address: &Address, served: Served) -> Result<(), Error> {
        let failed = |source| Error::Serve { address: address.clone(), source };
        let listener = serve::bind(address).await.map_err(failed)?;
        tracing::info!(address = %listener.local_addr().map_err(failed)?, "Serving HTTP");
        let serving = serve::serve(listener, served, self.told.clone());
        self.last.spawn(serving.instrument(tracing::info_span!("http")));
        Ok(())
    }

    /// Runs the controllers until `stop` is cancelled, then shuts down all parts.
    ///
    /// # Errors
    /// If the syncs did not end within the shutdown timeout.
    pub(crate) async fn run(self, stop: &CancellationToken) -> Result<(), ShutdownTimeout> {
        let Self { writers, informers, leadership, server_version, told, mut last, .. } = self;
        last.spawn(writers.run(told.clone()).instrument(tracing::info_span!("events")));

        let following = server_version.follow(told.clone());
        last.spawn(following.instrument(tracing::info_span!("server_version")));

        informers.start();
        let ended = leadership.run(stop).await;

        informers.shutdown().await;
        told.cancel();
        if timeout(FLUSH_TIMEOUT, async { while last.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("Some events or HTTP answers were not sent in time");
        }
        ended
    }
}
