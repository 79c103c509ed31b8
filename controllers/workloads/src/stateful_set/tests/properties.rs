//! What holds for any sequence of changes of a set, deaths of its pods, and caches that lag behind.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::observed::Order;
use super::*;

/// What happens to a set, to one of its pods, or to the controller's cache.
#[derive(Clone, Debug)]
enum Event {
    Scale(i32),
    Start(i32),
    Partition(i32),
    /// The template gets the revision of this number.
    Template(u8),
    Run(i32),
    Ready(i32),
    Unready(i32),
    Fail(i32),
    /// Somebody else deletes the pod.
    Delete(i32),
    /// The kubelet has ended a pod that is being deleted.
    End(i32),
    /// The cache shows what the server has.
    CatchUp,
    Sync,
}

fn event() -> impl Strategy<Value = Event> {
    let at = || 0..6_i32;
    prop_oneof![
        1 => at().prop_map(Event::Scale),
        1 => (0..3_i32).prop_map(Event::Start),
        1 => at().prop_map(Event::Partition),
        1 => (0..4_u8).prop_map(Event::Template),
        3 => at().prop_map(Event::Run),
        5 => at().prop_map(Event::Ready),
        1 => at().prop_map(Event::Unready),
        1 => at().prop_map(Event::Fail),
        1 => at().prop_map(Event::Delete),
        3 => at().prop_map(Event::End),
        6 => Just(Event::CatchUp),
        8 => Just(Event::Sync),
    ]
}

/// A server with one set, and the controller's cache of it.
struct World {
    set: Set,
    revisions: Revisions,
    pods: BTreeMap<i32, Pod>,
    /// What the controller sees.
    cached: Observed,
    /// The controller has written since the cache caught up: it waits.
    is_behind: bool,
}

impl World {
    fn new(order: Order) -> Self {
        let mut cached = settled(3, vec![]);
        cached.set.order = order;
        let (set, revisions) = (cached.set.clone(), cached.revisions.clone());
        Self { set, revisions, pods: BTreeMap::new(), cached, is_behind: false }
    }

    fn change(&mut self, number: i32, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.get_mut(&number) {
            change(pod);
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Scale(replicas) => self.set.replicas = replicas,
            Event::Start(start) => self.set.start = start,
            Event::Partition(partition) => self.set.update.partition = Some(partition),
            Event::Template(number) => {
                let name = format!("web-{number}");
                let last = self.revisions.all.last().unwrap();
                if *last.key.name != name {
                    self.revisions.all.retain(|revision| *revision.key.name != name);
                    let number = self.revisions.all.last().map_or(1, |last| last.number + 1);
                    self.revisions.all.push(revision(&name, number));
                    self.revisions.newest = Some(name.as_str().into());
                }
            }
            Event::Run(number) => self.change(number, |pod| {
                if pod.phase == Phase::Pending {
                    pod.phase = Phase::Running;
                }
            }),
            Event::Ready(number) => self.change(number, |pod| {
                if pod.phase == Phase::Running {
                    pod.ready = Some(Some(ago(0)));
                }
            }),
            Event::Unready(number) => self.change(number, |pod| pod.ready = None),
            Event::Fail(number) => self.change(number, |pod| (pod.phase, pod.ready) = (Phase::Ended, None)),
            Event::Delete(number) => self.change(number, |pod| pod.deleting = true),
            Event::End(number) => {
                if self.pods.get(&number).is_some_and(|pod| pod.deleting) {
                    self.pods.remove(&number);
                }
            }
            Event::CatchUp => self.catch_up(),
            Event::Sync => self.sync(),
        }
    }

    fn catch_up(&mut self) {
        let status = self.cached.set.status.clone();
        self.cached = Observed {
            set: Set { status, ..self.set.clone() },
            pods: self.pods.values().cloned().collect(),
            claims: HashMap::new(),
            revisions: self.revisions.clone(),
            grounds: Grounds::Sure,
            done: Done::default(),
        };
        self.is_behind = false;
    }

