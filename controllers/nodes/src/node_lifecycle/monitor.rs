//! The rounds of the controller over the nodes that changed or became silent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, LabelSelector, ObjectKey, Uid};
use steersman_client::events::EventType;
use steersman_controller::client::{Changed, Client};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Group, Object};
use steersman_informer::{Index, Lister, View};
use steersman_kinds::lease::{Lease, Renewal};
use steersman_kinds::node::{Health, Taints};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::taints::{NOT_READY, TaintChange, UNREACHABLE};
use super::watching::Watching;
use super::writes::Writes;
use super::zones::{EXCLUDED, Rates, Verdict, zone_key};
use super::{WatchedNode, WatchedPod};

/// How many nodes a round looks at together, as upstream's `nodeUpdateWorkerSize`.
const AT_ONCE: usize = 8;
/// How often nodes that wait for a taint are looked at. Upstream: `NodeEvictionPeriod`.
const TAINT_PERIOD: Duration = Duration::from_millis(100);
/// The wait for a node without the condition `Ready`, as upstream.
const UNREADY_WAIT: Duration = Duration::from_millis(50);

/// Watches over nodes.
pub(super) struct Monitor {
    pub watching: Arc<Watching>,
    pub writes: Arc<Writes>,
    /// Reads leases from the API server, with the identity by which caches read them.
    pub leases: Client<Lease>,
    pub pods: Lister<WatchedPod>,
    pub pods_by_node: Index<WatchedPod>,
    pub metrics: Metrics,
    pub rates: Rates,
    /// `--node-monitor-period`.
    pub period: Duration,
}

/// Why a round looks at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The node changed, or something is left to do.
    Changed,
    /// The node showed no sign of life for its grace period, neither to this process nor, if that matters, to the API server.
    Silent,
}

impl Monitor {
    /// Runs rounds until `stop` is cancelled.
    pub(super) async fn run(&self, stop: CancellationToken) {
        self.watching.term_begins(self.rates);
        let mut ticks = interval(self.period.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.round().await;
        }
        self.watching.term_ends();
    }

    /// Gives nodes their taints, at the rates of their zones, until `stop` is cancelled.
    pub(super) async fn taint(&self, stop: CancellationToken) {
        let mut ticks = interval(TAINT_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            while let Some((zone, node)) = self.next_to_taint() {
                self.taint_next(&zone, &node).await;
            }
        }
    }

    async fn round(&self) {
        let begun = Instant::now();
        let mut causes: HashMap<ArcStr, Cause> = {
            let mut state = self.watching.state.lock();
            let mut changed = std::mem::take(&mut state.changed);
            changed.extend(state.unmarked.iter().cloned());
            let silent = state.silence.due(begun);
            let changed = changed.into_iter().map(|node| (node, Cause::Changed));
            changed.chain(silent.into_iter().map(|node| (node, Cause::Silent))).collect()
        };
        self.hear(&mut causes).await;
        futures::stream::iter(causes)
            .for_each_concurrent(AT_ONCE, |(node, cause)| async move {
                let begun = Instant::now();
                if let Err(error) = self.look_at(&node, cause).await {
                    if !error.is_end_of_leadership() {
                        tracing::warn!(%node, %error, "Failed to follow the health of a node, retrying");
                    }
                    let mut state = self.watching.state.lock();
                    state.changed.insert(node.clone());
                    if cause == Cause::Silent {
                        state.silence.ask_again(&node, begun);
                    }
                }
                self.metrics.looked_at_node(begun.elapsed());
            })
            .await;
        self.count().await;
        self.metrics.looked_at_all(begun.elapsed());
    }

    /// Asks the API server for the leases of nodes that seem to have become silent. Those that it knows to be alive are not
    /// silent: then this process's own watch is late. If there is no answer, no node counts as silent.
    async fn hear(&self, causes: &mut HashMap<ArcStr, Cause>) {
        let is_new = |node: &ArcStr| {
            let node = self.watching.nodes.get(&ObjectKey::new("", node.clone())).ok().flatten();
            let ready = node.and_then(|node| node.get::<Health>().conditions.ready);
            ready.is_none_or(|ready| ready.status != ConditionStatus::Unknown)
        };
        let seem: Vec<_> = causes
            .iter()
            .filter(|(node, cause)| **cause == Cause::Silent && is_new(node))
            .map(|(node, _)| node.clone())
            .collect();
        if seem.is_empty() {
            return;
        }
        let listed = self.leases.list(super::LEASES, &LabelSelector::everything()).await;
        let now = Instant::now();
        let mut state = self.watching.state.lock();
        let renewed: HashMap<_, _> = match listed {
            Ok(leases) => leases
                .objects
                .iter()
                .map(|lease| {
                    let renewed = Renewal::of(lease).and_then(|renewal| renewal.time.0);
                    (lease.meta().key.name.clone(), renewed)
                })
                .collect(),
            Err(error) => {
                tracing::warn!(%error, nodes = seem.len(), "Can't tell whether nodes are silent, or this process is blind");
                for node in seem {
                    causes.insert(node.clone(), Cause::Changed);
                    state.silence.ask_again(&node, now);
                }
                return;
            }
        };
        for node in seem {
            let renewed = renewed.get(&node).copied().flatten();
            if state.silence.renewal(&node, renewed, now) {
                tracing::warn!(%node, "Node is alive, but its lease is late in the cache");
                causes.insert(node, Cause::Changed);
            }
        }
    }

