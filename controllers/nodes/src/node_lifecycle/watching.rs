//! What the controller remembers of nodes between its rounds.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Uid};
use steersman_informer::{Change, Lister, View};
use steersman_kinds::lease::Renewal;
use steersman_kinds::node::{Health, Taints};
use tokio::time::Instant;

use super::silence::{Grace, LeaseState, Silence};
use super::taints::{NOT_READY, UNREACHABLE};
use super::zones::{EXCLUDED, Rates, Zones, zone_key};
use super::{NodeLease, WatchedNode};

/// The state of all nodes. Mappings of the caches keep it up to date, also while another process leads.
pub(super) struct Watching {
    pub nodes: Lister<WatchedNode>,
    pub leases: Lister<NodeLease>,
    pub state: Mutex<State>,
}

/// What rounds and mappings change.
pub(super) struct State {
    pub silence: Silence,
    pub zones: Zones,
    /// The nodes that the next round looks at, beside those that have become silent. Mappings add to it only while there are
    /// rounds.
    pub changed: HashSet<ArcStr>,
    /// Whether this process leads, so that there are rounds.
    pub is_leading: bool,
    /// The nodes that a round of this term has seen, with their uids.
    pub known: HashMap<ArcStr, Uid>,
    /// The nodes with pods that must be marked as not ready still.
    pub unmarked: HashSet<ArcStr>,
    /// The nodes that this process has marked as silent, until the cache shows it.
    pub written: HashMap<ArcStr, Written>,
}

/// A write that marked a node as silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The version that the write made.
    pub version: ResourceVersion,
    /// When the API server answered.
    pub at: Instant,
}

/// How long the controller waits until the cache shows its write. After that it trusts the cache again: an API server that
/// was restored from a backup has lower versions.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parts of a node on which a round decides.
#[derive(PartialEq)]
pub(super) struct Decisive {
    uid: Uid,
    ready: Option<ConditionStatus>,
    zone: ArcStr,
    is_excluded: bool,
    is_tainted: [bool; 2],
}

impl Decisive {
    pub(super) fn of(node: &View<WatchedNode>) -> Self {
        let (meta, taints) = (node.meta(), &node.get::<Taints>().taints);
        Self {
            uid: meta.uid.clone(),
            ready: node.get::<Health>().conditions.ready.map(|ready| ready.status),
            zone: zone_key(&meta.labels),
            is_excluded: meta.labels.get(EXCLUDED).is_some(),
            is_tainted: [NOT_READY, UNREACHABLE].map(|taint| taint.is_among(taints)),
        }
    }
}

impl State {
    pub(super) fn new(grace: Grace, rates: Rates) -> Self {
        Self {
            silence: Silence::new(grace, Instant::now()),
            zones: Zones::new(rates),
            changed: HashSet::new(),
            is_leading: false,
            known: HashMap::new(),
            unmarked: HashSet::new(),
            written: HashMap::new(),
        }
    }

    /// Whether the cache does not show yet that this process marked the node as silent.
    pub(super) fn is_behind(&self, node: &View<WatchedNode>) -> bool {
        let written = self.written.get(&node.meta().key.name);
        written.is_some_and(|own| node.meta().resource_version < own.version && own.at.elapsed() < PATIENCE)
    }

    fn forget(&mut self, node: &str) {
        self.silence.remove(node);
        self.zones.remove(node);
        self.unmarked.remove(node);
        self.written.remove(node);
    }
}

impl Watching {
    /// Follows a change of a node.
    pub(super) fn node_changed(&self, change: &Change<WatchedNode>) {
        let (key, now) = (change.key(), Instant::now());
        let mut state = self.state.lock();
        let Some(new) = change.new() else {
            state.silence.remove(&key.name);
            if state.is_leading {
                state.changed.insert(key.name.clone());
            }
            return;
        };
        if change.old().is_some_and(|old| old.meta().uid != new.meta().uid) {
            state.silence.remove(&key.name);
        }
        let ready = new.get::<Health>().conditions.ready;
        state.silence.status(&key.name, ready, || self.renewed(&key.name), now);
        if state.is_leading && change.old().is_none_or(|old| Decisive::of(old) != Decisive::of(new)) {
            state.changed.insert(key.name.clone());
        }
    }

    /// Follows a change of a node's lease.
    pub(super) fn lease_changed(&self, change: &Change<NodeLease>) {
        if change.key().namespace == super::LEASES
            && let Some(lease) = change.new()
        {
            let lease =
                LeaseState { renewed: lease.get::<Renewal>().time.0, version: lease.meta().resource_version };
            self.state.lock().silence.shown(&change.key().name, lease, Instant::now());
        }
    }

    fn renewed(&self, node: &str) -> Option<i64> {
        let lease = self.leases.get(&ObjectKey::new(super::LEASES, node)).ok().flatten();
        lease.and_then(|lease| lease.get::<Renewal>().time.0)
    }

    /// Whether a node is known not to be ready.
    pub(super) fn is_not_ready(&self, node: &str) -> bool {
        let Some(node) = self.nodes.get(&ObjectKey::new("", node)).ok().flatten() else { return false };
        let ready = node.get::<Health>().conditions.ready;
        ready.is_some_and(|ready| ready.status != ConditionStatus::True) || self.state.lock().is_behind(&node)
    }

    /// Forgets a node that is gone. Returns its uid if a round of this term has seen the node.
    pub(super) fn gone(&self, node: &ArcStr) -> Option<Uid> {
        let mut state = self.state.lock();
        // A new node of that name may have come meanwhile, and its timer must run. The mapping of a node that comes now waits
        // for the lock.
        if !matches!(self.nodes.get(&ObjectKey::new("", node.clone())), Ok(None)) {
            state.changed.insert(node.clone());
            return None;
        }
        state.forget(node);
        state.known.remove(node)
    }

    /// Begins a term, in which there are rounds: no silence until now counts, and all nodes are looked at. The term ends with
    /// the returned value.
    pub(super) fn begin_term(&self) -> Term<'_> {
        self.state.lock().is_leading = true;
        // From here on mappings add the nodes that come.
        let mut names = Vec::new();
        self.nodes.for_each_meta(|meta| names.push(meta.key.name.clone()));
        let mut state = self.state.lock();
        state.silence.spare_all(Instant::now());
        state.zones.clear();
        state.known.clear();
        state.written.clear();
        state.changed.extend(names);
        // The previous leader may have ended while it marked their pods.
        let is_silent = |name: &ArcStr| {
            let node = self.nodes.get(&ObjectKey::new("", name.clone())).ok().flatten();
            let ready = node.and_then(|node| node.get::<Health>().conditions.ready);
            ready.is_some_and(|ready| ready.status == ConditionStatus::Unknown)
        };
        state.unmarked = state.changed.iter().filter(|name| is_silent(name)).cloned().collect();
        Term(self)
    }
}

/// A term in which this process leads. When it ends, no node waits for a taint: the next term decides anew.
pub(super) struct Term<'a>(&'a Watching);

impl Drop for Term<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_leading = false;
        state.changed = HashSet::new();
        state.zones.clear();
    }
}
