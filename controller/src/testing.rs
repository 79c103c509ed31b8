//! Runs controllers against an API server in the same process, without sockets, so that tests can pause time.
#![allow(clippy::missing_panics_doc, reason = "only tests call it")]

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::Value;
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::TestServer;
use steersman_client::events::{self, broadcaster};
use steersman_client::{Clients, RestMapper};
use steersman_informer::SharedInformerFactory;
use steersman_informer::factory::Options;
use steersman_informer::work_queue::MetricsProvider;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::children::FirstLooks;
use crate::context::{Clock, ControllerContext};
use crate::debug::DebugPages;
use crate::options::OptionSet;
use crate::registry::{Constructor, Descriptor, Registry, Selection};
use crate::runner::{Metrics, Timing};
use crate::server_version::ServerVersion;

/// Makes the context of controllers over a server in memory, and the writers of their events, which do not run yet.
pub fn context(server: &TestServer, options: OptionSet) -> (ControllerContext, events::Writers) {
    let clients = Clients::over(server.in_memory());
    let (events, writers) = broadcaster(&clients, events::Metrics::new());
    let metrics = prometheus::Registry::new();
    let context = ControllerContext {
        informers: SharedInformerFactory::new(clients.watch_client(), Options::default()),
        first_looks: FirstLooks::default(),
        rest_mapper: Arc::new(RestMapper::new(clients.component("discovery"))),
        root_ca: "the API server's CA".into(),
        server_version: ServerVersion::fixed(36),
        clients,
        events,
        clock: {
            let clock = server.clock();
            Clock::of(move || clock.now())
        },
        options: Arc::new(options),
        gates: Arc::default(),
        queue_metrics: MetricsProvider::register(&metrics).expect("a new registry must take the metrics"),
        metrics,
        debug: DebugPages::default(),
    };
    (context, writers)
}

/// An API server whose clock follows tokio's, with helpers that change its objects and run controllers.
pub struct Cluster {
    /// The server.
    pub server: TestServer,
    client: kube::Client,
}

impl Cluster {
    /// Starts a server.
    pub async fn start() -> Self {
        Self::start_with(steersman_apiserver::Clock::following_tokio()).await
    }

    /// Starts a server with another wall clock, which its controllers share.
    pub async fn start_with(clock: steersman_apiserver::Clock) -> Self {
        Self::on(TestServer::builder().clock(clock).start().await)
    }

    /// A cluster with this server, whose clock should follow tokio's.
    pub fn on(server: TestServer) -> Self {
        let client = server.in_memory_client();
        Self { server, client }
    }

    fn api(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Creates an object of the core group, with its status if it has one.
    pub async fn create(&self, object: &Value) {
        let kind = object["kind"].as_str().expect("an object must have a kind");
        let api = self.api(kind, object["metadata"]["namespace"].as_str());
        let typed: DynamicObject =
            serde_json::from_value(object.clone()).expect("an object must have metadata");
        api.create(&PostParams::default(), &typed).await.expect("the server must create the object");
        if object.get("status").is_some() {
            let name = object["metadata"]["name"].as_str().expect("an object must have a name");
            let status = serde_json::json!({"status": object["status"]});
            let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
            written.expect("the server must write the status");
        }
    }

    /// Merges a patch into an object.
    pub async fn patch(&self, kind: &str, key: &str, patch: Value) {
        let (api, name) = self.named(kind, key);
        let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        written.expect("the server must patch the object");
    }

    /// Merges a patch into an object's status.
    pub async fn patch_status(&self, kind: &str, key: &str, status: Value) {
        let (api, name) = self.named(kind, key);
        let patch = serde_json::json!({"status": status});
        let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        written.expect("the server must patch the status");
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: &str, key: &str) {
        let (api, name) = self.named(kind, key);
        let deleted = api.delete(&name, &kube::api::DeleteParams::default()).await;
        deleted.expect("the server must delete the object");
    }

    fn named(&self, kind: &str, key: &str) -> (Api<DynamicObject>, String) {
        let key: ObjectKey = key.parse().expect("a key must be a namespace and a name");
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        (self.api(kind, namespace), key.name.to_string())
    }

    /// An object as the server stores it, or null.
    pub fn peek(&self, resource: &str, key: &str) -> Value {
        let resource = GroupVersionResource::new("", "v1", resource);
        self.server
            .peek(&resource, &key.parse().expect("a key must be a namespace and a name"))
            .unwrap_or_default()
    }

    /// Runs one controller with its default settings.
    pub fn run(&self, constructor: Constructor) -> Running {
        self.run_with(constructor, OptionSet::default())
    }

    /// Runs one controller with these settings.
    pub fn run_with(&self, constructor: Constructor, options: OptionSet) -> Running {
        self.run_in(context(&self.server, options), constructor)
    }

    /// Runs one controller in a context that [`context`] has made.
    pub fn run_in(
        &self,
        (context, writers): (ControllerContext, events::Writers),
        constructor: Constructor,
    ) -> Running {
        let (informers, metrics) = (context.informers.clone(), context.metrics.clone());
        let registry = Registry::new(vec![Descriptor::new("tested", &[], constructor)]);
        let all = Selection::parse(&["*"], &registry).expect("the pattern for all must be valid");
        let controllers = registry.build(&all, &context, &Metrics::new());
        let controllers = controllers.expect("the controller must be constructed");
        informers.start();

        let stop = CancellationToken::new();
        let timing = Timing { start_interval: Duration::ZERO, shutdown_timeout: Duration::from_secs(30) };
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let stop = stop.clone();
            async move { writers.run(stop).await }
        });
        tasks.spawn({
            let stop = stop.clone();
            async move { controllers.run(&stop, timing).await.expect("the controller must stop in time") }
        });
        Running { stop, informers, metrics, tasks }
    }
}

/// A running controller.
pub struct Running {
    stop: CancellationToken,
    informers: SharedInformerFactory,
    /// The registry of the controller's metrics.
    pub metrics: prometheus::Registry,
    tasks: JoinSet<()>,
}

impl Running {
    /// Stops the controller and waits until it has ended.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a task must not panic");
        }
        self.informers.shutdown().await;
    }
}

/// Waits until `look` returns a value, and returns that value. Panics after an hour of paused time.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..72_000 {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("timed out: {what}");
}

/// Sleeps for two seconds of paused time, so that everything that is due within them happens.
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}
