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
use steersman_informer::{Index, Lister};
use steersman_kinds::lease::{Lease, Renewal};
use steersman_kinds::node::Health;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::WatchedPod;
use super::metrics::Metrics;
use super::silence::LeaseState;
use super::watching::{Watching, Written};
use super::writes::Writes;
use super::zones::{EXCLUDED, Verdict, zone_key};

/// How many nodes a round looks at together, as upstream's `nodeUpdateWorkerSize`.
pub(super) const AT_ONCE: usize = 8;

/// Watches over nodes.
pub(super) struct Monitor {
    pub watching: Arc<Watching>,
    pub writes: Arc<Writes>,
    /// Reads leases from the API server, with the identity by which caches read them.
    pub leases: Client<Lease>,
    pub pods: Lister<WatchedPod>,
    pub pods_by_node: Index<WatchedPod>,
    pub metrics: Metrics,
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
        let _term = self.watching.begin_term();
        let mut ticks = interval(self.period.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.round(&stop).await;
        }
    }

    async fn round(&self, stop: &CancellationToken) {
        let begun = Instant::now();
        let mut causes: HashMap<ArcStr, Cause> = {
            let mut state = self.watching.state.lock();
            let mut nodes = std::mem::take(&mut state.changed);
            nodes.extend(state.unmarked.iter().cloned());
            nodes.extend(state.silence.due(begun));
            let cause = |node: &ArcStr| {
                if state.silence.is_silent(node, begun) { Cause::Silent } else { Cause::Changed }
            };
            let causes = nodes.iter().map(cause).collect::<Vec<_>>();
            nodes.into_iter().zip(causes).collect()
        };
        self.hear(&mut causes).await;
        futures::stream::iter(causes)
            .take_until(stop.cancelled())
            .for_each_concurrent(AT_ONCE, |(node, cause)| async move {
                let begun = Instant::now();
                if let Err(error) = self.look_at(&node, cause).await {
                    if !error.is_end_of_leadership() {
                        tracing::warn!(%node, %error, "Failed to follow the health of a node, retrying");
                    }
                    self.watching.state.lock().changed.insert(node.clone());
                }
                self.metrics.looked_at_node(begun.elapsed());
            })
            .await;
        if stop.is_cancelled() {
            return;
        }
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
        let leases: HashMap<_, _> = match listed {
            Ok(leases) => leases
                .objects
                .iter()
                .map(|lease| {
                    let (meta, renewed) =
                        (lease.meta(), Renewal::of(lease).and_then(|renewal| renewal.time.0));
                    (meta.key.name.clone(), LeaseState { renewed, version: meta.resource_version })
                })
                .collect(),
            Err(error) => {
                tracing::warn!(%error, nodes = seem.len(), "Can't tell whether nodes are silent, or this process is blind");
                for node in seem {
                    causes.insert(node.clone(), Cause::Changed);
                    state.changed.insert(node);
                }
                return;
            }
        };
        for node in seem {
            let lease = leases.get(&node);
            if lease.is_some_and(|lease| state.silence.answered(&node, *lease, now)) {
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
            let mut state = self.watching.state.lock();
            if state.is_behind(&node) {
                // The next round may see the own write.
                state.changed.insert(name.clone());
                return Ok(());
            }
            state.written.remove(name);
        }
        let is_new = self.meet(name, &uid);
        let mut current = observed;
        if cause == Cause::Silent && observed != Some(ConditionStatus::Unknown) {
            if observed == Some(ConditionStatus::True) {
                // Before the write, whose outcome may stay unknown.
                self.watching.state.lock().unmarked.insert(name.clone());
            }
            match self.writes.mark_silent(&node).await? {
                Changed::Now(written) => {
                    let mut state = self.watching.state.lock();
                    let own = Written { version: written.meta().resource_version, at: Instant::now() };
                    state.written.insert(name.clone(), own);
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
        if observed == Some(ConditionStatus::True) && current != observed {
            self.event(name, &uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
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
        if let Some(uid) = self.watching.gone(name) {
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            self.event(name, &uid, "RemovingNode", message);
        }
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
            state.zones.forget_empty();
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
