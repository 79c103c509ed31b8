//! Sets up the secure port: its listener, its certificates, who its users are and what they may do.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustix::process::{Resource, getrlimit};
use steersman_client::{Clients, Limits, clients, config, config_from, transport};
use steersman_controller::feature_gates::FeatureGates;
use steersman_serving::auth::{
    ApiReviewer, AuthenticationConfig, Authenticator, Authorization, Authorizer, ClientCa, ClusterSettings,
    LookupError, Metrics, RequestHeaders, Tokens,
};
use steersman_serving::tls::{
    NamedCertificate, SelfSigned, ServingCertificate, ServingCertificates, serving_certificate_files,
};
use steersman_serving::{self as serving, Serving};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::cli::secure_port::{Authentication, Certificate, Lookup, PortSharing, SecurePort};
use crate::serve::Served;
use crate::serve::secure::{Debugging, Secure};
use crate::serve::zpages::{Component, Statusz};

/// The name of the serving certificate's files in `--cert-dir`.
const PAIR: &str = "kube-controller-manager";
/// The names in a self-signed certificate, as upstream's.
const LOCALHOST: &str = "localhost";
/// Members of this group may do everything, without a review (upstream: `AlwaysAllowGroups`).
const MASTERS: &str = "system:masters";
/// The limits of the client for reviews; upstream: `DelegatingAuthenticationOptions`.
const REVIEWS: Limits = Limits::new(200.0, 400);
/// Length of the queue of connections that the system has accepted.
const BACKLOG: u32 = 1024;
/// Maximum number of open connections.
const CONNECTIONS: u64 = 256;
/// Connections take at most one in this many of the descriptors that the process may open.
const DESCRIPTORS: u64 = 4;

/// Why there is no secure port. An administrator has to find the cause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The address is in use, or is not an address of this machine.
    #[error(
        "secure port: failed to listen on {address}: {source}; --secure-port and --bind-address choose another \
         address, --secure-port=0 switches the port off"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A certificate or a bundle of authorities is invalid.
    #[error("secure port: {0}")]
    Certificates(#[from] serving::Error),
    /// A kubeconfig for reviews is invalid.
    #[error("secure port: {flag}: {source}")]
    Kubeconfig {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        source: config::Error,
    },
    /// The client for reviews can't use its credentials or certificates.
    #[error("secure port: {flag}: {source}")]
    Connect {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        source: transport::Error,
    },
    /// The settings of the cluster can't be looked up.
    #[error(
        "secure port: reading configmap/extension-apiserver-authentication in kube-system: {0}; the Role \
         extension-apiserver-authentication-reader allows it, --authentication-tolerate-lookup-failure does without it"
    )]
    Lookup(#[from] LookupError),
}

/// The secure port, before it serves.
pub(super) struct Port {
    listener: TcpListener,
    certificates: Arc<ServingCertificates>,
    authenticator: Arc<Authenticator>,
    authorizer: Authorizer,
    /// Settings to follow in the cluster.
    cluster: Option<ClusterSettings>,
    /// The connections of reviews.
    reviews: Reviews,
}

/// Clients for reviews, one for each kubeconfig.
struct Reviews {
    /// The process's own kubeconfig and clients.
    own: (Option<PathBuf>, Clients),
    others: BTreeMap<PathBuf, Clients>,
    /// Those of the pod's service account, if this is a pod and the process has a kubeconfig.
    pod: Option<Clients>,
}

