//! Wires `steersman controller-manager`: clients, caches, controllers, leadership, HTTP.
//!
//! ```text
//! start    configuration ─> clients ─> candidate and its fence ─> caches ─> all controllers are built
//! run      caches fill at once, leading or not; controllers run while this process leads
//! stop     controllers ─> lease ─> caches ─> events ─> HTTP ─> connections
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_client::events::{self, Writer};
use steersman_client::leader_election::{self, Elector};
use steersman_client::{Clients, RestMapper, clients, config, config_from, transport};
use steersman_controllers::context::{Clock, ControllerContext};
use steersman_controllers::registry;
use steersman_controllers::runner::{self, Controllers, ShutdownTimeout};
use steersman_informer::work_queue::{self, MetricsProvider};
use steersman_informer::{SharedInformerFactory, factory, shared_informer};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::cli::{Address, ControllerManager};
use crate::serve::{self, Served, process};
use crate::signals::Signals;
use crate::version;

mod checks;
mod leading;

use leading::Leadership;

/// What events of the manager itself, and its default lease, are called by.
const COMPONENT: &str = "kube-controller-manager";

/// How long the parts that only tell of things may take to end: the event writer flushes for five seconds.
const LAST_WORDS: Duration = Duration::from_secs(6);

/// Why the manager ended, or did not start. Somebody has to look: starting it again changes little.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The system lends us no signals.
    #[error("listening for signals: {0}")]
    Signals(#[source] io::Error),
    /// Where the API server is, or who we are, can't be found out.
    #[error(transparent)]
    Configure(#[from] config::Error),
    /// Credentials or certificates can't be used.
    #[error("connecting to the API server: {0}")]
    Connect(#[from] transport::Error),
    /// Two parts want one metric.
    #[error("registering metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Two parts want one metric of work queues.
    #[error(transparent)]
    QueueMetrics(#[from] work_queue::Error),
    /// The settings of the election can't work.
    #[error("leader election: {0}")]
    Election(#[from] leader_election::ConfigError),
    /// A controller can't be built.
    #[error(transparent)]
    Build(#[from] registry::Error),
    /// The address can't be had.
    #[error("serving at {address}: {source}")]
    Serve {
        /// As given.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// Syncs did not end in time.
    #[error(transparent)]
    Shutdown(#[from] ShutdownTimeout),
}

/// Runs the manager until a signal stops it.
///
/// # Errors
/// See [`Error`].
pub(crate) async fn run(options: ControllerManager) -> Result<(), Error> {
    tracing::info!(version = version::STEERSMAN, kubernetes = version::info().git_version, "Starting");
    options.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let signals = Signals::listen().map_err(Error::Signals)?;
    let manager = Manager::build(&options)?;
    let stop = CancellationToken::new();
    let told = CancellationToken::new();
    let mut background = JoinSet::new();
    background.spawn(signals.watch(stop.clone()));
    let mut last = JoinSet::new();
    manager.serve(&options, &told, &mut last).await?;
    let Manager { clients, writer, informers, leadership, .. } = manager;
    last.spawn(writer.run(told.clone()).instrument(tracing::info_span!("events")));

    informers.start();
    let ended = leadership.run(&stop).await;

    informers.shutdown().await;
    told.cancel();
    if timeout(LAST_WORDS, async { while last.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!("Some events, or answers, were not delivered in time");
    }
    clients.close().await;
    // Until here a second signal ends everything at once.
    background.shutdown().await;
    tracing::info!("Stopped");
    Ok(ended?)
}

/// All parts, connected, none of them running.
struct Manager {
    clients: Clients,
    writer: Writer,
    informers: SharedInformerFactory,
    controllers: Controllers,
    leadership: Leadership,
    metrics: Registry,
}

impl Manager {
    fn build(options: &ControllerManager) -> Result<Self, Error> {
        let metrics = Registry::new();
        process::register(&metrics)?;
        let queue_metrics = MetricsProvider::register(&metrics)?;
        let (election_metrics, event_metrics, run_metrics) =
            (leader_election::Metrics::new(), events::Metrics::new(), runner::Metrics::new());
        election_metrics.register(&metrics)?;
        event_metrics.register(&metrics)?;
        run_metrics.register(&metrics)?;

        let config = config_from(options.kubeconfig.as_deref(), options.master.as_deref())?;
        tracing::info!(server = %config.cluster_url, "Using API server");
        let client_options = clients::Options { limits: options.limits, ..clients::Options::default() };
        client_options.metrics.register(&metrics)?;
        let clients = Clients::connect(config, client_options)?;
        let (events, writer) = events::broadcaster(clients.component(COMPONENT), event_metrics);

        let elector = match &options.election {
            None => None,
            Some(config) => {
                let (client, recorder) =
                    (clients.lease_client("leader-election"), events.recorder(COMPONENT));
                Some(Elector::new(config.clone(), client, recorder, election_metrics)?)
            }
        };
        let gated = match &elector {
            Some(elector) => clients.gated(Arc::new(elector.fence())),
            None => clients.clone(),
        };

        let resync = Some(options.options.min_resync_period).filter(|period| !period.is_zero());
        let informer = shared_informer::Config { resync, ..shared_informer::Config::default() };
        let informers = SharedInformerFactory::new(
            clients.watch_client(),
            factory::Options { informer, ..factory::Options::default() },
        );
        metrics.register(Box::new(serve::caches::CacheCollector::new(informers.clone())?))?;

        let context = ControllerContext {
            clients: gated,
            informers: informers.clone(),
            rest_mapper: Arc::new(RestMapper::new(clients.component("controller-discovery"))),
            events,
            clock: Clock::wall(),
            options: Arc::new(options.options.clone()),
            metrics: metrics.clone(),
            queue_metrics,
        };
        let registry = registry::Registry::builtin();
        let controllers = registry.build(&options.selection, &context, &run_metrics)?;
        let leadership = Leadership::new(
            elector,
            options.election.as_ref().map_or(Duration::ZERO, |election| election.retry_period),
            controllers.clone(),
            informers.clone(),
            options.timing,
        );
        Ok(Self { clients, writer, informers, controllers, leadership, metrics })
    }

    /// Serves HTTP if that is wanted.
    async fn serve(
        &self,
        options: &ControllerManager,
        until: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Error> {
        let Some(address) = &options.http_address else { return Ok(()) };
        let failed = |source| Error::Serve { address: address.clone(), source };
        let listener = serve::bind(address).await.map_err(failed)?;
        tracing::info!(address = %listener.local_addr().map_err(failed)?, "Serving HTTP");
        let served = Served {
            metrics: self.metrics.clone(),
            live: checks::live(),
            ready: checks::ready(&self.informers, &self.controllers),
            configz: options.configz.clone(),
        };
        tasks.spawn(serve::serve(listener, served, until.clone()).instrument(tracing::info_span!("http")));
        Ok(())
    }
}
