//! Wires `steersman standalone`: API server, controllers, a scheduler and one node, in one process.
//!
//! ```text
//! start    server, its kubeconfig ─> clients without sockets, a name for each part ─> all parts are built ─> they run
//! stop     node ─> scheduler ─> controllers ─> events ─> server
//! ```

mod greeting;
mod kubeconfig;
mod metrics;
mod node;
mod provisioner;
mod scheduler;
pub(crate) mod snapshot;
mod usage;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use serde_json::Value;
use steersman_apiserver::{EncryptionKeys, Identity, KeyFileError, Server, Settings, StartError};
use steersman_client::{Clients, Limits, clients, events};
use steersman_controller::feature_gates::FeatureGates;
use steersman_controller::options::OptionSet;
use steersman_controller::runner::{ShutdownTimeout, Timing};
use steersman_controllers::access::certificates::signing::CsrSigningOptions;
use steersman_controllers::access::service_account_token::ServiceAccountOptions;
use steersman_controllers::batch::job::JobOptions;
use steersman_node::agent;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use crate::cli::Standalone;
use crate::controller_manager::{self, Foundation, Manager, Work};
use crate::serve::process;
use crate::signals::Signals;
use crate::version;

use greeting::Greeting;
pub(crate) use kubeconfig::KubeconfigError;
use metrics::OfParts;
use provisioner::{PROVISIONER, Provisioner};
use scheduler::Scheduler;

/// How long the controllers' syncs may take to end, and the last events to be written.
const SHUTDOWN: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(6);

/// How long what a job's pods do is gathered: here are no crowds of them, and somebody watches.
const JOB_BATCHES: Duration = Duration::from_millis(50);

