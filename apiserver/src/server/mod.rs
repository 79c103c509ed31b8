//! The server for people: over HTTPS, with a data folder, and for those only whom rules allow it.

mod first_objects;
mod pki;
mod roles;
mod tls;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use pki::{Pair, PkiError};

use self::pki::Pki;
use crate::access::{Access, Guard, Identity, MASTERS, Signer, TOWARD_NODES};
use crate::in_memory::InMemory;
use crate::monitoring::{AuditError, AuditOptions, Monitoring};
use crate::rest::{ApiServer, Outbound, OutboundError, Settings};
use crate::serve::{Limits, Listening, Manner};
use crate::store::{EncryptionKeys, OpenError};

/// How often it is looked for what has had its time.
const BETWEEN_EXPIRIES: Duration = Duration::from_secs(60);
/// For how long it is remembered at least how objects were, unless they change too much; as upstream's etcd is told.
const REMEMBERED: Duration = Duration::from_secs(5 * 60);

/// How long answers under way may take when the server is to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What clusters, users and contexts are called in kubeconfigs.
const NAME: &str = "steersman";

/// Where a [`Server`] lives, and how it behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// How requests are answered.
    pub settings: Settings,
    /// Where objects, keys and certificates are kept. Made with mode 0700 where it is missing.
    pub data_folder: PathBuf,
    /// Where it listens. Port 0 picks a free one.
    pub address: SocketAddr,
    /// What clients may take of it, and for how long.
    pub limits: Limits,
    /// The keys that encrypt Secrets in the data folder. By default there are none, and Secrets are not encrypted.
    pub encryption_keys: EncryptionKeys,
    /// The audit log. `None` for none.
    pub audit: Option<AuditOptions>,
    /// Names and addresses under which clients may reach it, beside the one it listens at and the loopback.
    pub names: Vec<String>,
}

impl Options {
    /// A server with this data folder, at a free port of the loopback, and the defaults of everything else.
    pub fn new(data_folder: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::default(),
            data_folder: data_folder.into(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            limits: Limits::default(),
            encryption_keys: EncryptionKeys::default(),
            audit: None,
            names: Vec::new(),
        }
    }
}

