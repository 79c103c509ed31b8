//! The server for tests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{Cluster, Context, Kubeconfig, NamedCluster, NamedContext};
use parking_lot::Mutex;
use rcgen::KeyPair;
use steersman_api::{GroupVersionResource, ObjectKey};

use crate::access::{Access, Identity, Signer};
use crate::clock::Clock;
use crate::faults::Faults;
use crate::in_memory::InMemory;
use crate::managed_fields;
use crate::monitoring::Monitoring;
use crate::recorder::Recording;
use crate::rest::{ApiServer, Outbound, Settings};
use crate::serve::{Listening, Manner};
use crate::store::{EncryptionKeys, OpenError, TestDisk};
use crate::usage::Usage;

/// A Kubernetes API server in the test's own process, with all objects in memory.
///
/// It begins with the namespaces that every cluster has. There are no controllers: nothing is collected, finalised or
/// scheduled unless the test does it. As upstream, an object with grace or finalizers stays until it is let go, and a
/// Job deleted without a propagation policy waits for the garbage collector (its finalizer is `orphan`).
///
/// Dropping it ends all connections and tasks.
pub struct TestServer {
    server: ApiServer,
    /// None while stopped.
    listening: Mutex<Option<Listening>>,
    /// Where it listens, also after it was started again. `None` if it never does.
    address: Option<SocketAddr>,
    token_key: String,
    restored: u64,
}

/// Where a [`TestServer`] keeps its objects.
#[derive(Debug, Clone)]
enum Place {
    Memory,
    Folder(PathBuf),
    Disk(Arc<TestDisk>),
}

/// How a [`TestServer`] begins.
#[derive(Debug, Clone)]
pub struct Builder {
    settings: Settings,
    place: Place,
    has_port: bool,
}

impl Default for Builder {
    fn default() -> Self {
        let settings =
            Settings { service_account_tokens: false, request_timeout: None, ..Settings::default() };
        Self { settings, place: Place::Memory, has_port: true }
    }
}

impl Builder {
    /// See [`Settings::history`].
    #[must_use]
    pub fn history(mut self, changes: usize) -> Self {
        self.settings.history = changes;
        self
    }

    /// See [`Settings::bookmark_interval`].
    #[must_use]
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.settings.bookmark_interval = interval;
        self
    }

    /// See [`Settings::quota_backend_bytes`].
    #[must_use]
    pub fn quota_backend_bytes(mut self, bytes: u64) -> Self {
        self.settings.quota_backend_bytes = bytes;
        self
    }

    /// See [`Settings::clock`].
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// See [`Settings::service_account_tokens`].
    #[must_use]
    pub fn service_account_tokens(mut self) -> Self {
        self.settings.service_account_tokens = true;
        self
    }

    /// See [`Settings::usage`].
    #[must_use]
    pub fn usage(mut self, usage: impl Usage + 'static) -> Self {
        self.settings.usage = Some(Arc::new(usage));
        self
    }

    /// Keeps objects in a data folder, and begins with those that it holds. By default they are in memory only. The
    /// folder is free again once the server has been [stopped](TestServer::stop) and dropped.
    #[must_use]
    pub fn kept_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.place = Place::Folder(folder.into());
        self
    }

    /// Keeps objects on a disk in memory, and begins with those that it holds. A commit takes time, for which tokio's clock may be
    /// paused. The server is to be used on a runtime of one thread.
    #[must_use]
    pub fn kept_on(mut self, disk: Arc<TestDisk>) -> Self {
        self.place = Place::Disk(disk);
        self
    }

    /// Listens at no port: there are only the clients [in memory](TestServer::in_memory), and the runtime needs no I/O.
    #[must_use]
    pub fn without_port(mut self) -> Self {
        self.has_port = false;
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// As [`TestServer::start`], and where the data folder can't be used.
    pub async fn start(self) -> TestServer {
        self.try_start().await.expect("the data folder must be usable")
    }

    /// Starts the server.
    ///
    /// # Errors
    /// The data folder can't be used.
    ///
    /// # Panics
    /// As [`TestServer::start`].
    pub async fn try_start(mut self) -> Result<TestServer, OpenError> {
        self.settings.clock.get_or_insert_with(Clock::following_tokio);
        let outbound = Outbound::new(None, self.settings.kubelet_certificate_authority.as_deref());
        let outbound = outbound.expect("the authority for nodes must be usable");
        let key = KeyPair::generate().expect("the system must have randomness");
        let signer = Signer::new(&key.serialize_der()).expect("a key that was just made must be good");
        let opened = match &self.place {
            Place::Memory => None,
            Place::Folder(folder) => {
                Some((folder.as_path(), ApiServer::opening(folder, EncryptionKeys::default())?))
            }
            Place::Disk(disk) => Some((Path::new("/"), disk.open_on_one_thread()?)),
        };
        let restored = opened.as_ref().map_or(0, |(_, (_, loaded))| loaded.revision);
        let server = match opened {
            Some((folder, opened)) => {
                let (access, monitoring) = (Access::Open, Monitoring::without_audit());
                ApiServer::open(self.settings, folder, opened, access, signer, outbound, monitoring)?
            }
            None => ApiServer::signing(self.settings, signer, outbound),
        };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = match self.has_port {
            true => Some(Listening::open(server.clone(), any, Manner::default()).await),
            false => None,
        };
        let listening = listening.transpose().expect("a port of the loopback must be free");
        let address = listening.as_ref().map(Listening::address);
        let (listening, token_key) = (Mutex::new(listening), key.serialize_pem());
        Ok(TestServer { server, address, listening, token_key, restored })
    }
}

