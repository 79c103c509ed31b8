//! Whatever happens to nodes and pods, and however far the caches lag behind: an update takes no more nodes down than it may,
//! and no node gets two pods.
//!
//! A small API server, a scheduler and kubelets are played here. Syncs go by the real plan; the caches show any state since the
//! controller's last own write, as the runner sees to.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use steersman_api::ResourceVersion;
use steersman_controller::controller::{StepResult, SyncError};

use super::super::plan::Outcome;
use super::*;

const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

#[derive(Clone, Debug)]
enum Event {
    /// The controller syncs. Its caches lag by this many states, and steps fail whose bit is set.
    Sync { lag: (usize, usize), fails: u32 },
    /// Something happens to a pod.
    Pod(usize, Change),
    /// A node changes, appears or vanishes.
    Node(usize, Option<Verdict>),
    /// The template changes.
    Rollout,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Bind,
    Ready,
    Unready,
    Fail,
    /// Somebody deletes the pod.
    Delete,
    /// The pod is gone, if it is being deleted.
    End,
}

#[derive(Clone, Default)]
struct Truth {
    pods: Vec<Pod>,
    nodes: BTreeMap<&'static str, Verdict>,
}

struct World {
    strategy: UpdateStrategy,
    /// All states so far. The last one is the truth.
    states: Vec<Truth>,
    /// The state after the controller's last write: its cache of pods shows no older one.
    written: usize,
    /// How many templates there have been.
    templates: usize,
    made: usize,
    /// The nodes whose available pod the update has deleted, and that have had no available one since.
    down: BTreeSet<ArcStr>,
}

impl World {
    fn new(strategy: UpdateStrategy) -> Self {
        let nodes = NODES.iter().map(|node| (*node, Verdict::Run)).collect();
        Self {
            strategy,
            states: vec![Truth { pods: Vec::new(), nodes }],
            written: 0,
            templates: 1,
            made: 0,
            down: BTreeSet::new(),
        }
    }

    fn now(&self) -> &Truth {
        self.states.last().unwrap()
    }

    fn change(&mut self, change: impl FnOnce(&mut Truth)) {
        let mut truth = self.now().clone();
        change(&mut truth);
        for pod in truth.pods.iter().filter(|pod| pod.ready.is_some() && !pod.deleting) {
            self.down.remove(&pod.node);
        }
        self.states.push(truth);
    }

    fn hash(template: usize) -> String {
        format!("template-{template}")
    }

    fn observe(&self, lag: (usize, usize)) -> Observed {
        let newest = self.states.len() - 1;
        let pods = newest - lag.0.min(newest - self.written);
        let nodes = &self.states[newest - lag.1.min(newest)].nodes;
        let current = Self::hash(self.templates);
        set(&[], self.states[pods].pods.clone()).strategy(self.strategy.clone()).with(|observed| {
            observed.nodes = nodes.iter().map(|(node, verdict)| ((*node).into(), *verdict)).collect();
            observed.revisions = vec![revision(&current, 1, true)];
        })
    }

    /// Syncs, and tells whether anything was created or deleted.
    fn sync(&mut self, lag: (usize, usize), fails: u32) -> bool {
        let mut observed = self.observe(lag);
        let mut worked = false;
        for round in 0..20 {
            let Plan::Act(batch) = plan(&observed, now()) else { return worked };
            self.check(&observed, &batch.steps);
            for (at, step) in batch.steps.into_iter().enumerate() {
                let result = if fails & (1 << ((at + 7 * round) % 32)) == 0 {
                    StepResult::Done(self.act(&step))
                } else {
                    StepResult::Failed(SyncError::Failed("refused".to_owned()))
                };
                worked |= !matches!(step, Step::WriteStatus(_));
                observed.absorb(step, result);
            }
            if matches!(plan(&observed, now()), Plan::Act(batch) if matches!(batch.steps[..], [Step::WriteStatus(_)]))
            {
                return worked;
            }
        }
        panic!("the sync does not end: {observed:?}")
    }

