//! Three zones whose nodes fall silent, report that they are not ready, and come back, while clocks step, watches stall, writes
//! fail, and two processes lead in turn, crash and start anew.
//!
//! The referee checks each second that nothing happens that upstream's rules forbid. At the end, everything must have happened
//! that they demand.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use steersman_apiserver::{Calls, Failure};
use tokio::time::Instant;

use super::process::Process;
use super::referee::{Counts, Referee};
use super::world::{RENEWAL, TOLERATED, World};
use crate::node_lifecycle::NodeLifecycleOptions;

/// `--node-monitor-grace-period`.
pub(super) const GRACE: u64 = 50;
pub(super) const ZONES: [&str; 3] = ["one", "two", "three"];
pub(super) const NODES_OF_A_ZONE: usize = 4;
/// How long a silent node waits at most until its pods are gone: it is marked, waits for all nodes of its zone, and its pods
/// tolerate the taint for a while. A change of leaders may have cost one grace period before.
const PATIENCE: u64 = 2 * GRACE + 10 * NODES_OF_A_ZONE as u64 + TOLERATED + 30;

/// What happens to a node in the last part of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Well,
    /// The node must be tainted with this, and lose its pod.
    Leaves(&'static str),
    /// The node is silent, but its zone is disrupted: of the three such nodes, at least one has no taint. The others may have
    /// got theirs while the zone was well, since nodes do not fall silent in the same second.
    Spared,
}

struct Simulation {
    seed: u64,
    random: StdRng,
    world: World,
    referee: Referee,
    processes: [Option<Process>; 2],
    leader: Option<usize>,
    /// Whether the watches of nodes are late.
    is_late: bool,
}

impl Simulation {
    async fn new(seed: u64) -> Self {
        let mut world = World::start().await;
        for zone in ZONES {
            for number in 0..NODES_OF_A_ZONE {
                world.join(&format!("{zone}-{number}"), zone).await;
            }
        }
        let processes = [0, 1].map(|_| Some(Process::start(&world, NodeLifecycleOptions::default())));
        let random = StdRng::seed_from_u64(seed);
        Self { seed, random, world, referee: Referee::default(), processes, leader: None, is_late: false }
    }

    async fn lead(&mut self, number: usize) {
        let process = self.processes[number].as_mut().unwrap();
        process.lead().await;
        self.referee.process = Some(process.begun);
        self.referee.terms.push(Instant::now());
        self.leader = Some(number);
    }

    /// The leader stops leading and stands by, or crashes, and another process takes its place.
    async fn end_term(&mut self) {
        let Some(number) = self.leader.take() else { return };
        if self.random.random_bool(0.5) {
            self.processes[number].as_mut().unwrap().step_down().await;
        } else {
            self.processes[number].take().unwrap().crash().await;
            self.processes[number] = Some(Process::start(&self.world, NodeLifecycleOptions::default()));
        }
    }

    /// Lets one of the kubelets, those of a zone, or all change what they do.
    fn disturb_kubelets(&mut self, change: impl Fn(&mut StdRng, &mut super::world::Kubelet)) {
        let chosen = match self.random.random_range(0..8) {
            0 => ZONES.to_vec(),
            1 | 2 => vec![ZONES[self.random.random_range(0..ZONES.len())]],
            _ => Vec::new(),
        };
        let single = self.random.random_range(0..self.world.kubelets.len());
        for (number, kubelet) in self.world.kubelets.values_mut().enumerate() {
            if chosen.contains(&kubelet.zone) || (chosen.is_empty() && number == single) {
                change(&mut self.random, kubelet);
            }
        }
    }

    async fn disturb(&mut self) {
        let faults = self.world.cluster.server.faults();
        match self.random.random_range(0..200) {
            0..=6 => {
                let is_alive = self.random.random_bool(0.6);
                self.disturb_kubelets(|_, kubelet| kubelet.is_alive = is_alive);
            }
            7 | 8 => self.disturb_kubelets(|random, kubelet| {
                kubelet.reports = if random.random_bool(0.4) { "False" } else { "True" };
            }),
            9 => {
                self.world.ahead.store(self.random.random_range(-7200..7200), Ordering::Relaxed);
                self.referee.stepped = Some(Instant::now());
            }
            10 | 11 => self.end_term().await,
            12..=21 if self.leader.is_none() => {
                let number = self.random.random_range(0..self.processes.len());
                self.lead(number).await;
            }
            22 | 23 => {
                let by = Duration::from_secs(self.random.random_range(20..300));
                faults.delay_watches(Calls::to("leases"), by);
            }
            24 => {
                let by = Duration::from_secs(self.random.random_range(5..100));
                faults.delay_watches(Calls::to("nodes"), by);
                self.is_late = true;
            }
            25 => faults.fail(200, Calls::all().user_agent("node-controller"), Failure::Reset),
            26 => faults.fail(20, Calls::all().user_agent("node-controller"), Failure::ResetAfterwards),
            27..=34 => self.clear_faults(),
            _ => {}
        }
    }