impl TestServer {
    /// Starts a server as it is by default.
    ///
    /// # Panics
    /// When no port of the loopback can be had.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// To start one that is different.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where it listens, such as `http://127.0.0.1:12345`. It stays the same after a restart.
    ///
    /// # Panics
    /// If it has no port.
    pub fn url(&self) -> String {
        format!("http://{}", self.address.expect("a server without a port has no URL"))
    }

    /// The private key that signs the tokens of service accounts, as PEM: the server accepts tokens that others sign with it.
    pub fn token_key(&self) -> &str {
        &self.token_key
    }

    /// A configuration for kube clients, without its own retries.
    pub fn config(&self) -> kube::Config {
        let url = self.url().parse().expect("a socket address must be part of a valid URL");
        let mut config = kube::Config::new(url);
        config.default_retry = false;
        config
    }

    /// A kubeconfig for other clients, such as kubectl.
    pub fn kubeconfig(&self) -> Kubeconfig {
        let name = "test".to_owned();
        let cluster = Cluster { server: Some(self.url()), ..Cluster::default() };
        let context = Context { cluster: name.clone(), ..Context::default() };
        Kubeconfig {
            clusters: vec![NamedCluster {
                name: name.clone(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            contexts: vec![NamedContext {
                name: name.clone(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some(name),
            ..Kubeconfig::default()
        }
    }

    /// A client over a socket.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config()).expect("a plain HTTP configuration must make a client")
    }

    /// The server as a service, without sockets: for paused time, and to put layers on.
    pub fn in_memory(&self) -> InMemory {
        InMemory {
            server: self.server.clone(),
            who: Identity::master("system:unsecured"),
            is_component: false,
        }
    }

    /// A client without sockets.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn in_memory_client(&self) -> kube::Client {
        kube::Client::new(self.in_memory(), "default")
    }

    /// Faults on demand.
    pub fn faults(&self) -> Faults {
        self.server.faults().clone()
    }

    /// Collects the requests that are served from now on.
    pub fn record(&self) -> Recording {
        self.server.recorder().start()
    }

    /// What objects are stamped with.
    pub fn clock(&self) -> Clock {
        self.server.clock().clone()
    }

    /// The version of the last write.
    pub fn resource_version(&self) -> u64 {
        self.server.store().revision()
    }

    /// The version of the last write that it found when it was started; zero if it keeps nothing.
    pub fn restored_version(&self) -> u64 {
        self.restored
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &GroupVersionResource) -> usize {
        let resources = self.server.resources();
        let found = resources.get(&resource.group, &resource.version, &resource.resource);
        found.map_or(0, |found| self.server.store().len(&found.table))
    }

    /// An object as it is stored, in its JSON form; `None` if there is none. Nobody is asked and nothing recorded.
    pub fn peek(&self, resource: &GroupVersionResource, key: &ObjectKey) -> Option<serde_json::Value> {
        let resources = self.server.resources();
        let found = resources.get(&resource.group, &resource.version, &resource.resource)?;
        let object = self.server.store().get(&found.table, key)?;
        let mut value = object.served_as(found).parsed().as_ref().clone();
        if let Some(managed) = value["metadata"].get_mut("managedFields") {
            managed_fields::expand(managed);
        }
        Some(value)
    }

    /// Forgets all history: watches and pages of lists that begin before now get 410, those under way go on.
    pub fn compact(&self) {
        self.server.store().compact();
    }

    /// Resolves when the disk has failed, and no write will succeed any more. Returns why.
    pub async fn failed(&self) -> String {
        self.server.store().failed().await.to_string()
    }

    /// Stops serving: connections break, calls in memory fail, the port is closed. Objects stay.
    pub async fn stop(&self) {
        self.server.stop();
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.close().await;
        }
    }

    /// Stops serving, as [`stop`](Self::stop) does, but keeps the port. Requests get no answer until [`resume`](Self::resume).
    pub fn suspend(&self) {
        self.server.stop();
    }

    /// Serves again after [`suspend`](Self::suspend), with all objects and their history.
    pub fn resume(&self) {
        self.server.restart();
    }

    /// Serves again after [`stop`](Self::stop), at the same port, with all objects and their history.
    ///
    /// # Errors
    /// Somebody else has taken the port.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        self.server.restart();
        if let Some(address) = self.address {
            let listening = Listening::open(self.server.clone(), address, Manner::default()).await?;
            *self.listening.lock() = Some(listening);
        }
        Ok(())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Bodies of watches that somebody still holds end too.
        self.server.stop();
    }
}
