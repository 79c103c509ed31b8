//! What the controller remembers of nodes between its rounds.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Uid};
use steersman_informer::{Change, Lister, View};
use steersman_kinds::lease::Renewal;
use steersman_kinds::node::{Health, Taints};
use tokio::time::Instant;

use super::silence::{Grace, Silence};
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
    /// The versions of nodes that this process wrote last, until the cache shows them.
    pub written: HashMap<ArcStr, ResourceVersion>,
}

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

    pub(super) fn forget(&mut self, node: &str) {
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
            let renewed = lease.get::<Renewal>().time.0;
            self.state.lock().silence.renewal(&change.key().name, renewed, Instant::now());
        }
    }

    fn renewed(&self, node: &str) -> Option<i64> {
        let lease = self.leases.get(&ObjectKey::new(super::LEASES, node)).ok().flatten();
        lease.and_then(|lease| lease.get::<Renewal>().time.0)
    }

    /// A new term begins: no silence until now counts, and all nodes are looked at.
    pub(super) fn term_begins(&self, rates: Rates) {
        self.state.lock().is_leading = true;
        // From here on mappings add the nodes that come.
        let mut names = Vec::new();
        self.nodes.for_each_meta(|meta| names.push(meta.key.name.clone()));
        let mut state = self.state.lock();
        state.silence.spare_all(Instant::now());
        state.zones = Zones::new(rates);
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
    }

    /// The term is over.
    pub(super) fn term_ends(&self) {
        let mut state = self.state.lock();
        state.is_leading = false;
        state.changed = HashSet::new();
    }
}