/// Why a server does not start. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Objects can't be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Keys and certificates can't be had.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The audit log can't be had.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// They are not good for TLS.
    #[error("setting up TLS: {0}")]
    Tls(String),
    /// They, or those of nodes, are not good for connections to nodes.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    /// The address can't be had.
    #[error("serving at {address}: {source}")]
    Listen {
        /// As given.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// A Kubernetes API server over HTTPS whose objects last.
///
/// Clients are known by certificates of its own authority, or by tokens; RBAC says what they may do, and the administrator
/// of its [kubeconfig](Self::kubeconfig) may do everything. Who does not say who it is gets health and version.
///
/// Dropping it ends all connections and tasks.
pub struct Server {
    server: ApiServer,
    listening: Listening,
    /// What it does unasked.
    chores: JoinSet<()>,
    ca: String,
    authority_files: [PathBuf; 2],
    admin: Pair,
    token_key: PathBuf,
}

impl Server {
    /// Opens the data folder, and listens.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options { settings, data_folder, address, limits, encryption_keys, audit, names } = options;
        // The folder's own lock first: a second server must not touch anything.
        let opened = ApiServer::opening(&data_folder, encryption_keys)?;
        let pki = Pki::open(&data_folder)?;
        let signer = Signer::new(&pki.token_key()?).map_err(PkiError::from)?;
        let access = Access::Guarded(Arc::new(Guard::new(&pki.admin_token()?)));
        let for_nodes = pki.client("apiserver-kubelet-client", TOWARD_NODES, &[MASTERS])?;
        let outbound = Outbound::new(Some(&for_nodes), settings.kubelet_certificate_authority.as_deref())?;
        let monitoring = Monitoring::new(audit)?;
        let server = ApiServer::open(settings, &data_folder, opened, access, signer, outbound, monitoring)?;
        first_objects::make(&server).await;
        server.say_since_when_uses_are_tracked();
        let tls = tls::tls(&pki, names_of(address.ip(), names.clone()))?;
        let manner = Manner { tls: Some(tls), limits: Some(limits) };
        let listening = Listening::open(server.clone(), address, manner).await;
        let listening = listening.map_err(|source| StartError::Listen { address, source })?;
        first_objects::announce(&server, listening.address(), &names).await;
        let admin = pki.client("admin", "admin", &[MASTERS])?;
        let mut chores = JoinSet::new();
        chores.spawn(expire(server.clone()));
        let (token_key, authority_files) = (pki.token_key_file(), pki.authority_files());
        Ok(Self { server, listening, chores, ca: pki.ca, authority_files, admin, token_key })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// How clients on this machine name it.
    pub fn url(&self) -> String {
        let address = self.address();
        let reachable = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        format!("https://{}", SocketAddr::new(reachable, address.port()))
    }

    /// The authority's certificate, as PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// The file with the private key that signs the tokens of service accounts, as PEM.
    pub fn token_key(&self) -> &Path {
        &self.token_key
    }

    /// The files with the authority's certificate and its private key, both as PEM.
    pub fn authority_files(&self) -> [PathBuf; 2] {
        self.authority_files.clone()
    }

    /// The administrator's kubeconfig, with all that it needs within.
    pub fn kubeconfig(&self) -> Kubeconfig {
        let name = NAME.to_owned();
        let cluster = Cluster {
            server: Some(self.url()),
            certificate_authority_data: Some(STANDARD.encode(&self.ca)),
            ..Cluster::default()
        };
        let user = AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&self.admin.certificate)),
            client_key_data: Some(STANDARD.encode(&self.admin.key).into()),
            ..AuthInfo::default()
        };
        let context = Context { cluster: name.clone(), user: Some(name.clone()), ..Context::default() };
        Kubeconfig {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster), ..Default::default() }],
            auth_infos: vec![NamedAuthInfo {
                name: name.clone(),
                auth_info: Some(user),
                ..Default::default()
            }],
            contexts: vec![NamedContext { name: name.clone(), context: Some(context), ..Default::default() }],
            current_context: Some(name),
            ..Kubeconfig::default()
        }
    }

    /// Its metrics, which `/metrics` serves as well.
    pub fn metrics(&self) -> &prometheus::Registry {
        self.server.monitoring().metrics().registry()
    }

    /// The server as a service without sockets, on behalf of that user: for parts of the same process.
    pub fn in_memory(&self, who: Identity) -> InMemory {
        InMemory { server: self.server.clone(), who, is_component: false }
    }

    /// The same, for a part of the cluster itself, which shares the process: its requests do not count among those under way, of
    /// which there may be only so many.
    pub fn in_memory_of_component(&self, who: Identity) -> InMemory {
        InMemory { is_component: true, ..self.in_memory(who) }
    }

    /// Resolves when writes can't be stored any more: the server should be stopped then.
    pub async fn failed(&self) -> String {
        self.server.store().failed().await.to_string()
    }

    /// Ends watches and other streams, answers what is under way, stores it, and frees port and folder.
    pub async fn stop(mut self) {
        self.server.end_streams();
        self.listening.drain(LAST_ANSWERS).await;
        self.server.stop();
        self.chores.shutdown().await;
        self.listening.close().await;
    }
}

/// Sees to it that neither events nor what objects once were pile up, and that the server says since when it tracks the use of
/// tokens, until it is dropped.
async fn expire(server: ApiServer) {
    loop {
        server.expire_events();
        server.say_since_when_uses_are_tracked();
        if let Some(before) = Instant::now().checked_sub(REMEMBERED) {
            server.store().forget(before);
        }
        tokio::time::sleep(BETWEEN_EXPIRIES).await;
    }
}

/// The names of the server's certificate.
fn names_of(address: IpAddr, more: Vec<String>) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec();
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names.extend(more);
    names.sort();
    names.dedup();
    names
}
