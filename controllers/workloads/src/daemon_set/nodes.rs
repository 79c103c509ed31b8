//! Which DaemonSets a change of a node concerns.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Informer, Lister, View};
use steersman_kinds::daemon_set::{DaemonSetStatus, TemplateRules};
use steersman_kinds::node::Taints;
use steersman_kinds::scheduling::NodeRules;

use super::kinds::{DaemonNode, SyncedDaemonSet};
use super::placement::{Comparisons, Placement, Verdict};

/// The nodes of the cluster.
pub(super) struct Nodes {
    cache: Lister<DaemonNode>,
    sets: Lister<SyncedDaemonSet>,
    comparisons: Comparisons,
    /// The DaemonSets that had pods for nodes which do not exist, when they were synced last, and those that are being
    /// observed.
    stranded: Mutex<HashSet<ObjectKey>>,
}

impl Nodes {
    /// Puts into `queue` each DaemonSet that a change of a node concerns.
    pub(super) fn map_to(
        nodes: &Informer<DaemonNode>,
        sets: Lister<SyncedDaemonSet>,
        comparisons: Comparisons,
        queue: &WorkQueue<ObjectKey>,
    ) -> Arc<Self> {
        let this = Arc::new(Self { cache: nodes.lister(), sets, comparisons, stranded: Mutex::default() });
        let (weak, queue) = (Arc::downgrade(&this), queue.clone());
        nodes.map(move |change| {
            if let Some(this) = weak.upgrade() {
                this.concerned(change, |set| queue.add(set.clone()));
            }
        });
        this
    }

    /// Calls `enqueue` for each DaemonSet whose verdict about the node changes. Nothing else of a node plays a part in a sync.
    /// If the node appears or vanishes, its pods may play a part though the DaemonSet does not want them.
    ///
    /// Upstream puts changed nodes into a queue of their own, `daemonset-node-updates`, and asks for each of them and each
    /// DaemonSet whether a pod is missing or out of place. That finds no change of counts in the status; and it knows nothing
    /// of nodes that vanish. Here each change is compared by itself, without such a queue: it would merge a change with its
    /// opposite, and a sync may have acted on the state between them.
    fn concerned(&self, change: &Change<DaemonNode>, enqueue: impl Fn(&ObjectKey)) {
        let (old, new) = match change {
            // Every DaemonSet is synced once all caches are filled.
            Change::Added { initial: true, .. } | Change::Resync { .. } => return,
            Change::Updated { old, new } if looks_the_same(old, new) => return,
            changed => (changed.old(), changed.new()),
        };
        // A DaemonSet that can't be read has no verdict, and its sync would fail.
        for set in self.sets.list_readable().0 {
            let placement = Placement::of(&set.get::<TemplateRules>().template.spec, self.comparisons);
            let verdict = |node: Option<&View<DaemonNode>>| {
                node.map(|node| placement.verdict(node.meta(), &node.get::<Taints>().taints))
            };
            let key = &set.meta().key;
            let concerns = match (verdict(old), verdict(new)) {
                (None, None) => false,
                // The status may count a pod that goes, but has not gone before its node.
                (Some(Verdict::Unfit), None) => set.get::<DaemonSetStatus>().number_misscheduled > 0,
                (None, Some(Verdict::Unfit)) => self.stranded.lock().contains(key),
                (before, after) => before != after,
            };
            if concerns {
                enqueue(key);
            }
        }
    }

    /// All nodes, and whether a DaemonSet with these rules wants a pod on each. A node that can't be read keeps the pods that
    /// it has.
    pub(super) fn verdicts(&self, rules: &NodeRules) -> Vec<(ArcStr, Verdict)> {
        let placement = Placement::of(rules, self.comparisons);
        let (readable, unreadable) = self.cache.list_readable();
        let verdict = |node: &View<DaemonNode>| {
            let verdict = placement.verdict(node.meta(), &node.get::<Taints>().taints);
            (node.meta().key.name.clone(), verdict)
        };
        let kept = unreadable.into_iter().map(|node| (node.key.name, Verdict::Keep));
        readable.iter().map(verdict).chain(kept).collect()
    }

    /// Remembers whether a DaemonSet has pods for nodes that do not exist.
    pub(super) fn note(&self, set: &ObjectKey, has_stranded: bool) {
        let mut stranded = self.stranded.lock();
        if has_stranded {
            stranded.insert(set.clone());
        } else {
            stranded.remove(set);
        }
    }
}

/// Upstream's `shouldIgnoreNodeUpdate`.
fn looks_the_same(old: &View<DaemonNode>, new: &View<DaemonNode>) -> bool {
    old.meta().labels == new.meta().labels && old.get::<Taints>().taints == new.get::<Taints>().taints
}