    /// What must hold for a plan.
    fn check(&self, observed: &Observed, steps: &[Step]) {
        let desired = observed.nodes.iter().filter(|(_, verdict)| *verdict == Verdict::Run).count();
        let limits = self.strategy.limits(desired);
        for step in steps {
            let Step::Create { node, .. } = step else { continue };
            let there = self.now().pods.iter().filter(|pod| pod.node == *node && !pod.is_over());
            if self.strategy.allows_surge() {
                let running = there.filter(|pod| !pod.deleting && pod.end.is_none()).count();
                assert!(running < 2, "{node} has {running} pods and gets another");
            } else {
                assert_eq!(there.count(), 0, "{node} has a pod and gets another");
            }
        }
        let updated = |step: &&Step| matches!(step, Step::Delete { cause: Cause::Update, .. });
        let mut down = self.down.clone();
        for step in steps.iter().filter(updated) {
            let Step::Delete { pod, node, .. } = step else { continue };
            let of = |pods: &[Pod]| {
                pods.iter().any(|one| one.uid == pod.uid && one.ready.is_some() && !one.deleting)
            };
            if limits.is_some_and(|limits| limits.max_surge > 0) {
                let beside =
                    |other: &&Pod| other.node == *node && other.uid != pod.uid && other.ready.is_some();
                let is_wanted =
                    observed.nodes.iter().any(|(name, verdict)| name == node && *verdict == Verdict::Run);
                let replaced = observed.pods.iter().find(beside).is_some();
                assert!(
                    replaced || !is_wanted || !of(&observed.pods),
                    "{pod:?} goes before another is available"
                );
            } else if of(&self.now().pods) && of(&observed.pods) {
                down.insert(node.clone());
            }
        }
        let wanted = |node: &&ArcStr| {
            observed.nodes.iter().any(|(name, verdict)| name == *node && *verdict == Verdict::Run)
        };
        let (before, after) = (self.down.iter().filter(wanted).count(), down.iter().filter(wanted).count());
        let allowed = limits.map_or(0, |limits| limits.max_unavailable);
        assert!(after == before || after <= allowed, "{down:?} are down, {allowed} may be");
    }

    fn act(&mut self, step: &Step) -> Outcome {
        let outcome = match step {
            Step::Create { node, hash, .. } => {
                self.made += 1;
                let name = format!("pod-{}", self.made);
                let made = Pod {
                    hash: hash.clone(),
                    created: Some(ago(1000 - self.states.len() as i64)),
                    ..pending(pod(&name, node))
                };
                self.change(|truth| truth.pods.push(made.clone()));
                Outcome::Created(Box::new(made))
            }
            Step::Delete { pod, cause, .. } => {
                let truth = self.now().pods.iter().find(|one| one.uid == pod.uid).cloned();
                let Some(truth) = truth else { return Outcome::Gone };
                if *cause == Cause::Update && truth.ready.is_some() && !truth.deleting {
                    self.down.insert(truth.node.clone());
                }
                let uid = pod.uid.clone();
                self.change(|truth| {
                    truth.pods.iter_mut().filter(|one| one.uid == uid).for_each(|one| one.deleting = true)
                });
                Outcome::Done
            }
            Step::WriteStatus(_) => return Outcome::Written(ResourceVersion::default()),
            other => panic!("{other:?}"),
        };
        self.written = self.states.len() - 1;
        outcome
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Sync { lag, fails } => _ = self.sync(*lag, *fails),
            Event::Rollout => self.templates += 1,
            Event::Node(at, verdict) => {
                let (node, verdict) = (NODES[at % NODES.len()], *verdict);
                self.change(|truth| {
                    match verdict {
                        Some(verdict) => truth.nodes.insert(node, verdict),
                        None => truth.nodes.remove(node),
                    };
                });
            }
            Event::Pod(at, change) => {
                let count = self.now().pods.len();
                if count > 0 {
                    self.change(|truth| alter(&mut truth.pods, at % count, *change));
                }
            }
        }
    }

    /// Lets every pod do as it should, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..200 {
            let worked = self.sync((0, 0), 0);
            let before = format!("{:?}", self.now().pods);
            self.change(|truth| {
                let nodes = truth.nodes.clone();
                // The pod collector deletes the bound pods of vanished nodes.
                truth
                    .pods
                    .retain(|pod| !pod.deleting && (!pod.bound || nodes.contains_key(pod.node.as_str())));
                for pod in truth.pods.iter_mut().filter(|pod| pod.end.is_none()) {
                    (pod.bound, pod.ready) = (true, Some(Some(ago(0))));
                }
            });
            if !worked && format!("{:?}", self.now().pods) == before {
                return;
            }
        }
        panic!("it never settles: {:?}", self.now().pods);
    }
}

