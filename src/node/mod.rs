//! Wires `steersman node`: the container runtime, the API server if there is one, and the agent between them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use rustix::system::uname;
use steersman_client::{Clients, clients, config, config_from, events, transport};
use steersman_node::agent::{self, Agent, Connections, Options};
use steersman_node::client_certificate::ClientCertificate;
use steersman_node::configuration::KubeletConfiguration;
use steersman_node::cri::{self, ClientConfig, Endpoint, EndpointError};
use steersman_node::kernel::Kernel;
use steersman_node::machine::limit_open_files;
use steersman_node::runtime::{self, ImageService, RuntimeService};
use steersman_node::volumes::Rights;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::Node;
use crate::serve::process;
use crate::signals::Signals;
use crate::version;

/// Where links to the logs of all containers are.
pub(crate) const CONTAINER_LOG_LINKS: &str = "/var/log/containers";

/// After this time without a byte received, a connection to the API server is pinged. With [`PING_TIMEOUT`], the agent finds
/// a half-open connection in 15 seconds, so that statuses of pods do not wait for it longer. (A kubelet closes all its
/// connections when two writes of the node's status have failed: in 20 seconds.)
const READ_IDLE: Duration = Duration::from_secs(10);
/// A ping not answered within this time ends the connection.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the agent ended, or did not start. Somebody has to look: starting it again changes little.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The system lends us no signals.
    #[error("listening for signals: {0}")]
    Signals(#[source] io::Error),
    /// What is given as the runtime's endpoint is none.
    #[error("containerRuntimeEndpoint: {0}")]
    Endpoint(#[source] EndpointError),
    /// What is given as the endpoint for images is none.
    #[error("imageServiceEndpoint: {0}")]
    ImageEndpoint(#[source] EndpointError),
    /// The runtime's client can't be made.
    #[error("the container runtime's client: {0}")]
    Runtime(#[from] runtime::Error),
    /// Where the API server is, or who we are, can't be found out.
    #[error(transparent)]
    Configure(#[from] config::Error),
    /// Credentials or certificates can't be used.
    #[error("connecting to the API server: {0}")]
    Connect(#[from] transport::Error),
    /// Two parts want one metric.
    #[error("registering metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The agent can't be set up.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

/// Runs the agent until a signal stops it. Containers run on.
///
/// # Errors
/// See [`Error`].
pub(crate) async fn run(node: Node) -> Result<(), Error> {
    tracing::info!(version = version::STEERSMAN, kubernetes = version::info().git_version, "Starting");
    node.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    limit_open_files(node.config.max_open_files);
    let signals = Signals::listen().map_err(Error::Signals)?;
    let registry = Registry::new();
    process::register(&registry)?;
    let connections = connect(&node, &registry)?;
    let clients = connections.clients.clone();
    let options = options(node);
    let agent = Agent::new(options, connections, registry)?;

    let (stop, mut background) = (CancellationToken::new(), JoinSet::new());
    background.spawn(signals.watch(stop.clone()));
    let ended = agent.run(stop).await;
    if let Some(clients) = clients {
        clients.close().await;
    }
    // Until here a second signal ends everything at once.
    background.shutdown().await;
    tracing::info!("Stopped; containers run on");
    Ok(ended?)
}

/// A container runtime, and where calls to it are counted.
pub(crate) struct Runtime {
    /// Its containers.
    pub(crate) containers: Arc<dyn RuntimeService>,
    /// Its images.
    pub(crate) images: Arc<dyn ImageService>,
    /// What is counted, registered by nobody yet.
    pub(crate) metrics: runtime::Metrics,
}

/// The runtime at the sockets of the configuration. Nothing is connected yet.
///
/// # Errors
/// What is given as an endpoint is none.
pub(crate) fn runtime(configuration: &KubeletConfiguration) -> Result<Runtime, Error> {
    let metrics = runtime::Metrics::new();
    let client = |endpoint: Endpoint| {
        cri::Client::new(
            &endpoint,
            ClientConfig {
                timeout: configuration.runtime_request_timeout.0,
                metrics: metrics.clone(),
                ..ClientConfig::default()
            },
        )
    };
    let endpoint = configuration.container_runtime_endpoint.parse().map_err(Error::Endpoint)?;
    let of_runtime = Arc::new(client(endpoint)?);
    let images: Arc<dyn ImageService> = match &configuration.image_service_endpoint {
        None => Arc::<cri::Client>::clone(&of_runtime),
        Some(endpoint) => Arc::new(client(endpoint.parse().map_err(Error::ImageEndpoint)?)?),
    };
    Ok(Runtime { containers: of_runtime, images, metrics })
}

/// The machine's name, as nodes are called.
pub(crate) fn hostname() -> String {
    uname().nodename().to_string_lossy().trim().to_lowercase()
}

fn connect(node: &Node, registry: &Registry) -> Result<Connections, Error> {
    let Runtime { containers, images, metrics } = runtime(&node.config)?;
    let event_metrics = events::Metrics::new();
    event_metrics.register(registry)?;
    let (clients, client_certificate) = match &node.flags.kubeconfig {
        None => {
            tracing::info!(
                "No --kubeconfig: running the pods of manifests only, and reporting to no API server"
            );
            (None, None)
        }
        Some(kubeconfig) => {
            let config = config_from(Some(kubeconfig), None)?;
            tracing::info!(server = %config.cluster_url, "Using API server");
            let lease_seconds = node.config.node_lease_duration_seconds.unsigned_abs().into();
            let transport = transport::Options {
                lease_duration: Duration::from_secs(lease_seconds),
                read_idle: READ_IDLE,
                ping_timeout: PING_TIMEOUT,
                ..transport::Options::default()
            };
            let options = clients::Options { transport, ..clients::Options::default() };
            options.metrics.register(registry)?;
            let certificate = ClientCertificate::of(&config.auth_info);
            (Some(Clients::connect(config, options)?), certificate)
        }
    };
    Ok(Connections {
        clients,
        client_certificate,
        runtime: containers,
        images,
        runtime_metrics: metrics,
        event_metrics,
    })
}

fn options(node: Node) -> Options {
    let Node { config, flags, unmet_guarantees, .. } = node;
    Options {
        configuration: config,
        node_name: flags.hostname_override.unwrap_or_else(hostname),
        node_ips: flags.node_ips,
        node_labels: flags.node_labels,
        root_dir: flags.root_dir,
        cert_dir: flags.cert_dir,
        container_log_links: CONTAINER_LOG_LINKS.into(),
        volume_rights: Rights::All,
        kernel: Some(Kernel::this()),
        external_cloud_provider: flags.external_cloud_provider,
        credential_provider_config: flags.image_credential_provider_config,
        garbage: flags.garbage,
        kubelet_version: version::info().git_version,
        unmet_guarantees,
    }
}