impl Port {
    /// Binds the port and reads the certificates, and what else is needed to know users. Counts who is let in in `metrics`.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) async fn open(
        options: &SecurePort,
        kubeconfig: Option<&Path>,
        clients: &Clients,
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        let listener = listen(options)?;
        let certificates = Arc::new(certificates(options)?);
        let own = (kubeconfig.map(Path::to_owned), clients.clone());
        let mut reviews = Reviews { own, others: BTreeMap::new(), pod: None };
        let (authenticator, cluster) = authenticator(&options.authentication, &mut reviews, metrics).await?;
        let flag = "--authorization-kubeconfig";
        let authorization = &options.authorization;
        let access = match reviews.client(flag, authorization.kubeconfig.as_deref())? {
            Some(client) => Authorization::Webhook {
                reviewer: Arc::new(ApiReviewer::new(client, metrics)),
                allowed_ttl: authorization.allowed_ttl,
                denied_ttl: authorization.denied_ttl,
            },
            None => {
                tracing::warn!(
                    "No --authorization-kubeconfig, so users may request no other paths than those of \
                                --authorization-always-allow-paths"
                );
                Authorization::Nobody
            }
        };
        let authorizer = Authorizer::new(access)
            .with_exceptions(vec![MASTERS.to_owned()], authorization.always_allow.clone())
            .with_metrics(metrics.clone());
        Ok(Self {
            listener,
            certificates,
            authenticator: Arc::new(authenticator),
            authorizer,
            cluster,
            reviews,
        })
    }

    /// Serves until `stop` is cancelled.
    pub(super) fn serve(
        self,
        options: SecurePort,
        served: Served,
        component: Component,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let Self { listener, certificates, authenticator, authorizer, cluster, reviews } = self;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "Serving securely");
        }
        let debugging = if options.profiling { Debugging::On } else { Debugging::Off };
        let authority = Arc::clone(&authenticator);
        let service = Secure::new(authority, authorizer, served, component, debugging);
        let serving = Serving {
            service: Arc::new(service),
            authenticator,
            certificates,
            spoken: options.spoken,
            streams: options.streams,
            max_connections: max_connections(getrlimit(Resource::Nofile).current),
        };
        let stop = stop.clone();
        let run = async move {
            let served = serving::serve(listener, serving, stop.clone());
            let follow = async {
                if let Some(cluster) = cluster {
                    stop.run_until_cancelled(cluster.follow()).await;
                }
            };
            let (ended, ()) = tokio::join!(served, follow);
            if let Err(error) = ended {
                tracing::error!(%error, "The secure port ended");
            }
            reviews.close().await;
        };
        tasks.spawn(run.instrument(tracing::info_span!("https")));
    }
}

/// What `/statusz` and `/flagz` say.
pub(super) fn component(flags: BTreeMap<String, String>, gates: &FeatureGates) -> Component {
    Component {
        started: Timestamp::now(),
        flags: gates.enabled("ComponentFlagz").then_some(flags),
        statusz: if gates.enabled("ComponentStatusz") { Statusz::On } else { Statusz::Off },
    }
}

impl Reviews {
    /// A client for the kubeconfig that a flag names. Without it, one with the pod's service account; `None` if this is
    /// not a pod.
    fn client(
        &mut self,
        flag: &'static str,
        kubeconfig: Option<&Path>,
    ) -> Result<Option<kube::Client>, Error> {
        let connect = |config| {
            let options = clients::Options { limits: REVIEWS, ..clients::Options::default() };
            Clients::connect(config, options).map_err(|source| Error::Connect { flag, source })
        };
        let clients = match kubeconfig {
            Some(path) if self.own.0.as_deref() == Some(path) => &self.own.1,
            Some(path) => {
                if !self.others.contains_key(path) {
                    let config = config_from(Some(path), None);
                    let config = config.map_err(|source| Error::Kubeconfig { flag, source })?;
                    self.others.insert(path.to_owned(), connect(config)?);
                }
                &self.others[path]
            }
            None => {
                if self.pod.is_none() {
                    let Ok(config) = config_from(None, None) else { return Ok(None) };
                    self.pod = Some(connect(config)?);
                }
                return Ok(self.pod.as_ref().map(|clients| clients.component_with("reviews", REVIEWS)));
            }
        };
        Ok(Some(clients.component_with("reviews", REVIEWS)))
    }

    /// Closes the connections that are only for reviews.
    async fn close(self) {
        for clients in self.others.into_values().chain(self.pod) {
            clients.close().await;
        }
    }
}

/// Binds the port. An unspecified address stands for all addresses of both families, as in Go.
fn listen(options: &SecurePort) -> Result<TcpListener, Error> {
    let SecurePort { address, port, port_sharing, .. } = options;
    let candidates: Vec<IpAddr> = match address.is_unspecified() {
        true => vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
        false => vec![*address],
    };
    let mut refused = None;
    for candidate in candidates {
        match bind(SocketAddr::new(candidate, *port), *port_sharing) {
            Ok(listener) => return Ok(listener),
            // Some machines have no IPv6.
            Err(error) => refused = Some(error),
        }
    }
    let source = refused.unwrap_or_else(|| io::Error::other("there is no such address"));
    Err(Error::Listen { address: SocketAddr::new(*address, *port), source })
}

