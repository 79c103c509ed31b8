//! What the loops of the controller share: the taints of nodes, and the timers of pods.

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::context::Clock;
use steersman_controller::controller::SyncError;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Index, Lister};
use steersman_kinds::node::Taints;
use steersman_kinds::pod::{Binding, Placement};
use steersman_kinds::shared::Shared;
use steersman_kinds::tolerations::Tolerations;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::tainted::{Now, Seen, TaintedNodes};
use super::timers::{Cancelled, Timers};
use super::verdict::{Comparisons, Since, verdict};
use super::{EvictedPod, TaintedNode, event};

/// The pods that taints drive from their nodes.
///
/// Decisions read the cache of pods under the lock of the timers, so that of two decisions on one pod the later one has
/// the newer state.
pub(super) struct Evictions {
    pub pods: Lister<EvictedPod>,
    pub by_node: Index<EvictedPod>,
    pub nodes_to_sync: WorkQueue<ObjectKey>,
    pub pods_to_sync: WorkQueue<ObjectKey>,
    pub recorder: Recorder,
    pub clock: Clock,
    pub comparisons: Comparisons,
    pub state: Mutex<State>,
    /// Notified when a timer may be the first.
    pub earlier: Notify,
}

/// What the loops change.
#[derive(Default)]
pub(super) struct State {
    pub tainted: TaintedNodes,
    pub timers: Timers,
}

impl Evictions {
    pub(super) fn now(&self) -> Now {
        Now { instant: Instant::now(), stamp: self.clock.now() }
    }

    /// Follows a change of a node, also while another process leads.
    pub(super) fn node_changed(&self, change: &Change<TaintedNode>) {
        let node = &change.key().name;
        let mut state = self.state.lock();
        let Some(new) = change.new() else {
            // As in upstream, the timers of its pods go on.
            return state.tainted.remove(node);
        };
        let seen = match change {
            Change::Added { initial: true, .. } => Seen::Initially,
            _ => Seen::Changing,
        };
        let is_changed = state.tainted.update(node, &new.get::<Taints>().taints, seen, self.now());
        // Timers may run for pods of an earlier node of that name, which had other taints.
        let is_new = change.old().is_none_or(|old| old.meta().uid != new.meta().uid);
        let has_timers = is_new && !state.timers.is_empty();
        drop(state);
        if is_changed || has_timers {
            self.nodes_to_sync.add(change.key().clone());
        }
    }

    /// Follows a change of a pod, also while another process leads.
    pub(super) fn pod_changed(&self, change: &Change<EvictedPod>) {
        let pod = change.newest();
        let (key, node) = (change.key(), &pod.get::<Placement>().node);
        let is_new_here = change
            .old()
            .is_none_or(|old| old.meta().uid != pod.meta().uid || old.get::<Placement>().node != *node);
        let tolerations = |pod: &steersman_informer::View<EvictedPod>| pod.get::<Shared<Tolerations>>().id();
        let is_other = is_new_here || change.old().is_some_and(|old| tolerations(old) != tolerations(pod));
        let is_gone = change.new().is_none();
        if !is_gone && !is_other {
            return;
        }
        let mut state = self.state.lock();
        let is_tainted = !state.tainted.of(node).is_empty();
        if is_gone && !state.timers.forget(key) {
            return;
        }
        let is_initial = matches!(change, Change::Added { initial: true, .. });
        if is_tainted && is_new_here && !is_initial && !is_gone && !state.timers.knows(key) {
            state.timers.arrived(key, &pod.meta().uid, Instant::now());
        }
        if is_tainted || state.timers.knows(key) {
            drop(state);
            self.pods_to_sync.add(key.clone());
        }
    }

    /// A new term begins: cancels all timers, and decides anew on the pods of all tainted nodes. Must be called before the
    /// first pod of the term is deleted: the timers of an earlier term know nothing of what changed since.
    pub(super) fn term_begins(&self) {
        let mut state = self.state.lock();
        state.timers.reset();
        let nodes: Vec<_> = state.tainted.nodes().cloned().collect();
        drop(state);
        nodes.into_iter().for_each(|node| self.nodes_to_sync.add(ObjectKey::new("", node)));
    }

    /// Decides on the pods of a node. A pod that can't be read fails the sync, after all others.
    pub(super) fn decide_on_node(&self, node: &ArcStr) -> Result<(), SyncError> {
        let mut pods = Vec::new();
        let node = node.clone().into();
        self.pods.for_each_meta_by_index(&self.by_node, &node, |meta| pods.push(meta.key.clone()));
        let decided: Vec<_> = pods.iter().map(|pod| self.decide_on_pod(pod)).collect();
        decided.into_iter().collect()
    }

    /// Decides when a pod must leave its node.
    pub(super) fn decide_on_pod(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let mut state = self.state.lock();
        let pod = self.pods.get(key).map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
        let cancelled = match &pod {
            None => state.timers.remove(key),
            Some(pod) => {
                let (now, uid) = (self.now(), &pod.meta().uid);
                let scheduled = pod.get::<Binding>().scheduled;
                let bound_at = scheduled.last_transition_time.filter(|_| scheduled.is_true());
                let bound = state.timers.exempt_until(key, uid, now.instant).or_else(|| {
                    let at = bound_at.or(pod.meta().created)?;
                    Some(Since { seen: now.instant, age: now.stamp.since(at) })
                });
                let tolerations = &pod.get::<Shared<Tolerations>>().list;
                let taints = state.tainted.of(&pod.get::<Placement>().node);
                let verdict = verdict(taints, tolerations, bound, self.comparisons, now.instant);
                state.timers.apply(key, uid, verdict, now.instant)
            }
        };
        drop(state);
        self.earlier.notify_one();
        if cancelled == Cancelled::Yes {
            event(&self.recorder, key, EventType::Normal, format!("Cancelling deletion of Pod {key}"));
        }
        Ok(())
    }
}
