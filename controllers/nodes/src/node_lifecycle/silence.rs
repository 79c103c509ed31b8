//! Which nodes have been silent for too long.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use steersman_api::{ArcStr, ResourceVersion, Time};
use steersman_kinds::node_conditions::ReadyCondition;
use tokio::time::Instant;

/// Tells nodes that have shown no sign of life for their grace period, by one heap of timers.
///
/// A sign of life is a new heartbeat in the node's status, or a lease with another `renewTime`. What counts is when this
/// process saw the sign, by its own monotonic clock: no stamp is compared with a wall clock. A node whose clock steps back
/// thus stays alive; upstream ignores a lease whose `renewTime` goes back. Which of two states of a lease is the newer one
/// follows from their resource versions.
#[derive(Debug)]
pub struct Silence {
    grace: Grace,
    nodes: HashMap<ArcStr, Node>,
    /// One valid entry for each node: the one at [`Node::armed`].
    heap: BinaryHeap<Reverse<(Instant, ArcStr)>>,
    /// No silence counts that is older than this.
    floor: Instant,
}

/// How long a node may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// A node whose kubelet has reported before: `--node-monitor-grace-period`.
    pub running: Duration,
    /// A node whose kubelet never reported: `--node-startup-grace-period`.
    pub starting: Duration,
}

/// A state of a node's lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseState {
    /// The lease's `renewTime` in microseconds.
    pub renewed: Option<i64>,
    /// The lease's resource version.
    pub version: ResourceVersion,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// When this process last saw a sign of life.
    last_sign: Instant,
    /// When the timer fires. A sign of life does not move the timer: it is set anew when it fires.
    armed: Instant,
    /// Whether the node has the condition `Ready`.
    has_reported: bool,
    heartbeat: Option<Time>,
    /// The lease's `renewTime` in microseconds.
    renewed: Option<i64>,
    /// The version of the lease that the API server last answered with. A late watch shows the versions up to this one
    /// afterwards: these are no signs of life.
    answered: ResourceVersion,
}

impl Silence {
    /// Knows no node.
    pub fn new(grace: Grace, now: Instant) -> Self {
        Self { grace, nodes: HashMap::new(), heap: BinaryHeap::new(), floor: now }
    }

    /// Takes in the condition `Ready` of a node. The first time, also the `renewTime` of its lease.
    pub fn status(
        &mut self,
        node: &ArcStr,
        ready: Option<ReadyCondition>,
        renewed: impl FnOnce() -> Option<i64>,
        now: Instant,
    ) {
        let (has_reported, heartbeat) = (ready.is_some(), ready.and_then(|ready| ready.last_heartbeat_time));
        if let Some(known) = self.nodes.get_mut(node) {
            if (known.has_reported, known.heartbeat) != (has_reported, heartbeat) {
                (known.has_reported, known.heartbeat, known.last_sign) = (has_reported, heartbeat, now);
            }
            return;
        }
        let grace = if has_reported { self.grace.running } else { self.grace.starting };
        let armed = now + grace;
        let answered = ResourceVersion::ANY;
        let new = Node { last_sign: now, armed, has_reported, heartbeat, renewed: renewed(), answered };
        self.nodes.insert(node.clone(), new);
        self.heap.push(Reverse((armed, node.clone())));
    }

    /// Takes in a node's lease as the cache shows it. Returns whether it is a sign of life.
    pub fn shown(&mut self, node: &str, lease: LeaseState, now: Instant) -> bool {
        let Some(known) = self.nodes.get_mut(node) else { return false };
        let is_late = lease.version != ResourceVersion::ANY && lease.version <= known.answered;
        !is_late && known.renewal(lease.renewed, now)
    }

    /// Takes in a node's lease as the API server answered just now. Returns whether it is a sign of life.
    ///
    /// An answer counts also if its version is lower than an earlier one: the API server's store was then restored.
    pub fn answered(&mut self, node: &str, lease: LeaseState, now: Instant) -> bool {
        let Some(known) = self.nodes.get_mut(node) else { return false };
        known.answered = lease.version;
        known.renewal(lease.renewed, now)
    }

    /// Forgets a node that is gone.
    pub fn remove(&mut self, node: &str) {
        self.nodes.remove(node);
        // Drops outdated entries once they are the most: nothing takes them from the heap while another process leads.
        if self.heap.len() > 64 + 2 * self.nodes.len() {
            let nodes = &self.nodes;
            self.heap.retain(|Reverse((at, name))| nodes.get(name).is_some_and(|node| node.armed == *at));
        }
    }

    /// Grants all nodes their whole grace period from now on: this process begins to lead, or could not see them.
    pub fn spare_all(&mut self, now: Instant) {
        self.floor = now;
    }

    /// The nodes that have become silent, or that are silent still one grace period after the last time that they were
    /// returned.
    pub fn due(&mut self, now: Instant) -> Vec<ArcStr> {
        let mut silent = Vec::new();
        while self.heap.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((at, name))) = self.heap.pop() else { break };
            let Some(node) = self.nodes.get(&name).filter(|node| node.armed == at) else { continue };
            let deadline = self.deadline(node);
            let armed = if deadline < now {
                silent.push(name.clone());
                now + self.grace.of(node).max(Duration::from_millis(1))
            } else {
                // As upstream, a node is silent only after its grace period, and not at its end.
                deadline.max(now) + Duration::from_nanos(1)
            };
            if let Some(node) = self.nodes.get_mut(&name) {
                node.armed = armed;
            }
            self.heap.push(Reverse((armed, name)));
        }
        silent
    }

    /// Whether a node has been silent for too long.
    pub fn is_silent(&self, name: &str, now: Instant) -> bool {
        self.nodes.get(name).is_some_and(|node| self.deadline(node) < now)
    }

    fn deadline(&self, node: &Node) -> Instant {
        node.last_sign.max(self.floor) + self.grace.of(node)
    }
}

impl Node {
    fn renewal(&mut self, renewed: Option<i64>, now: Instant) -> bool {
        let is_sign = renewed.is_some() && self.renewed != renewed;
        if is_sign {
            (self.renewed, self.last_sign) = (renewed, now);
        }
        is_sign
    }
}

impl Grace {
    fn of(self, node: &Node) -> Duration {
        if node.has_reported { self.running } else { self.starting }
    }
}
