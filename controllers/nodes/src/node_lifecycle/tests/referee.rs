//! Upstream's rules, checked each second against what the test knows: when each kubelet last showed a sign of life.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::simulation::{GRACE, NODES_OF_A_ZONE, ZONES};
use super::world::{TOLERATED, World};

/// How long the controllers may take to see a new state: a round, and what is under way.
const SETTLED: Duration = Duration::from_secs(7);

/// What the referee has seen.
#[derive(Default)]
pub(super) struct Referee {
    nodes: BTreeMap<String, Seen>,
    /// When each zone's nodes got taints.
    taints: BTreeMap<&'static str, Vec<Instant>>,
    /// When each term began.
    pub terms: Vec<Instant>,
    /// When the process began that leads.
    pub process: Option<Instant>,
    /// When the wall clock last stepped.
    pub stepped: Option<Instant>,
    /// When the watches of nodes were last late. While they are, the controllers know of nodes only what they wrote.
    pub late: Option<Instant>,
    /// Since when no node has been ready.
    all_dark: Option<Instant>,
    /// Since when each zone has had too few ready nodes for evictions.
    disrupted: BTreeMap<&'static str, Instant>,
    /// How often each thing happened, so that a test can tell that it tested it.
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub marks: usize,
    pub taints: usize,
    pub evictions: usize,
    /// Seconds in which the rules for all zones or one of them forbade taints, while a silent node had none.
    pub withheld: usize,
}

/// What was seen of a node.
#[derive(Default)]
struct Seen {
    /// Since when the node has a taint with the effect `NoExecute`.
    tainted: Option<Instant>,
    had_pod: bool,
    was_ready: bool,
    was_unknown: bool,
}

impl Referee {
    /// Fails if something happened in the last second that the rules forbid.
    pub(super) fn judge(&mut self, world: &World, seed: u64) {
        let now = Instant::now();
        let at = format!("seed {seed}, after {} s", world.elapsed());
        let is_late = self.late.is_some_and(|late| late.elapsed() < SETTLED);
        let has_settled = self.terms.iter().all(|began| began.elapsed() > SETTLED) && !is_late;
        self.look_at_zones(world, now);
        for (name, kubelet) in &world.kubelets {
            let disrupted = [self.all_dark, self.disrupted.get(kubelet.zone).copied()];
            let is_spared =
                has_settled && disrupted.into_iter().flatten().any(|since| since.elapsed() > SETTLED);
            let seen = self.nodes.entry(name.clone()).or_default();
            let silent_for = kubelet.renewed.elapsed();
            let is_ready = world.ready(name) == "True";
            let is_unknown = world.ready(name) == "Unknown";
            if is_unknown && !seen.was_unknown {
                self.counts.marks += 1;
                assert!(
                    silent_for >= Duration::from_secs(GRACE),
                    "{name} was marked after {silent_for:?}; {at}"
                );
            }
            let is_tainted = !world.taints(name, "NoExecute").is_empty();
            self.counts.withheld += usize::from(is_spared && is_unknown && !is_tainted);
            if is_tainted && seen.tainted.is_none() {
                self.counts.taints += 1;
                // A kubelet may have reported at the end of this second.
                assert!(!(seen.was_ready && is_ready), "{name} was tainted while ready; {at}");
                assert!(!is_spared, "{name} was tainted though its zone, or all, are disrupted; {at}");
                self.taints.entry(kubelet.zone).or_default().push(now);
            }
            let has_pod = !world.pod(name).is_null();
            if seen.had_pod && !has_pod {
                self.counts.evictions += 1;
                let since = seen.tainted.filter(|_| !is_late);
                assert!(is_late || since.is_some(), "{name} lost its pod without a taint; {at}");
                let tolerated = since.map(|since| since.elapsed() + Duration::from_secs(2));
                // A process that finds a taint when it starts has only the wall clock by which to tell the taint's age.
                let is_misled = self.stepped.is_some_and(|step| Some(step) >= since)
                    && self.process.is_some_and(|began| Some(began) >= self.stepped);
                assert!(
                    is_misled
                        || tolerated.is_none_or(|tolerated| tolerated >= Duration::from_secs(TOLERATED)),
                    "{name} lost its pod after {tolerated:?}; {at}"
                );
            }
            seen.tainted = is_tainted.then(|| seen.tainted.unwrap_or(now));
            (seen.had_pod, seen.was_ready, seen.was_unknown) = (has_pod, is_ready, is_unknown);
        }
        // One node in ten seconds and zone; each term may begin with one.
        for (zone, taints) in &self.taints {
            let recent = |at: &&Instant| at.elapsed() <= Duration::from_secs(8);
            let tainted = taints.iter().filter(recent).count();
            let terms = self.terms.iter().filter(recent).count();
            assert!(tainted <= 1 + terms, "{tainted} nodes of zone {zone} were tainted at once; {at}");
        }
    }

    /// Follows how long zones have been disrupted, in which no node may get a taint.
    fn look_at_zones(&mut self, world: &World, now: Instant) {
        let ready = |zone: &str| {
            let nodes = world.kubelets.iter().filter(|(_, kubelet)| kubelet.zone == zone);
            nodes.filter(|(name, _)| world.ready(name) == "True").count()
        };
        let ready: Vec<_> = ZONES.into_iter().map(|zone| (zone, ready(zone))).collect();
        let none_ready = ready.iter().all(|(_, ready)| *ready == 0);
        self.all_dark = none_ready.then(|| self.all_dark.unwrap_or(now));
        for (zone, ready) in ready {
            // More than two, and more than 55 percent. A zone without any ready node is served, if others have some.
            if ready > 0 && NODES_OF_A_ZONE - ready > 2 {
                self.disrupted.entry(zone).or_insert(now);
            } else {
                self.disrupted.remove(zone);
            }
        }
    }
}