fn bind(address: SocketAddr, port_sharing: PortSharing) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    // As Go's listeners do.
    socket.set_reuseaddr(true)?;
    if port_sharing == PortSharing::Permitted {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn certificates(options: &SecurePort) -> Result<ServingCertificates, serving::Error> {
    let self_signed = || {
        let address = (!options.address.is_unspecified()).then(|| options.address.to_string());
        let names = [LOCALHOST, "127.0.0.1"].into_iter().map(str::to_owned).chain(address);
        let mut names: Vec<String> = names.collect();
        names.dedup();
        SelfSigned { common_name: LOCALHOST.to_owned(), names }
    };
    let default = match &options.certificate {
        Certificate::Files(certificate, key) => ServingCertificate::load(certificate, key)?,
        Certificate::Folder(folder) => {
            let (certificate, key) = serving_certificate_files(folder, PAIR, &self_signed())?;
            ServingCertificate::load(certificate, key)?
        }
        Certificate::Generated => {
            tracing::info!("Generated a self-signed certificate in memory");
            self_signed().in_memory()?
        }
    };
    let named = options.named.iter().map(|named| {
        let certificate = Arc::new(ServingCertificate::load(&named.certificate, &named.key)?);
        Ok(NamedCertificate { names: named.names.clone(), certificate })
    });
    let named = named.collect::<Result<_, serving::Error>>()?;
    Ok(ServingCertificates::with_named(Arc::new(default), named))
}

/// What finds users, and the settings of the cluster that it depends on (upstream: `DelegatingAuthenticationOptions.ApplyTo`).
async fn authenticator(
    options: &Authentication,
    reviews: &mut Reviews,
    metrics: &Metrics,
) -> Result<(Authenticator, Option<ClusterSettings>), Error> {
    let client = reviews.client("--authentication-kubeconfig", options.kubeconfig.as_deref())?;
    let mut cluster = match (&client, options.lookup) {
        (Some(client), Lookup::Required | Lookup::Tolerant) => Some(ClusterSettings::new(client.clone())),
        (None, Lookup::Required | Lookup::Tolerant) => {
            tracing::warn!(
                "No --authentication-kubeconfig, so tokens don't count, and client certificates only with \
                 --client-ca-file or --requestheader-client-ca-file"
            );
            None
        }
        (_, Lookup::Skipped) => None,
    };
    let client_ca = match &options.client_ca {
        Some(path) => Some(Arc::new(ClientCa::load(path)?)),
        None => cluster.as_mut().map(ClusterSettings::client_ca),
    };
    let request_headers = match &options.request_headers {
        Some((path, names)) => {
            Some(Arc::new(RequestHeaders::new(Arc::new(ClientCa::load(path)?), names.clone())))
        }
        None => cluster.as_mut().map(ClusterSettings::request_headers),
    };
    let is_complete = options.client_ca.is_some() && options.request_headers.is_some();
    let cluster = cluster.filter(|_| !is_complete);
    if let Some(cluster) = &cluster {
        match cluster.look_up().await {
            // As upstream, which starts without authorities of client certificates, and follows them.
            Err(error) if options.request_headers.is_some() || options.lookup == Lookup::Tolerant => {
                tracing::warn!(%error, "Failed to look up settings for authentication, continuing without them");
            }
            looked_up => looked_up?,
        }
    }
    let reviewer = client.map(|client| Arc::new(ApiReviewer::new(client, metrics)));
    let tokens = reviewer.map(|reviewer| Tokens { reviewer, ttl: options.token_ttl });
    let metrics = metrics.clone();
    let config = AuthenticationConfig { anonymous: true, request_headers, client_ca, tokens, metrics };
    Ok((Authenticator::new(config), cluster))
}

/// The number of connections of a process that may open this many descriptors; `None` stands for any number.
fn max_connections(descriptors: Option<u64>) -> usize {
    let most = descriptors.map_or(CONNECTIONS, |all| (all / DESCRIPTORS).clamp(1, CONNECTIONS));
    usize::try_from(most).unwrap_or(usize::MAX)
}
