//! The zones, how many of their nodes are ready, and how fast the others get taints.

use std::collections::{BTreeMap, HashMap};

use steersman_api::ArcStr;
use steersman_api::meta::Labels;
use tokio::time::Instant;

use super::queue::TaintQueue;

/// The state of a zone, upstream's `ZoneState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Its nodes were not counted yet.
    Initial,
    /// Most nodes are ready.
    Normal,
    /// Too many nodes are not ready.
    PartialDisruption,
    /// No node is ready.
    FullDisruption,
}

/// How fast nodes get taints, and when a zone counts as disrupted.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Nodes per second in a healthy zone: `--node-eviction-rate`.
    pub healthy: f32,
    /// Nodes per second in a partially disrupted zone: `--secondary-node-eviction-rate`.
    pub disrupted: f32,
    /// A partially disrupted zone with no more nodes than this gets no taints: `--large-cluster-size-threshold`.
    pub large: i32,
    /// The part of a zone's nodes, at least three, that must not be ready for a partial disruption:
    /// `--unhealthy-zone-threshold`.
    pub threshold: f32,
}

/// A zone.
#[derive(Debug)]
pub struct Zone {
    /// Number of ready nodes.
    pub ready: usize,
    /// Number of the others.
    pub unready: usize,
    /// Number of all nodes, those included that do not count.
    members: usize,
    /// The state after the last count.
    pub state: ZoneState,
    /// The nodes that wait for a taint.
    pub queue: TaintQueue,
}

/// What a count means for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, or only the rates of some zones changed.
    Same,
    /// All zones are fully disrupted now: it is rather the control plane that sees nothing. All taints must go.
    AllDisrupted,
    /// A node is ready again, after all zones were fully disrupted. The silence until now does not count.
    Recovered,
}

/// All zones, kept up to date node by node.
#[derive(Debug)]
pub struct Zones {
    rates: Rates,
    zones: BTreeMap<ArcStr, Zone>,
    /// Each node's zone, and whether the node is ready; `None` for a node that does not count.
    nodes: HashMap<ArcStr, (ArcStr, Option<bool>)>,
}

impl Zones {
    /// Without nodes.
    pub fn new(rates: Rates) -> Self {
        Self { rates, zones: BTreeMap::new(), nodes: HashMap::new() }
    }

    /// Puts a node into its zone. `is_ready` is `None` for a node that the label [`EXCLUDED`] exempts.
    pub fn place(&mut self, node: &ArcStr, zone: &ArcStr, is_ready: Option<bool>, now: Instant) {
        if self.nodes.get(node).is_some_and(|(old, _)| old != zone) {
            self.remove(node);
        }
        self.uncount(node);
        let rate = self.rates.healthy;
        let counts = self.zones.entry(zone.clone()).or_insert_with(|| Zone {
            ready: 0,
            unready: 0,
            members: 0,
            state: ZoneState::Initial,
            queue: TaintQueue::new(rate, now),
        });
        match is_ready {
            Some(true) => counts.ready += 1,
            Some(false) => counts.unready += 1,
            None => {}
        }
        if self.nodes.insert(node.clone(), (zone.clone(), is_ready)).is_none() {
            counts.members += 1;
        }
    }

    /// Forgets a node.
    pub fn remove(&mut self, node: &str) {
        self.uncount(node);
        if let Some((zone, _)) = self.nodes.remove(node)
            && let Some(zone) = self.zones.get_mut(&zone)
        {
            zone.queue.remove(node);
            zone.members -= 1;
        }
    }

    /// Forgets all nodes and zones: this process no longer leads.
    pub fn clear(&mut self) {
        *self = Self::new(self.rates);
    }

    /// Forgets zones without nodes. Labels make zones, so kubelets can make any number.
    pub fn forget_empty(&mut self) {
        self.zones.retain(|_, zone| zone.members > 0);
    }