/// Why it ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The system lends us no signals.
    #[error("listening for signals: {0}")]
    Signals(#[source] io::Error),
    /// The API server does not start.
    #[error(transparent)]
    Server(#[from] StartError),
    /// Its kubeconfig can't be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// Two parts want one metric.
    #[error("registering metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The controllers can't be set up.
    #[error(transparent)]
    Manager(#[from] controller_manager::Error),
    /// The container runtime's client can't be made.
    #[error(transparent)]
    Runtime(#[from] crate::node::Error),
    /// The node's folder can't be had.
    #[error("{}: {source}", path.display())]
    Node {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The node has no port to serve at.
    #[error("a port for the node: {0}")]
    Port(#[source] io::Error),
    /// The node can't be set up, or ended.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// Objects can't be stored any more.
    #[error("the data folder: {0}")]
    Store(String),
    /// A mistake in the program.
    #[error("a part ended by itself: {0}")]
    Part(#[from] JoinError),
    /// The keys for Secrets can't be had.
    #[error(transparent)]
    EncryptionKeys(#[from] KeyFileError),
    /// Syncs did not end in time.
    #[error(transparent)]
    Shutdown(#[from] ShutdownTimeout),
}

/// Runs all of it until a signal stops it.
///
/// # Errors
/// See [`Error`].
pub(crate) async fn run(options: Standalone) -> Result<(), Error> {
    let signals = Signals::listen().map_err(Error::Signals)?;
    let key_file = options.encryption_key_file.as_deref();
    let encryption_keys = key_file.map(EncryptionKeys::read).transpose()?.unwrap_or_default();
    let server = Server::start(steersman_apiserver::Options {
        settings: Settings {
            quota_backend_bytes: options.quota_backend_bytes,
            max_requests_in_flight: options.requests_in_flight.0,
            max_mutating_requests_in_flight: options.requests_in_flight.1,
            usage: Some(Arc::new(usage::OfSimulated)),
            ..Settings::default()
        },
        data_folder: options.data_dir.clone(),
        address: options.https_address,
        names: Vec::new(),
        limits: Default::default(),
        encryption_keys,
        audit: options.audit.clone(),
    })
    .await?;
    let stop = CancellationToken::new();
    let mut background = JoinSet::new();
    background.spawn(signals.watch(stop.clone()));
    let ended = run_on(&server, &options, &stop).await;
    server.stop().await;
    // Until here a second signal ends everything at once.
    background.shutdown().await;
    tracing::info!("Stopped");
    ended
}

/// Runs everything but the server.
async fn run_on(server: &Server, options: &Standalone, stop: &CancellationToken) -> Result<(), Error> {
    kubeconfig::write(&options.kubeconfig, &server.kubeconfig())?;
    tracing::info!(
        version = version::STEERSMAN,
        kubernetes = version::info().git_version,
        server = server.url(),
        data = %options.data_dir.display(),
        "Starting"
    );
    let metrics = Registry::new();
    process::register(&metrics)?;
    let event_metrics = events::Metrics::new();
    event_metrics.register(&metrics)?;
    // Within one process nobody has to be protected from anybody's requests.
    let client_options = clients::Options { limits: Limits::UNLIMITED, ..Default::default() };
    client_options.metrics.register(&metrics)?;
    let as_user =
        |user: &str| Clients::over_with(server.in_memory(Identity::master(user)), client_options.clone());

    let plan = node::Plan {
        name: options.node_name.as_deref(),
        folder: &options.data_dir.join("node"),
        endpoint: options.container_runtime_endpoint.as_deref(),
        cgroup_driver: options.cgroup_driver,
        ca: server.ca(),
    };
    let name = plan.name();
    let metrics_of_node = Registry::new();
    metrics.register(Box::new(OfParts(vec![metrics_of_node.clone(), server.metrics().clone()])))?;
    // It has the rights of a node in any cluster, and no more.
    let of_node = Identity::authenticated(format!("system:node:{name}"), ["system:nodes".to_owned()]);
    let of_node = Clients::over_with(server.in_memory_of_component(of_node), client_options.clone());
    let (agent, port) = plan.agent(of_node, event_metrics.clone(), metrics_of_node)?;
    let clients = as_user("system:kube-controller-manager");
    let work = Work {
        selection: &options.selection,
        timing: Timing { start_interval: Duration::ZERO, shutdown_timeout: SHUTDOWN },
        options: options_of_controllers(server),
        gates: FeatureGates::default(),
        // As often as kube-controller-manager by default.
        min_resync_period: Duration::from_secs(12 * 60 * 60),
        election: None,
    };
    let root_ca = server.ca().into();
    let foundation = Foundation { clients, root_ca, metrics, event_metrics: event_metrics.clone() };
    let mut manager = Manager::build(foundation, work)?;
    if let Some(address) = &options.http_address {
        let served = manager.served(Value::Object(Default::default()), BTreeSet::new())?;
        manager.serve(address, served).await?;
    }
    let clients = as_user("system:kube-scheduler");
    let (broadcaster, writers) = events::broadcaster(&clients, event_metrics);
    let scheduler = Scheduler {
        watch: clients.watch_client(),
        client: clients.component("scheduler"),
        recorder: broadcaster.recorder(scheduler::SCHEDULER),
        node: name.clone(),
    };
    let clients = as_user("system:local-path-provisioner");
    let provisioner = Provisioner {
        watch: clients.watch_client(),
        client: clients.component("provisioner"),
        recorder: broadcaster.recorder(PROVISIONER),
        node: name.clone(),
        folder: options.data_dir.join("volumes"),
    };

    let [of_node, of_scheduler, of_events, of_manager] = [(); 4].map(|()| CancellationToken::new());
    let mut parts = JoinSet::new();
    let mut telling = JoinSet::new();
    telling.spawn(writers.run(of_events.clone()).instrument(info_span!("events")));
    let (mut placing, mut managing) = (JoinSet::new(), JoinSet::new());
    placing.spawn(scheduler.run(of_scheduler.clone()).instrument(info_span!("scheduler")));
    placing.spawn(provisioner.run(of_scheduler.clone()).instrument(info_span!("provisioner")));
    let token = of_manager.clone();
    managing.spawn(async move { manager.run(&token).await }.instrument(info_span!("controllers")));
    parts.spawn(Box::pin(agent.run(of_node.clone())).instrument(info_span!("node")));

    let endpoint = options.container_runtime_endpoint.as_deref();
    let greeting = Greeting { kubeconfig: &options.kubeconfig, node: &name, port, endpoint };
    let watching = as_user("system:admin").component("greeting");
    let greeted = async {
        greeting.say(watching).await;
        std::future::pending().await
    };
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        never = greeted => never,
        Some(node) = parts.join_next() => flatten(node),
        Some(managed) = managing.join_next() => flatten(managed),
        Some(Err(panicked)) = placing.join_next() => Err(panicked.into()),
        why = server.failed() => Err(Error::Store(why)),
    };
    of_node.cancel();
    let node = joined(&mut parts).await;
    of_scheduler.cancel();
    while placing.join_next().await.is_some() {}
    of_manager.cancel();
    let managed = joined(&mut managing).await;
    of_events.cancel();
    if timeout(LAST_WORDS, async { while telling.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!("Some events were not delivered in time");
    }
    ended.and(node).and(managed)
}

/// The settings of controllers that differ from the defaults. Tokens in Secrets are signed with the API server's key, and
/// certificates by its own authority.
fn options_of_controllers(server: &Server) -> OptionSet {
    let token_key = server.token_key().display().to_string();
    let [cert_file, key_file] = server.authority_files().map(|path| path.display().to_string());
    OptionSet::default()
        .with(JobOptions { batch_period: JOB_BATCHES, ..JobOptions::default() })
        .with(ServiceAccountOptions { key_file: token_key, ..ServiceAccountOptions::default() })
        .with(CsrSigningOptions { cert_file, key_file, ..CsrSigningOptions::default() })
}

/// What a part that is told to end comes to; one that ended before was heard already.
async fn joined<E>(part: &mut JoinSet<Result<(), E>>) -> Result<(), Error>
where
    Error: From<E>,
    E: 'static,
{
    part.join_next().await.map_or(Ok(()), flatten)
}

fn flatten<E>(ended: Result<Result<(), E>, JoinError>) -> Result<(), Error>
where
    Error: From<E>,
{
    Ok(ended??)
}
