//! What the integration tests stand on: an API server, embedded or real, and waiting with a deadline.
//!
//! Each test has a namespace of its own. By default it also has a server of its own, in its process. Where
//! `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`, the tests of one file share a real one.
//!
//! This is a crate, so that cargo compiles it once and not with each test file.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may fail in this way, and say what it skips"
)]
#![allow(missing_docs, reason = "the tests of this repository are the only users")]

pub mod attachments;
pub mod audit;
pub mod autoscaling;
pub mod bootstrap;
pub mod budgets;
pub mod certificates;
pub mod claims;
pub mod cron_jobs;
pub mod daemons;
pub mod deployments;
pub mod devices;
pub mod history;
pub mod https;
pub mod identities;
pub mod jobs;
pub mod kubectl;
pub mod living;
pub mod managed;
pub mod manager;
pub mod metrics;
pub mod namespaces;
pub mod nodes;
pub mod owned;
pub mod quotas;
pub mod real;
pub mod relay;
pub mod replicas;
pub mod shipped_role;
pub mod slices;
pub mod stateful_sets;
pub mod temporary_folder;
pub mod user;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use steersman_apiserver::TestServer;
use tokio::sync::MutexGuard;

pub use self::real::patience;
pub use self::temporary_folder::TemporaryFolder;

/// An API server.
pub enum Server {
    /// In this process, with faults on demand.
    Embedded(Box<TestServer>),
    /// etcd and kube-apiserver.
    Real(Arc<real::RealServer>),
}

/// A server, and a namespace in it that no other test uses.
pub struct Cluster {
    pub server: Server,
    pub namespace: String,
    kubeconfig: tempfile::TempDir,
    /// Held by a test that must be alone with its manager.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Cluster {
    /// A server as the environment wants it.
    pub async fn start() -> Self {
        let server = match real::assets() {
            Some(assets) => Server::Real(real::shared(&assets).await),
            None => Server::Embedded(Box::new(TestServer::start().await)),
        };
        Self::on(server).await
    }

    /// A server as the environment wants it, on which no other test that starts it like this runs meanwhile. Managers see
    /// all namespaces, so that on a shared server those of several tests would work on the same objects.
    pub async fn start_alone() -> Self {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        match real::assets() {
            Some(assets) => {
                let turn = TURN.lock().await;
                let server = Server::Real(real::shared(&assets).await);
                Self { _turn: Some(turn), ..Self::on(server).await }
            }
            None => Self::start_embedded().await,
        }
    }

    /// A server that may be stopped and started: nobody else uses it.
    pub async fn start_own() -> Self {
        let server = match real::assets() {
            Some(assets) => Server::Real(Arc::new(real::RealServer::start(&assets).await)),
            None => Server::Embedded(Box::new(TestServer::start().await)),
        };
        Self::on(server).await
    }

    /// A real server that nobody else uses, and that logs each request. `None` if the environment names none.
    pub async fn start_audited() -> Option<Self> {
        Self::start_audited_with(&[]).await
    }