    fn clear_faults(&mut self) {
        self.world.cluster.server.faults().clear();
        self.is_late = false;
    }

    /// Lets a second pass, in which owners replace the pods of nodes that are well.
    async fn second(&mut self) {
        self.world.second().await;
        if self.is_late {
            self.referee.late = Some(Instant::now());
        }
        self.referee.judge(&self.world, self.seed);
        let names: Vec<_> = self.world.kubelets.keys().cloned().collect();
        for name in &names {
            let is_well = self.world.ready(name) == "True" && self.world.taints(name, "NoExecute").is_empty();
            if is_well && self.world.pod(name).is_null() {
                self.world.schedule(name).await;
            }
        }
    }

    async fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second().await;
        }
    }

    /// The last part: everything works, and each node meets its fate.
    async fn conclude(&mut self, fates: impl Fn(&str) -> Fate) {
        self.clear_faults();
        for kubelet in self.world.kubelets.values_mut() {
            (kubelet.is_alive, kubelet.reports) = (true, "True");
        }
        if self.leader.is_none() {
            self.lead(0).await;
        }
        self.seconds(2 * RENEWAL + 40).await;
        for name in self.world.kubelets.keys() {
            let state = (self.world.ready(name), self.world.taints(name, "NoExecute"));
            assert_eq!(state, ("True".to_owned(), Vec::new()), "{name}, seed {}", self.seed);
            assert!(!self.world.pod(name).is_null(), "{name} has no pod; seed {}", self.seed);
        }
        for (name, kubelet) in &mut self.world.kubelets {
            match fates(name) {
                Fate::Well => {}
                Fate::Leaves("not-ready") => kubelet.reports = "False",
                Fate::Leaves(_) | Fate::Spared => kubelet.is_alive = false,
            }
        }
        self.seconds(PATIENCE).await;
        let mut tainted_before = 0;
        for name in self.world.kubelets.keys() {
            let (taints, pod) = (self.world.taints(name, "NoExecute"), self.world.pod(name));
            let seed = self.seed;
            match fates(name) {
                Fate::Well => assert!(taints.is_empty() && !pod.is_null(), "{name}: {taints:?}, seed {seed}"),
                Fate::Leaves(taint) => {
                    assert_eq!(taints, [taint], "{name}, seed {seed}");
                    assert!(pod.is_null(), "{name} has its pod still; seed {seed}");
                }
                Fate::Spared => {
                    assert_eq!(self.world.ready(name), "Unknown", "{name}, seed {seed}");
                    tainted_before += taints.len();
                }
            }
        }
        assert!(
            tainted_before <= 2,
            "{tainted_before} nodes of a disrupted zone were tainted; seed {}",
            self.seed
        );
    }
}

/// A silent node in zone one, all nodes of zone two, and in zone three one that is not ready, or so many that the zone is spared.
fn fate(seed: u64, name: &str) -> Fate {
    match (name, seed % 2) {
        ("one-0", _) | ("two-0" | "two-1" | "two-2" | "two-3", _) => Fate::Leaves("unreachable"),
        ("three-0", 0) => Fate::Leaves("not-ready"),
        ("three-0" | "three-1" | "three-2", 1) => Fate::Spared,
        _ => Fate::Well,
    }
}

async fn simulate(seed: u64) -> Counts {
    let mut simulation = Simulation::new(seed).await;
    simulation.lead(0).await;
    for _ in 0..900 {
        simulation.second().await;
        simulation.disturb().await;
    }
    simulation.conclude(|name| fate(seed, name)).await;
    for process in simulation.processes.into_iter().flatten() {
        process.crash().await;
    }
    simulation.referee.counts
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_against_the_rules_and_everything_that_they_demand() {
    let mut total = Counts::default();
    for seed in 0..4 {
        let Counts { marks, taints, evictions, withheld } = simulate(seed).await;
        total.marks += marks;
        total.taints += taints;
        total.evictions += evictions;
        total.withheld += withheld;
    }
    let Counts { marks, taints, evictions, withheld } = total;
    assert!(marks >= 40 && taints >= 30 && evictions >= 25 && withheld >= 20, "{total:?}");
}