    fn sync(&mut self) {
        if self.is_behind {
            return;
        }
        let mut observed = self.cached.clone();
        for _ in 0..100 {
            let steps = steps(&observed);
            if steps.is_empty() {
                self.cached.set.status = observed.set.status;
                return;
            }
            let before = observed.clone();
            for step in steps {
                let result = self.act(&before, &step);
                observed.absorb(step, result);
            }
        }
        panic!("a sync must end");
    }

    fn act(&mut self, observed: &Observed, step: &Step) -> StepResult<Outcome> {
        let Step::Pod(step) = step else { return StepResult::Done(perform(observed, step)) };
        self.is_behind = true;
        let number = step.ordinal;
        match step.goal {
            Goal::Create => {
                let seen = |number| observed.numbered().find(|pod| pod.ordinal == Some(number));
                assert!(seen(number).is_none(), "there is a pod of ordinal {number}");
                if observed.set.order == Order::Ready {
                    for before in observed.set.start..number {
                        let pod = seen(before).expect("a predecessor must exist");
                        assert!(pod.is_running_and_ready() && !pod.deleting, "{pod:?} is not ready");
                    }
                }
                if self.pods.contains_key(&number) {
                    return StepResult::Failed(refused());
                }
            }
            Goal::Delete => {
                // A later pod of the name is another pod, which the server does not delete.
                if self.pods.get(&number).map(|pod| &pod.uid) != step.uid.as_ref() {
                    return StepResult::Failed(refused());
                }
            }
            Goal::Complete | Goal::Update | Goal::Release => {}
        }
        let outcome = perform(observed, &Step::Pod(step.clone()));
        if let Outcome::Pod(did) = &outcome {
            for did in did {
                match did {
                    Did::Pod(pod) => _ = self.pods.insert(number, (**pod).clone()),
                    Did::Deleted => self.change(number, |pod| pod.deleting = true),
                    Did::Claim(..) | Did::Nothing => {}
                }
            }
        }
        StepResult::Done(outcome)
    }

    /// Lets the kubelet and the controller work until nothing changes.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.pods.retain(|_, pod| !pod.deleting);
            for pod in self.pods.values_mut().filter(|pod| pod.phase != Phase::Ended) {
                (pod.phase, pod.ready) = (Phase::Running, Some(Some(ago(0))));
            }
            self.catch_up();
            self.sync();
            if !self.is_behind {
                return;
            }
        }
        panic!("the set must settle: {:?}", self.pods);
    }
}

proptest! {
    #[test]
    fn ordered_pods_are_never_created_before_their_predecessors_are_ready(events in vec(event(), 0..120)) {
        let mut world = World::new(Order::Ready);
        events.iter().for_each(|event| world.happen(event));
    }

    #[test]
    fn a_set_has_the_pods_that_it_wants_once_everything_is_quiet(
        events in vec(event(), 0..80), is_parallel in any::<bool>(),
    ) {
        let mut world = World::new(if is_parallel { Order::Parallel } else { Order::Ready });
        events.iter().for_each(|event| world.happen(event));
        // Of pods that are no longer wanted, the highest waits for the lowest that is not ready. If both have ended, both stay, as
        // with upstream's `processCondemned`.
        let ended = |(ordinal, pod): &(&i32, &Pod)| {
            pod.phase == Phase::Ended && !pod.deleting && !world.set.wants(**ordinal)
        };
        prop_assume!(is_parallel || world.pods.iter().filter(ended).count() < 2);
        world.settle();
        let wanted: Vec<i32> = (0..20).filter(|ordinal| world.set.wants(*ordinal)).collect();
        prop_assert_eq!(world.pods.keys().copied().collect::<Vec<_>>(), wanted);
        let update = world.revisions.all.last().unwrap().key.name.clone();
        for (number, pod) in &world.pods {
            let outdated = pod.revision() != update;
            prop_assert!(!outdated || i64::from(*number) < world.set.first_updated(), "{:?}", pod);
        }
        let status = &world.cached.set.status;
        prop_assert_eq!(status.replicas, world.set.replicas);
        prop_assert_eq!(status.ready_replicas, world.set.replicas);
    }
}
