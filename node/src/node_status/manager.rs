//! Observes, has the status set, writes it: at the start, then over and over.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use steersman_client::fault::told;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::addresses::{self, HostNetwork};
use super::change::has_changed;
use super::events::{NodeEvent, node_reference};
use super::initial;
use super::inventory::{Inventory, RuntimeInventory};
use super::live_node::LiveNode;
use super::metrics::Metrics;
use super::patch::status_patch;
use super::pressure::{LastSeen, Pressure, Usage, pressures};
use super::register::reconcile;
use super::report::Reports;
use super::settings::Settings;
use super::{capacity, conditions, images, system_info, volumes_in_use};
use crate::blocking::blocking;
use crate::cri::v1;
use crate::events::Events;
use crate::machine::{Facts, Machine};
use crate::node_info::NodeInfo;
use crate::runtime::RuntimeService;
use crate::sync_loop::RuntimeState;

/// How often a status is tried to be written at once (upstream: `nodeStatusUpdateRetry`).
const TRIES: u32 = 5;
/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the first status waits for what the runtime says.
const FIRST_STATUS_WAIT: Duration = Duration::from_secs(2);
/// How long after the start a node that becomes ready is told of at once (upstream: `nodeReadyGracePeriod`).
const READY_GRACE_PERIOD: Duration = Duration::from_secs(120);
/// How often it is looked at in that time.
const READY_POLL: Duration = Duration::from_millis(100);
/// How long the resolution of the node's name may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The wait before a registration, and the longest one.
const REGISTRATION_WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(7)];

/// What the status of a node is made of.
pub struct Parts {
    /// What the node's owner says.
    pub settings: Settings,
    /// The machine, for what changes.
    pub machine: Machine,
    /// The machine, measured at the start.
    pub facts: Facts,
    /// `--root-dir`.
    pub root_dir: PathBuf,
    /// The runtime, to be told of the pods' range of addresses.
    pub runtime: Arc<dyn RuntimeService>,
    /// Whether the runtime is well; somebody runs [`watch_runtime`](super::watch_runtime).
    pub runtime_state: RuntimeState,
    /// What the runtime has, from the same source.
    pub inventory: Inventory,
    /// The Node as others read it; somebody runs it.
    pub live_node: LiveNode,
    /// Where events go.
    pub events: Events,
    /// Where the start is measured.
    pub metrics: Metrics,
}

/// Keeps the Node object. A clone is the same.
///
/// It is registered first, if that is the node's task: made, or taken over where it is there already; and again should
/// somebody delete it. Then its status is looked at every 10 s and written when something changed, or for 5 minutes
/// nothing was; as soon as the node first becomes ready, too. That the API server is away changes nothing about what the
/// node says of itself.
#[derive(Clone)]
pub struct NodeStatus {
    shared: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    pressures: Mutex<(LastSeen, BTreeSet<Pressure>)>,
    /// Whether it was said that the machine was restarted: once is enough.
    said_rebooted: AtomicBool,
}