    async fn look_at(&self, name: &ArcStr, cause: Cause) -> Result<(), SyncError> {
        let key = ObjectKey::new("", name.clone());
        let node = match self.watching.nodes.get(&key) {
            Ok(Some(node)) => node,
            Ok(None) => {
                self.gone(name);
                return Ok(());
            }
            // The node exists, so nothing is known of its health.
            Err(node) => return Err(SyncError::Unreadable(format!("Node {}", node.key))),
        };
        let uid = node.meta().uid.clone();
        let observed = node.get::<Health>().conditions.ready.map(|ready| ready.status);
        {
            let is_behind = self.is_written(&node);
            let mut state = self.watching.state.lock();
            if is_behind {
                // The next round may see the own write.
                state.changed.insert(name.clone());
                return Ok(());
            }
            state.written.remove(name);
        }
        let is_new = self.meet(name, &uid);
        let mut current = observed;
        if cause == Cause::Silent && observed != Some(ConditionStatus::Unknown) {
            match self.writes.mark_silent(&node).await? {
                Changed::Now(written) => {
                    let mut state = self.watching.state.lock();
                    state.written.insert(name.clone(), written.meta().resource_version);
                    current = Some(ConditionStatus::Unknown);
                }
                Changed::Gone => return Ok(()),
                Changed::Conflict(status) => {
                    let what = format!("marking Node {name} as silent");
                    return Err(SyncError::Refused { what, status });
                }
            }
        }
        let is_excluded = node.meta().labels.get(EXCLUDED).is_some();
        let is_ready = (!is_excluded).then_some(current == Some(ConditionStatus::True));
        let zone = zone_key(&node.meta().labels);
        self.watching.state.lock().zones.place(name, &zone, is_ready, Instant::now());
        let became_silent = observed == Some(ConditionStatus::True) && current != observed;
        if became_silent {
            self.event(name, &uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
            self.watching.state.lock().unmarked.insert(name.clone());
        }
        let tainted = self.follow(&node, current, is_new).await;
        let marked = self.mark_pods(name, current).await;
        tainted.and(marked)
    }

    /// Reports a node that this term sees for the first time. Returns whether it is one.
    fn meet(&self, name: &ArcStr, uid: &Uid) -> bool {
        let known = self.watching.state.lock().known.insert(name.clone(), uid.clone());
        // As upstream, another node of the same name is not reported.
        if known.is_some() {
            return false;
        }
        self.event(
            name,
            uid,
            "RegisteredNode",
            format!("Node {name} event: Registered Node {name} in Controller"),
        );
        true
    }

    fn gone(&self, name: &ArcStr) {
        let mut state = self.watching.state.lock();
        state.forget(name);
        let known = state.known.remove(name);
        drop(state);
        if let Some(uid) = known {
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            self.event(name, &uid, "RemovingNode", message);
        }
    }

    /// Sees to the taints with the effect `NoExecute`. Upstream's `processTaintBaseEviction`.
    async fn follow(
        &self,
        node: &View<WatchedNode>,
        ready: Option<ConditionStatus>,
        is_new: bool,
    ) -> Result<(), SyncError> {
        let (meta, taints) = (node.meta(), &node.get::<Taints>().taints);
        let (wanted, other) = match ready {
            Some(ConditionStatus::False) => (NOT_READY, UNREACHABLE),
            Some(ConditionStatus::Unknown) => (UNREACHABLE, NOT_READY),
            Some(ConditionStatus::True) => return self.release(node).await,
            None if is_new => return self.release(node).await,
            None => return Ok(()),
        };
        if other.is_among(taints) {
            // The node's pods leave already, so the rate does not matter.
            return self.writes.taint(&meta.key.name, &meta.uid, &TaintChange::swap(wanted, other)).await;
        }
        if !wanted.is_among(taints)
            && let Some(zone) = self.watching.state.lock().zones.of(&meta.key.name)
        {
            zone.queue.add(&meta.key.name, Instant::now());
        }
        Ok(())
    }

    /// Removes the taints with the effect `NoExecute` from a node.
    async fn release(&self, node: &View<WatchedNode>) -> Result<(), SyncError> {
        let (meta, taints) = (node.meta(), &node.get::<Taints>().taints);
        if let Some(zone) = self.watching.state.lock().zones.of(&meta.key.name) {
            zone.queue.remove(&meta.key.name);
        }
        if !NOT_READY.is_among(taints) && !UNREACHABLE.is_among(taints) {
            return Ok(());
        }
        let change = TaintChange::without(&[UNREACHABLE, NOT_READY]);
        self.writes.taint(&meta.key.name, &meta.uid, &change).await
    }

    /// Marks the pods of a node that has become silent as not ready.
    async fn mark_pods(&self, name: &ArcStr, ready: Option<ConditionStatus>) -> Result<(), SyncError> {
        if !self.watching.state.lock().unmarked.contains(name) {
            return Ok(());
        }
        if ready != Some(ConditionStatus::True) {
            let pods = self.pods.by_index(&self.pods_by_node, &name.clone().into());
            let pods = pods.map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
            let mut failure = None;
            for pod in pods {
                failure = failure.or(self.writes.mark_not_ready(&pod).await.err());
            }
            if let Some(error) = failure {
                return Err(error);
            }
        }
        self.watching.state.lock().unmarked.remove(name);
        Ok(())
    }

    /// Counts the nodes of all zones.
    async fn count(&self) {
        let verdict = {
            let mut state = self.watching.state.lock();
            let verdict = state.zones.count(Instant::now());
            for (name, zone) in state.zones.iter_mut() {
                self.metrics.zone(name, zone.ready, zone.unready);
            }
            verdict
        };
        match verdict {
            Verdict::Same => {}
            Verdict::AllDisrupted => {
                tracing::info!(
                    "Controller detected that all Nodes are not-Ready. Entering master disruption mode"
                );
                self.release_all().await;
            }
            Verdict::Recovered => {
                tracing::info!(
                    "Controller detected that some Nodes are Ready. Exiting master disruption mode"
                );
                self.watching.state.lock().silence.spare_all(Instant::now());
            }
        }
    }

    async fn release_all(&self) {
        let (nodes, _) = self.watching.nodes.list_readable();
        futures::stream::iter(nodes)
            .for_each_concurrent(AT_ONCE, |node| async move {
                if let Err(error) = self.release(&node).await
                    && !error.is_end_of_leadership()
                {
                    tracing::warn!(node = %node.meta().key.name, %error, "Failed to remove taints from Node");
                }
                // Nodes that are not ready wait for a taint again, until the zones have recovered.
                self.watching.state.lock().changed.insert(node.meta().key.name.clone());
            })
            .await;
    }

    /// The next node that gets a taint, with its zone.
    fn next_to_taint(&self) -> Option<(ArcStr, ArcStr)> {
        let mut state = self.watching.state.lock();
        if !state.zones.any_waits() {
            return None;
        }
        let now = Instant::now();
        state.zones.iter_mut().find_map(|(name, zone)| Some((name.clone(), zone.queue.next(now)?)))
    }

    /// Gives a node the taint that its condition asks for now.
    async fn taint_next(&self, zone: &ArcStr, name: &ArcStr) {
        let retry = |wait: Duration| {
            let mut state = self.watching.state.lock();
            if let Some(zone) = state.zones.of(name) {
                zone.queue.retry(name, Instant::now() + wait);
            }
        };
        let node = match self.watching.nodes.get(&ObjectKey::new("", name.clone())) {
            Ok(Some(node)) => node,
            Ok(None) => return,
            Err(_) => return retry(UNREADY_WAIT),
        };
        let change = match node.get::<Health>().conditions.ready.map(|ready| ready.status) {
            Some(ConditionStatus::False) => TaintChange::swap(NOT_READY, UNREACHABLE),
            Some(ConditionStatus::Unknown) => TaintChange::swap(UNREACHABLE, NOT_READY),
            // The cache does not show yet that this process marked the node as silent.
            Some(ConditionStatus::True) if self.is_written(&node) => {
                TaintChange::swap(UNREACHABLE, NOT_READY)
            }
            Some(ConditionStatus::True) => return,
            None => return retry(UNREADY_WAIT),
        };
        match self.writes.taint(name, &node.meta().uid, &change).await {
            Ok(()) => self.metrics.evicted(zone),
            Err(error) => {
                if !error.is_end_of_leadership() {
                    tracing::warn!(node = %name, %error, "Failed to taint a node, retrying");
                }
                retry(Duration::from_nanos(1));
            }
        }
    }

    /// Whether this process wrote a newer version of a node than this one.
    fn is_written(&self, node: &View<WatchedNode>) -> bool {
        let state = self.watching.state.lock();
        let written = state.written.get(&node.meta().key.name);
        written.is_some_and(|written| node.meta().resource_version < *written)
    }

    fn event(&self, name: &ArcStr, uid: &Uid, reason: &'static str, message: String) {
        let involved = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        };
        self.writes.recorder.event(&involved, EventType::Normal, reason, message);
    }
}