fn alter(pods: &mut Vec<Pod>, at: usize, change: Change) {
    let pod = &mut pods[at];
    match change {
        Change::Bind => pod.bound = true,
        Change::Ready if pod.end.is_none() => (pod.bound, pod.ready) = (true, Some(Some(ago(0)))),
        Change::Ready => {}
        Change::Unready => pod.ready = None,
        Change::Fail => (pod.end, pod.ready) = (Some(End::Failed), None),
        Change::Delete => pod.deleting = true,
        Change::End if pod.deleting => _ = pods.remove(at),
        Change::End => {}
    }
}

fn event() -> impl Strategy<Value = Event> {
    let change = prop_oneof![
        1 => Just(Change::Bind),
        6 => Just(Change::Ready),
        1 => Just(Change::Unready),
        1 => Just(Change::Fail),
        1 => Just(Change::Delete),
        4 => Just(Change::End),
    ];
    let verdict = prop_oneof![
        4 => Just(Some(Verdict::Run)),
        1 => Just(Some(Verdict::Keep)),
        1 => Just(Some(Verdict::Unfit)),
        1 => Just(None),
    ];
    let fails = prop_oneof![3 => Just(0), 1 => any::<u32>()];
    prop_oneof![
        8 => ((0..4_usize, 0..4_usize), fails).prop_map(|(lag, fails)| Event::Sync { lag, fails }),
        12 => (any::<usize>(), change).prop_map(|(at, change)| Event::Pod(at, change)),
        1 => (any::<usize>(), verdict).prop_map(|(at, verdict)| Event::Node(at, verdict)),
        1 => Just(Event::Rollout),
    ]
}

/// A strategy, and whether its limit is a percentage.
fn strategy() -> impl Strategy<Value = (bool, UpdateStrategy)> {
    prop_oneof![
        (1..4_i32).prop_map(|most| (false, by_unavailable(number(most)))),
        Just((true, by_unavailable(percent("30%")))),
        (1..4_i32).prop_map(|most| (false, by_surge(number(most)))),
        Just((true, by_surge(percent("30%")))),
    ]
}

#[test]
fn a_percentage_updates_no_pod_if_no_node_wants_one() {
    let mut world = World::new(by_surge(percent("30%")));
    world.sync((0, 0), 0);
    NODES.iter().enumerate().for_each(|(at, _)| world.happen(&Event::Node(at, Some(Verdict::Keep))));
    world.happen(&Event::Pod(0, Change::Ready));
    world.happen(&Event::Rollout);
    world.settle();
    assert!(world.now().pods.iter().any(|pod| pod.hash == *World::hash(1)), "{:?}", world.now().pods);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn updates_keep_to_their_limits_and_every_rollout_ends(
        (is_percent, strategy) in strategy(),
        events in proptest::collection::vec(event(), 0..200),
    ) {
        let mut world = World::new(strategy);
        events.iter().for_each(|event| world.happen(event));
        world.settle();
        let (truth, hash) = (world.now(), World::hash(world.templates));
        // A percentage is of the nodes that want a pod. If none does, the limit is 0 and no pod is updated.
        let allows_none = is_percent && !truth.nodes.values().any(|verdict| *verdict == Verdict::Run);
        for node in NODES {
            let pods: Vec<&Pod> = truth.pods.iter().filter(|pod| pod.node == node).collect();
            let is_updated = pods.iter().all(|pod| pod.hash == *hash && pod.ready.is_some());
            match truth.nodes.get(node) {
                Some(Verdict::Run) => prop_assert!(pods.len() == 1 && is_updated, "{node}: {pods:?}"),
                Some(Verdict::Keep) => prop_assert!(pods.len() <= 1 && (is_updated || allows_none), "{node}: {pods:?}"),
                Some(Verdict::Unfit) | None => prop_assert!(pods.is_empty(), "{node}: {pods:?}"),
            }
        }
    }
}
