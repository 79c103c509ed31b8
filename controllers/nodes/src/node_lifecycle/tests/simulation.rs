//! Three zones whose nodes fall silent and come back, while clocks step, watches stall, and leaders come and go.
//!
//! The test knows when each kubelet last renewed its lease, and checks each second that nothing happens that upstream's rules
//! forbid; at the end, that everything happens that they demand.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use steersman_apiserver::{Calls, Failure};
use tokio::time::Instant;

use super::world::{RENEWAL, TOLERATED, World};
use crate::node_lifecycle::NodeLifecycleOptions;

const GRACE: u64 = 50;
const ZONES: [&str; 3] = ["one", "two", "three"];
const NODES_OF_A_ZONE: usize = 4;

/// What the test has seen of a node.
#[derive(Default)]
struct Seen {
    /// Since when the node has a taint with the effect `NoExecute`.
    tainted: Option<Instant>,
    had_pod: bool,
    was_unknown: bool,
}

#[derive(Default)]
struct Referee {
    nodes: BTreeMap<String, Seen>,
    /// When each zone's nodes got taints.
    taints: BTreeMap<&'static str, Vec<Instant>>,
    /// When each leader began.
    failovers: Vec<Instant>,
    /// When the wall clock last stepped.
    stepped: Option<Instant>,
    /// Since when no node has been ready.
    all_silent: Option<Instant>,
    evictions: usize,
}

impl Referee {
    /// Fails if something happened in the last second that the rules forbid.
    fn judge(&mut self, world: &World, seed: u64) {
        let now = Instant::now();
        let at = format!("seed {seed}, after {} s", world.elapsed());
        let none_ready = world.kubelets.keys().all(|name| world.ready(name) != "True");
        self.all_silent = none_ready.then(|| self.all_silent.unwrap_or(now));
        for (name, kubelet) in &world.kubelets {
            let seen = self.nodes.entry(name.clone()).or_default();
            let silent_for = kubelet.renewed.elapsed();
            let is_unknown = world.ready(name) == "Unknown";
            if is_unknown && !seen.was_unknown {
                assert!(
                    silent_for >= Duration::from_secs(GRACE),
                    "{name} was marked after {silent_for:?}; {at}"
                );
            }
            let is_tainted = !world.taints(name, "NoExecute").is_empty();
            if is_tainted && seen.tainted.is_none() {
                assert!(seen.was_unknown || is_unknown, "{name} was tainted while ready; {at}");
                let settled = |since: &Instant| since.elapsed() > Duration::from_secs(7);
                let dark = self.all_silent.is_some_and(|since| settled(&since))
                    && self.failovers.iter().all(settled);
                assert!(!dark, "{name} was tainted while no node was ready; {at}");
                self.taints.entry(kubelet.zone).or_default().push(now);
            }
            let has_pod = !world.pod(name).is_null();
            if seen.had_pod && !has_pod {
                self.evictions += 1;
                let since =
                    seen.tainted.unwrap_or_else(|| panic!("{name} lost its pod without a taint; {at}"));
                let tolerated = since.elapsed() + Duration::from_secs(2);
                // A process that finds a taint when it starts has only the wall clock by which to tell the taint's age.
                let is_misled = self.stepped.is_some_and(|step| step >= since)
                    && self.failovers.last().is_some_and(|began| Some(*began) >= self.stepped);
                assert!(
                    is_misled || tolerated >= Duration::from_secs(TOLERATED),
                    "{name} lost its pod after {tolerated:?}; {at}"
                );
            }
            seen.tainted = is_tainted.then(|| seen.tainted.unwrap_or(now));
            (seen.had_pod, seen.was_unknown) = (has_pod, is_unknown);
        }
        // One node in ten seconds and zone; each leader may begin with one.
        for (zone, taints) in &self.taints {
            let recent = |at: &&Instant| at.elapsed() <= Duration::from_secs(8);
            let tainted = taints.iter().filter(recent).count();
            let leaders = self.failovers.iter().filter(recent).count();
            assert!(tainted <= 1 + leaders, "{tainted} nodes of zone {zone} were tainted at once; {at}");
        }
    }
}