    /// As [`start_audited`](Self::start_audited), with these further flags of the API server.
    pub async fn start_audited_with(flags: &'static [&'static str]) -> Option<Self> {
        let server = real::RealServer::start_audited(&real::assets()?, flags).await;
        Some(Self::on(Server::Real(Arc::new(server))).await)
    }

    /// The embedded server, for tests that need its faults, whatever the environment wants.
    pub async fn start_embedded() -> Self {
        Self::on(Server::Embedded(Box::new(TestServer::start().await))).await
    }

    /// A namespace in this server.
    pub async fn on(server: Server) -> Self {
        let kubeconfig = tempfile::tempdir().expect("a temporary folder must be had");
        let mut cluster = Self { server, namespace: String::new(), kubeconfig, _turn: None };
        let text = serde_json::to_string(&cluster.kubeconfig_of_server()).expect("a kubeconfig is JSON");
        std::fs::write(cluster.kubeconfig(), text).expect("the kubeconfig must be written");
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "generateName": "test-" } }))
            .expect("it is a namespace");
        let namespaces = Api::<Namespace>::all(cluster.client());
        let created =
            namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace must be made");
        cluster.namespace = created.metadata.name.expect("a created object has a name");
        cluster
    }

    /// How kube clients reach it.
    pub fn config(&self) -> kube::Config {
        match &self.server {
            Server::Embedded(server) => server.config(),
            Server::Real(server) => server.config(),
        }
    }

    /// A client as an administrator has it.
    pub fn client(&self) -> kube::Client {
        let mut config = self.config();
        self.namespace.clone_into(&mut config.default_namespace);
        kube::Client::try_from(config).expect("the configuration of a test server must make a client")
    }

    /// A kubeconfig file for programs that have this token at the real server.
    pub fn kubeconfig_with_token(&self, token: &str) -> PathBuf {
        let mut kubeconfig = self.kubeconfig_of_server();
        kubeconfig["users"][0]["user"]["token"] = token.into();
        let path = self.kubeconfig().with_file_name(token);
        std::fs::write(&path, kubeconfig.to_string()).expect("the kubeconfig must be written");
        path
    }

    /// A kubeconfig file for other programs.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.path().join("kubeconfig")
    }

    /// A kubeconfig file for programs that reach the API server through a relay, and the relay.
    pub async fn kubeconfig_with_relay(&self) -> (PathBuf, relay::Relay) {
        let mut kubeconfig = self.kubeconfig_of_server();
        let server = &mut kubeconfig["clusters"][0]["cluster"]["server"];
        let url = server.as_str().expect("a kubeconfig names a server").to_owned();
        let (scheme, address) = url.split_once("://").expect("it is a URL");
        let relay = relay::Relay::start(address.to_owned()).await;
        *server = format!("{scheme}://{}", relay.address).into();
        let path = self.kubeconfig().with_file_name("relayed");
        std::fs::write(&path, kubeconfig.to_string()).expect("the kubeconfig must be written");
        (path, relay)
    }

    /// The file with the private key by which the server signs the tokens of service accounts.
    pub fn token_key(&self) -> PathBuf {
        match &self.server {
            Server::Embedded(server) => {
                let path = self.kubeconfig.path().join("sa.key");
                std::fs::write(&path, server.token_key()).expect("the key must be written");
                path
            }
            Server::Real(server) => server.folder().join("sa.key"),
        }
    }

    /// The embedded server.
    ///
    /// # Panics
    /// Where the server is a real one.
    pub fn embedded(&self) -> &TestServer {
        match &self.server {
            Server::Embedded(server) => server,
            Server::Real(_) => panic!("this test must start the embedded server"),
        }
    }

    /// The requests that a server of [`start_audited`](Self::start_audited) has logged.
    pub fn audit_log(&self) -> Vec<serde_json::Value> {
        match &self.server {
            Server::Embedded(_) => panic!("the embedded server has no audit log"),
            Server::Real(server) => server.audit_log(),
        }
    }

    /// Stops the API server, waits for `away`, and starts it again with all its objects.
    pub async fn restart(&self, away: Duration) {
        match &self.server {
            Server::Embedded(server) => {
                server.stop().await;
                tokio::time::sleep(away).await;
                server.restart().await.expect("the port must still be free");
            }
            Server::Real(server) => server.restart(away).await,
        }
    }

    fn kubeconfig_of_server(&self) -> serde_json::Value {
        match &self.server {
            Server::Embedded(server) => {
                serde_json::to_value(server.kubeconfig()).expect("a kubeconfig is JSON")
            }
            Server::Real(server) => server.kubeconfig(),
        }
    }
}

/// Waits until `condition` gives something, and fails after a generous while.
///
/// # Panics
/// When it does not, with `what` was waited for.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut condition: impl FnMut() -> F) -> T {
    let wait = async {
        // Many conditions list objects. At one list every few milliseconds, a test needs more processor time than the manager.
        let mut pause = Duration::from_millis(10);
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(Duration::from_millis(150));
        }
    };
    match tokio::time::timeout(patience(), wait).await {
        Ok(found) => found,
        Err(_) => panic!("waited for {:?} in vain: {what}", patience()),
    }
}

/// `eventually`, of a plain condition.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || std::future::ready(condition().then_some(()))).await;
}

/// Several lines as one message.
pub fn lines<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().fold(String::new(), |mut text, item| {
        let _ = writeln!(text, "{item}");
        text
    })
}