    /// Whether no node was ready when the nodes were last counted, in the node's zone and in all others. No node of such a zone
    /// gets a taint.
    pub fn is_dark(&self, node: &str) -> bool {
        let is_disrupted = |zone: &Zone| zone.state == ZoneState::FullDisruption;
        let zone = self.nodes.get(node).and_then(|(zone, _)| self.zones.get(zone));
        let mut counted = self.zones.values().filter(|zone| zone.ready + zone.unready > 0);
        zone.is_some_and(is_disrupted) && counted.all(is_disrupted)
    }

    fn uncount(&mut self, node: &str) {
        let Some((zone, is_ready)) = self.nodes.get(node) else { return };
        let Some(zone) = self.zones.get_mut(zone) else { return };
        match is_ready {
            Some(true) => zone.ready -= 1,
            Some(false) => zone.unready -= 1,
            None => {}
        }
    }

    /// The zone of a node.
    pub fn of(&mut self, node: &str) -> Option<&mut Zone> {
        let (zone, _) = self.nodes.get(node)?;
        self.zones.get_mut(zone)
    }

    /// All zones by name.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&ArcStr, &mut Zone)> {
        self.zones.iter_mut()
    }

    /// Whether a node of some zone waits for a taint.
    pub fn any_waits(&self) -> bool {
        self.zones.values().any(|zone| !zone.queue.is_empty())
    }

    /// Counts the nodes anew after a round over those that changed, and sets the rates. Upstream's `handleDisruption`.
    pub fn count(&mut self, now: Instant) -> Verdict {
        let rates = self.rates;
        let counted = || self.zones.values().filter(|zone| zone.ready + zone.unready > 0);
        let are_disrupted = counted().all(|zone| rates.state_of(zone) == ZoneState::FullDisruption);
        let were_disrupted = counted().all(|zone| zone.state == ZoneState::FullDisruption);
        for zone in self.zones.values_mut() {
            let size = zone.ready + zone.unready;
            if size == 0 {
                zone.state = ZoneState::Initial;
                continue;
            }
            let state = rates.state_of(zone);
            match (are_disrupted, were_disrupted) {
                (true, true) => {}
                (true, false) => {
                    zone.queue.set_rate(0.0, now);
                    zone.state = ZoneState::FullDisruption;
                }
                (false, false) if state == zone.state => {}
                (false, _) => {
                    zone.queue.set_rate(rates.rate_of(state, size), now);
                    zone.state = state;
                }
            }
        }
        match (are_disrupted, were_disrupted) {
            (true, false) => Verdict::AllDisrupted,
            (false, true) => Verdict::Recovered,
            _ => Verdict::Same,
        }
    }
}

impl Rates {
    /// Upstream's `ComputeZoneState`.
    fn state_of(&self, zone: &Zone) -> ZoneState {
        let (ready, unready) = (zone.ready, zone.unready);
        #[allow(clippy::cast_precision_loss, reason = "upstream divides numbers of this type")]
        let part = unready as f32 / (unready + ready) as f32;
        if ready == 0 && unready > 0 {
            ZoneState::FullDisruption
        } else if unready > 2 && part >= self.threshold {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }

    fn rate_of(&self, state: ZoneState, size: usize) -> f32 {
        match state {
            ZoneState::PartialDisruption if i32::try_from(size).unwrap_or(i32::MAX) > self.large => {
                self.disrupted
            }
            ZoneState::PartialDisruption => 0.0,
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => self.healthy,
        }
    }
}

/// The label of nodes that do not count when a zone's state is computed.
pub const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// The key of a node's zone, upstream's `GetZoneKey`. Empty for a node without region and zone.
pub fn zone_key(labels: &Labels) -> ArcStr {
    let first = |keys: [&str; 2]| {
        let found = keys.into_iter().find_map(|key| labels.get(key));
        found.map(|value| value.to_string()).unwrap_or_default()
    };
    let zone = first(["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"]);
    let region = first(["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"]);
    if region.is_empty() && zone.is_empty() {
        return ArcStr::default();
    }
    format!("{region}:\0:{zone}").into()
}