/// Why a status did not get to the API server. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Node could not be read.
    #[error("error getting node: {}", told(.0))]
    Get(#[source] Box<kube::Error>),
    /// It could not be made.
    #[error("error creating node: {}", told(.0))]
    Create(#[source] Box<kube::Error>),
    /// It could not be changed.
    #[error("failed to patch status: {}", told(.0))]
    Patch(#[source] Box<kube::Error>),
    /// The patch is no JSON.
    #[error("failed to encode the patch: {0}")]
    Encode(#[source] serde_json::Error),
    /// The request is none.
    #[error("failed to make the request: {0}")]
    Request(#[source] http::Error),
    /// There is no Node.
    #[error("node not found")]
    NotFound,
    /// No answer came.
    #[error("no answer within {CALL_TIMEOUT:?}")]
    Timeout,
}

/// What one round knows of the rounds before.
#[derive(Default)]
struct Progress {
    registered: bool,
    reports: Reports,
    /// Whether the API server knows the node as ready.
    told_ready: bool,
    /// Whether something kept the node from being ready when last looked at.
    was_wrong: bool,
    unschedulable: bool,
    pod_cidr: String,
}

/// What is observed for one status.
struct Observed {
    now: Timestamp,
    network: HostNetwork,
    pressures: BTreeSet<Pressure>,
    inventory: Arc<RuntimeInventory>,
    wrong: Vec<String>,
}

impl NodeStatus {
    /// Nothing is observed or written yet.
    pub fn new(parts: Parts) -> Self {
        parts.metrics.named(&parts.settings.node_name);
        let shared = Shared { parts, pressures: Mutex::default(), said_rebooted: AtomicBool::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// What the machine ran short of when it was last looked at.
    pub fn pressures(&self) -> BTreeSet<Pressure> {
        self.shared.pressures.lock().1.clone()
    }

    /// Observes, and has the Node that would be registered known to others. To be awaited before pods are admitted.
    pub async fn observe_initial(&self) {
        let (node, _) = self.initial_node().await;
        self.parts().live_node.set_initial(node);
    }

    /// Reads the Node, and has it known to others.
    ///
    /// # Errors
    /// There is none, or it can't be read; what is known of it stays.
    pub async fn read(&self, client: &kube::Client) -> Result<(), Error> {
        let node = self.get(&Api::all(client.clone())).await?;
        self.parts().live_node.saw(node);
        Ok(())
    }

    /// Keeps the Node object until `stop`. To be called once. `client` must neither limit nor retry.
    pub async fn run(&self, client: kube::Client, stop: CancellationToken) {
        Box::pin(stop.run_until_cancelled(self.keep(&client))).await;
    }

    /// For a node without API server: keeps the Node that others read until `stop`.
    pub async fn run_alone(&self, stop: CancellationToken) {
        self.say([NodeEvent::starting()]);
        let mut pod_cidr = String::new();
        loop {
            let round = async {
                self.observe_initial().await;
                let range = self.parts().settings.pod_cidr.as_deref().unwrap_or_default();
                self.update_pod_cidr(range, &mut pod_cidr).await;
                tokio::time::sleep(self.pause()).await;
            };
            if stop.run_until_cancelled(round).await.is_none() {
                return;
            }
        }
    }

    async fn keep(&self, client: &kube::Client) {
        self.say([NodeEvent::starting()]);
        let start = Instant::now();
        // Else the first status would say that the node is not ready, of one that was only restarted.
        let _ = tokio::time::timeout(FIRST_STATUS_WAIT, self.parts().inventory.told()).await;
        let mut progress = Progress::default();
        loop {
            self.sync(client, &mut progress).await;
            tokio::select! {
                () = tokio::time::sleep(self.pause()) => {}
                () = self.becomes_ready(&progress, start) => {}
            }
        }
    }

    /// Returns once a node that was not ready at its start is.
    async fn becomes_ready(&self, progress: &Progress, start: Instant) {
        if progress.told_ready || !progress.was_wrong {
            return std::future::pending().await;
        }
        let state = &self.parts().runtime_state;
        while !state.all_errors().is_empty() {
            if start.elapsed() >= READY_GRACE_PERIOD {
                return std::future::pending().await;
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }

    async fn sync(&self, client: &kube::Client, progress: &mut Progress) {
        for attempt in 0..TRIES {
            if self.parts().settings.register_node && !progress.registered {
                self.register(client).await;
                progress.registered = true;
            }
            match self.try_update(client, attempt, progress).await {
                Ok(()) => return,
                Err(error) => {
                    if matches!(error, Error::NotFound) {
                        self.parts().live_node.lost();
                        // Somebody deleted it.
                        progress.registered = false;
                    }
                    tracing::warn!(%error, "Error updating node status, will retry");
                }
            }
        }
        tracing::error!("Unable to update node status: update node status exceeds retry count");
    }

    /// Registers the node, however often it takes.
    async fn register(&self, client: &kube::Client) {
        let Parts { metrics, settings, .. } = self.parts();
        let node = &settings.node_name;
        metrics.attempted(Timestamp::now());
        let [mut wait, longest] = REGISTRATION_WAITS;
        loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(longest);
            let (initial, events) = self.initial_node().await;
            self.parts().live_node.set_initial(initial.clone());
            tracing::info!(node, "Attempting to register node");
            match self.try_register(client, initial).await {
                Ok(()) => {
                    tracing::info!(node, "Successfully registered node");
                    return self.say(events);
                }
                Err(error) => tracing::error!(node, %error, "Unable to register node with API server"),
            }
        }
    }

    async fn try_register(&self, client: &kube::Client, initial: Node) -> Result<(), Error> {
        let Parts { live_node, metrics, facts, .. } = self.parts();
        let api: Api<Node> = Api::all(client.clone());
        match in_time(api.create(&PostParams::default(), &initial)).await? {
            Ok(created) => {
                metrics.registered_anew(facts.boot_time, Timestamp::now());
                live_node.saw(created);
                return Ok(());
            }
            // Who may not make Nodes may still have one.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" || status.code == 403 => {}
            Err(error) => return Err(Error::Create(Box::new(error))),
        }
        let existing = self.get(&api).await?;
        tracing::info!(node = initial.metadata.name, "Node was previously registered");
        let mut reconciled = existing.clone();
        let known = match reconcile(&mut reconciled, &initial) {
            true => self.patch(client, &existing, &reconciled).await?,
            false => existing,
        };
        live_node.saw(known);
        Ok(())
    }

    /// Observe, decide, write.
    async fn try_update(
        &self,
        client: &kube::Client,
        attempt: u32,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let Parts { settings, facts, live_node, metrics, .. } = self.parts();
        // What the watch told may be late; should that matter, the next attempt asks.
        let cached = live_node.node().filter(|_| attempt == 0);
        let original = match cached {
            Some(node) => node,
            None => Arc::new(self.get(&Api::all(client.clone())).await?),
        };
        let ranges = original.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref());
        let range = ranges.map_or_else(String::new, |ranges| ranges.join(","));
        let range_changed = self.update_pod_cidr(&range, &mut progress.pod_cidr).await;
        let observed = self.observe().await;
        let mut node = Node::clone(&original);
        let label_changed = initial::set_required_labels(&mut node, facts.architecture);
        let mut events = self.set_status(&mut node, &observed);
        if volumes_in_use::are_told(&node) {
            self.set_volumes_in_use(&mut node).await;
        }
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        if progress.unschedulable != unschedulable {
            let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
            events.push(NodeEvent::status(&settings.node_name, reason));
        }
        progress.was_wrong = !observed.wrong.is_empty();
        progress.told_ready = conditions::is_ready(&original);

        let statuses = (original.status.clone().unwrap_or_default(), node.status.clone().unwrap_or_default());
        let changed = range_changed || label_changed || has_changed(&statuses.0, &statuses.1);
        if changed || progress.reports.due(Instant::now()) {
            let updated = self.patch(client, &original, &node).await?;
            let (now, frequency) = (Instant::now(), settings.node_status_report_frequency);
            match changed || progress.reports.is_first() {
                true => progress.reports.written_for_change(now, frequency, rand::random()),
                false => progress.reports.written_since_due(now, frequency),
            }
            progress.told_ready = conditions::is_ready(&updated);
            if progress.told_ready {
                metrics.ready(facts.boot_time, Timestamp::now());
            }
            live_node.saw(updated);
        }
        progress.unschedulable = unschedulable;
        self.say(events);
        Ok(())
    }

    /// The Node as it is registered, and what is to be said once it is.
    async fn initial_node(&self) -> (Node, Vec<NodeEvent>) {
        let Parts { settings, facts, .. } = self.parts();
        let mut node = initial::node(settings, facts.architecture);
        let events = self.set_status(&mut node, &self.observe().await);
        (node, events)
    }

    /// Sets all of the status; says what changed.
    fn set_status(&self, node: &mut Node, observed: &Observed) -> Vec<NodeEvent> {
        let Parts { settings, facts, .. } = self.parts();
        if let Err(error) = addresses::set(node, settings, &observed.network) {
            tracing::error!(error, "Failed to set some node status fields");
        }
        capacity::set(node, facts, settings);
        let rebooted = system_info::set(node, facts, &observed.inventory, settings);
        images::set(node, &observed.inventory.images, settings.node_status_max_images);
        let mut events: Vec<_> = rebooted.into_iter().collect();
        events.extend(conditions::set_pressures(node, &observed.pressures, observed.now));
        let storage = settings.local_storage_capacity_isolation.then_some("ephemeral-storage");
        let required: Vec<_> = ["cpu", "memory", "pods"].into_iter().chain(storage).collect();
        events.extend(conditions::set_ready(node, observed.wrong.clone(), &required, observed.now));
        events
    }

    /// Takes volumes that are not mounted any more off the Node; what can't be looked at counts as mounted.
    async fn set_volumes_in_use(&self, node: &mut Node) {
        let (machine, root_dir) = (self.parts().machine.clone(), self.parts().root_dir.clone());
        let mounted = blocking(move || {
            let mounts = machine.mount_points().map_err(io::Error::other)?;
            Ok::<_, io::Error>((root_dir.canonicalize()?, mounts))
        });
        match mounted.await {
            Ok((root, mounts)) => volumes_in_use::set(node, &root, &mounts),
            Err(error) => tracing::error!(%error, "The machine's mounts are not known"),
        }
    }

    async fn observe(&self) -> Observed {
        let Parts { settings, machine, root_dir, runtime_state, .. } = self.parts();
        let inventory = self.parts().inventory.get();
        let (machine, root_dir, image_fs) = (machine.clone(), root_dir.clone(), inventory.image_fs.clone());
        let (mut network, usage) =
            blocking(move || (network(&machine), Usage::measure(&machine, &root_dir, image_fs.as_deref())))
                .await;
        if addresses::needs_lookup(settings) {
            network.resolved = resolve(&settings.node_name).await;
        }
        let seen = pressures(&settings.eviction, &usage);
        let now = Instant::now();
        let pressures = {
            let mut known = self.shared.pressures.lock();
            known.1 = known.0.update(&seen, settings.eviction_pressure_transition_period, now);
            known.1.clone()
        };
        let wrong = runtime_state.all_errors();
        Observed { now: whole_second(Timestamp::now()), network, pressures, inventory, wrong }
    }

    /// Tells the runtime of another range of addresses for pods; says whether there is one.
    async fn update_pod_cidr(&self, range: &str, told_last: &mut String) -> bool {
        if range.is_empty() || range == told_last {
            return false;
        }
        let network_config = Some(v1::NetworkConfig { pod_cidr: range.to_owned() });
        let config = v1::RuntimeConfig { network_config };
        let told = tokio::time::timeout(CALL_TIMEOUT, self.parts().runtime.update_runtime_config(&config));
        match told.await {
            Ok(Ok(())) => {
                tracing::info!(old = told_last, new = range, "Updating Pod CIDR");
                range.clone_into(told_last);
            }
            Ok(Err(error)) => tracing::error!(%error, "Error updating pod CIDR"),
            Err(_) => tracing::error!("Error updating pod CIDR: the runtime does not answer"),
        }
        true
    }

    async fn get(&self, api: &Api<Node>) -> Result<Node, Error> {
        let found = in_time(api.get_opt(&self.parts().settings.node_name)).await?;
        found.map_err(|error| Error::Get(Box::new(error)))?.ok_or(Error::NotFound)
    }

    async fn patch(&self, client: &kube::Client, old: &Node, new: &Node) -> Result<Node, Error> {
        let patch =
            serde_json::to_vec(&status_patch(old, new).map_err(Error::Encode)?).map_err(Error::Encode)?;
        let request =
            http::Request::patch(format!("/api/v1/nodes/{}/status", self.parts().settings.node_name))
                .header(http::header::CONTENT_TYPE, "application/strategic-merge-patch+json")
                .header(http::header::ACCEPT, "application/json")
                .body(patch)
                .map_err(Error::Request)?;
        match in_time(client.request(request)).await? {
            Err(kube::Error::Api(status)) if status.code == 404 => Err(Error::NotFound),
            answer => answer.map_err(|error| Error::Patch(Box::new(error))),
        }
    }

    fn say(&self, events: impl IntoIterator<Item = NodeEvent>) {
        let Parts { settings, events: sink, .. } = self.parts();
        let involved = node_reference(&settings.node_name);
        for event in events {
            if event.reason == "Rebooted" && self.shared.said_rebooted.swap(true, Ordering::Relaxed) {
                continue;
            }
            event.say(&involved, sink);
        }
    }

    fn parts(&self) -> &Parts {
        &self.shared.parts
    }

    fn pause(&self) -> Duration {
        self.parts().settings.node_status_update_frequency.mul_f64(1.0 + 0.04 * rand::random::<f64>())
    }
}

async fn in_time<T>(call: impl Future<Output = T>) -> Result<T, Error> {
    tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(|_| Error::Timeout)
}

fn network(machine: &Machine) -> HostNetwork {
    let interfaces = machine.interfaces().unwrap_or_else(|error| {
        tracing::error!(%error, "The machine's interfaces are not known");
        Vec::new()
    });
    let routes = machine.default_routes().unwrap_or_else(|error| {
        tracing::error!(%error, "The machine's routes are not known");
        Some(Vec::new())
    });
    HostNetwork { interfaces, routes, resolved: Vec::new() }
}

/// What a name resolves to; nothing where it does not.
async fn resolve(name: &str) -> Vec<IpAddr> {
    match tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((name, 0))).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(error)) => {
            tracing::debug!(name, %error, "The node's name does not resolve");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(name, "The node's name was not resolved in time");
            Vec::new()
        }
    }
}

/// As the API keeps times.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