async fn simulate(seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::start().await;
    for zone in ZONES {
        for number in 0..NODES_OF_A_ZONE {
            world.join(&format!("{zone}-{number}"), zone).await;
        }
    }
    let options = NodeLifecycleOptions::default;
    let mut referee = Referee { failovers: vec![Instant::now()], ..Referee::default() };
    let mut leader = Some(world.lead(options()));
    let faults = world.cluster.server.faults();
    for _ in 0..900 {
        world.second().await;
        referee.judge(&world, seed);
        let names: Vec<_> = world.kubelets.keys().cloned().collect();
        match random.random_range(0..200) {
            // Single nodes, a whole zone, or all nodes fall silent or come back.
            0..=5 => {
                let name = &names[random.random_range(0..names.len())];
                let kubelet = world.kubelets.get_mut(name).unwrap();
                kubelet.is_alive = !kubelet.is_alive;
            }
            6 => {
                let (zone, is_alive) = (ZONES[random.random_range(0..3)], random.random_bool(0.6));
                let nodes = world.kubelets.values_mut().filter(|kubelet| kubelet.zone == zone);
                nodes.for_each(|kubelet| kubelet.is_alive = is_alive);
            }
            7 => {
                let is_alive = random.random_bool(0.6);
                world.kubelets.values_mut().for_each(|kubelet| kubelet.is_alive = is_alive);
            }
            // The control plane's clock steps.
            8 => {
                world.ahead.store(random.random_range(-7200..7200), Ordering::Relaxed);
                referee.stepped = Some(Instant::now());
            }
            // The leader ends; another one begins, at once or later.
            9 | 10 => {
                if let Some(leader) = leader.take() {
                    leader.stop().await;
                }
            }
            11..=20 if leader.is_none() => {
                referee.failovers.push(Instant::now());
                leader = Some(world.lead(options()));
            }
            // The leader's watches stall, or it can't write.
            21 => {
                faults.delay_watches(Calls::to("leases"), Duration::from_secs(random.random_range(20..300)))
            }
            22 => faults.fail(200, Calls::all().user_agent("node-controller"), Failure::Reset),
            23..=30 => faults.clear(),
            _ => {}
        }
        // Owners replace the pods of nodes that are alive.
        for name in &names {
            let is_free = world.kubelets[name].is_alive && world.taints(name, "NoExecute").is_empty();
            if is_free && world.pod(name).is_null() {
                world.schedule(name).await;
            }
        }
    }
    faults.clear();
    // In the end one node of each zone is silent, and the others are well.
    for (name, kubelet) in &mut world.kubelets {
        kubelet.is_alive = !name.ends_with("-0");
    }
    if leader.is_none() {
        referee.failovers.push(Instant::now());
        leader = Some(world.lead(options()));
    }
    for _ in 0..(2 * GRACE + TOLERATED + RENEWAL + 120) {
        world.second().await;
        referee.judge(&world, seed);
    }
    for (name, kubelet) in &world.kubelets {
        let (taints, ready) = (world.taints(name, "NoExecute"), world.ready(name));
        if kubelet.is_alive {
            assert_eq!((ready.as_str(), taints), ("True", vec![]), "{name}, seed {seed}");
        } else {
            assert_eq!(
                (ready.as_str(), taints),
                ("Unknown", vec!["unreachable".to_owned()]),
                "{name}, seed {seed}"
            );
            assert!(world.pod(name).is_null(), "{name} has its pod still; seed {seed}");
        }
    }
    leader.unwrap().stop().await;
    referee.evictions
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_against_the_rules_and_everything_that_they_demand() {
    let mut evictions = 0;
    for seed in 0..3 {
        evictions += simulate(seed).await;
    }
    assert!(evictions >= 9, "only {evictions} pods were evicted");
}
