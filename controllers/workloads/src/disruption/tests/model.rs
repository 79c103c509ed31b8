//! A property of the controller beside a model of the API server: whatever happens, in whatever order, and however old the
//! caches are, no eviction leaves fewer healthy pods than the budget asks for.
//!
//! A pod that dies, or is deleted without an eviction, may be gone before the controller hears of it. So the property is:
//! of the pods that were healthy in the cache from which the stored status was computed, as many as the budget asks for are not
//! evicted. Where no pod dies unseen, these are healthy.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use steersman_api::{ArcStr, Uid};

use super::*;

/// An event.
#[derive(Clone, Debug)]
enum Event {
    /// A client asks for the eviction of the pod of that name.
    Evict(u8),
    /// The API server deletes a pod whose eviction it has agreed to.
    DeleteEvicted,
    /// The deletion of a pod whose eviction the API server has agreed to fails.
    FailToDeleteEvicted,
    /// A pod becomes unready.
    Die(u8),
    /// A pod becomes ready.
    Recover(u8),
    /// A pod that is being deleted goes.
    Remove(u8),
    /// A ready pod of that name appears, unless there is one.
    Create(u8),
    /// A user changes the budget.
    Change(Bound),
    /// The cache of pods learns of so many changes.
    SeePods(u8),
    /// The cache of budgets learns of so many changes.
    SeeBudgets(u8),
    /// The controller syncs the budget.
    Sync,
    /// Another process takes over.
    TakeOver,
    /// Time passes, in seconds.
    Wait(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let pod = 0..4_u8;
    prop_oneof![
        6 => pod.clone().prop_map(Event::Evict),
        3 => Just(Event::DeleteEvicted),
        1 => Just(Event::FailToDeleteEvicted),
        1 => pod.clone().prop_map(Event::Die),
        1 => pod.clone().prop_map(Event::Recover),
        2 => pod.clone().prop_map(Event::Remove),
        3 => pod.prop_map(Event::Create),
        1 => bound().prop_map(Event::Change),
        4 => (1..4_u8).prop_map(Event::SeePods),
        4 => (1..3_u8).prop_map(Event::SeeBudgets),
        5 => Just(Event::Sync),
        1 => Just(Event::TakeOver),
        1 => (1..130_u8).prop_map(Event::Wait),
    ]
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        (0..3).prop_map(min),
        (0..3).prop_map(max),
        (0..100).prop_map(|percent| min_percent(&format!("{percent}%"))),
        (0..100).prop_map(|percent| max_percent(&format!("{percent}%"))),
    ]
}

/// The number of pods that the pods' owner asks for.
const REPLICAS: i32 = 3;
/// The longest time that caches and deletions take: less than the controller's patience with them.
const PATIENCE: i64 = 60;

type Pods = BTreeMap<ArcStr, Pod>;

/// The API server, the caches, and the controller.
struct World {
    now: i64,
    version: u64,
    /// The states of all pods, and of the budget, each with its version. The last one is the current one.
    pods: Vec<(u64, Pods)>,
    budgets: Vec<Budget>,
    /// How many of the states the caches have seen.
    pods_seen: usize,
    budgets_seen: usize,
    /// Pods whose eviction the API server has agreed to, and which it has not deleted yet.
    agreed: Vec<(i64, Pod)>,
    /// Every pod that was evicted, but for those whose deletion failed.
    evicted: BTreeSet<Uid>,
    /// The healthy pods from which the stored status was computed.
    basis: BTreeSet<Uid>,
    /// What the controller remembers: the version that its last write gave the budget, and that of its entries.
    own_write: Option<(ResourceVersion, ResourceVersion)>,
    uids: u32,
    evictions: usize,
}

impl World {
    fn new(bound: Bound) -> Self {
        let meta = Meta { generation: 1, resource_version: ResourceVersion(1), ..Meta::default() };
        let mut world = Self {
            now: NOW,
            version: 1,
            pods: vec![(1, Pods::new())],
            budgets: vec![Budget { meta, bound, ..Budget::default() }],
            pods_seen: 1,
            budgets_seen: 1,
            agreed: Vec::new(),
            evicted: BTreeSet::new(),
            basis: BTreeSet::new(),
            own_write: None,
            uids: 0,
            evictions: 0,
        };
        (0..REPLICAS).for_each(|name| world.happens(&Event::Create(u8::try_from(name).unwrap())));
        world.catch_up();
        world.happens(&Event::Sync);
        world
    }

    fn time(&self) -> Time {
        Time::from_seconds(self.now)
    }

    fn pods(&self) -> &Pods {
        &self.pods.last().unwrap().1
    }

    fn budget(&self) -> &Budget {
        self.budgets.last().unwrap()
    }

    fn catch_up(&mut self) {
        (self.pods_seen, self.budgets_seen) = (self.pods.len(), self.budgets.len());
    }

    fn change_pods(&mut self, change: impl FnOnce(&mut Pods)) {
        let mut pods = self.pods().clone();
        change(&mut pods);
        self.version += 1;
        self.pods.push((self.version, pods));
    }

    fn change_pod(&mut self, name: &ArcStr, change: impl FnOnce(&mut Pod)) {
        if self.pods().contains_key(name) {
            self.change_pods(|pods| pods.get_mut(name).map(change).unwrap());
        }
    }

    fn change_budget(&mut self, change: impl FnOnce(&mut Budget)) -> ResourceVersion {
        let mut budget = self.budget().clone();
        change(&mut budget);
        self.version += 1;
        budget.meta.resource_version = ResourceVersion(self.version);
        self.budgets.push(budget);
        ResourceVersion(self.version)
    }

    fn happens(&mut self, event: &Event) {
        let name = |at: u8| ArcStr::from(at.to_string());
        match event {
            Event::Evict(at) => self.evict(&name(*at)),
            Event::DeleteEvicted => self.delete_evicted(),
            Event::FailToDeleteEvicted => {
                if let Some((_, pod)) = self.agreed.pop() {
                    self.evicted.remove(&pod.meta.uid);
                }
            }
            Event::Die(at) => self.change_pod(&name(*at), |pod| pod.ready = false),
            Event::Recover(at) => self.change_pod(&name(*at), |pod| pod.ready = true),
            Event::Remove(at) => {
                let name = name(*at);
                if self.pods().get(&name).is_some_and(|pod| pod.meta.is_deleting()) {
                    self.change_pods(|pods| _ = pods.remove(&name));
                }
            }
            Event::Create(at) => {
                let name = name(*at);
                if !self.pods().contains_key(&name) {
                    self.uids += 1;
                    let mut new = pod(&name).of("set", REPLICAS);
                    new.meta.uid = self.uids.to_string().as_str().into();
                    self.change_pods(|pods| _ = pods.insert(name, new));
                }
            }
            Event::Change(bound) => {
                _ = self.change_budget(|budget| {
                    budget.bound = bound.clone();
                    budget.meta.generation += 1;
                })
            }
            Event::SeePods(count) => {
                self.pods_seen = (self.pods_seen + usize::from(*count)).min(self.pods.len());
            }
            Event::SeeBudgets(count) => {
                self.budgets_seen = (self.budgets_seen + usize::from(*count)).min(self.budgets.len());
            }
            Event::Sync => self.sync(),
            Event::TakeOver => self.own_write = None,
            Event::Wait(seconds) => {
                self.now += i64::from(*seconds);
                while self.agreed.first().is_some_and(|(since, _)| self.now - since >= PATIENCE) {
                    self.delete_evicted();
                }
                self.catch_up();
            }
        }
    }

    /// The API server's eviction handler, up to where it deletes the pod.
    fn evict(&mut self, name: &ArcStr) {
        let Some(pod) = self.pods().get(name).cloned() else { return };
        let budget = self.budget();
        // Unhealthy pods may go without the budget's consent, and pods that go already do not matter.
        let is_behind = budget.status.observed_generation < budget.meta.generation;
        if pod.meta.is_deleting() || !pod.ready || is_behind || budget.status.disruptions_allowed == 0 {
            return;
        }
        let (name, time) = (name.clone(), self.time());
        self.change_budget(|budget| {
            budget.status.disruptions_allowed -= 1;
            budget.status.disrupted_pods.insert(name, time);
        });
        self.evictions += 1;
        self.evicted.insert(pod.meta.uid.clone());
        self.agreed.push((self.now, pod));
        let left = self.basis.difference(&self.evicted).count();
        let desired = self.budget().status.desired_healthy;
        assert!(left >= usize::try_from(desired).unwrap(), "{left} pods are left, {desired} are desired");
    }

    fn delete_evicted(&mut self) {
        if self.agreed.is_empty() {
            return;
        }
        let (_, evicted) = self.agreed.remove(0);
        let name = &evicted.meta.key.name;
        if self.pods().get(name).is_some_and(|pod| pod.meta.uid == evicted.meta.uid) {
            let now = self.time();
            self.change_pod(name, |pod| pod.meta.deletion = Deletion::at(now));
        }
    }

    /// A sync, as the runner carries it out.
    fn sync(&mut self) {
        let cached = self.budgets[self.budgets_seen - 1].clone();
        let version = cached.meta.resource_version;
        if self.own_write.is_some_and(|(written, _)| version < written) {
            return;
        }
        let (pods_version, pods) = self.pods[self.pods_seen - 1].clone();
        let agreed_at =
            self.own_write.filter(|(written, _)| *written == version).map_or(version, |own| own.1);
        let mut observed = Observed {
            budget: cached,
            pods: Ok(pods.values().cloned().collect()),
            pods_version: ResourceVersion(pods_version),
            agreed_at,
            foreign: HashMap::new(),
            done: Done::default(),
        };
        let mut rounds = 0;
        while let Plan::Act(batch) = plan(&observed, self.time()) {
            rounds += 1;
            assert!(rounds < 10, "the controller does not come to an end: {batch:?}");
            for step in batch.steps {
                let outcome = self.act(&observed, &step, &pods);
                let ends = matches!(outcome, Outcome::Outdated);
                observed.absorb(step, StepResult::Done(outcome));
                if ends {
                    break;
                }
            }
        }
    }

    fn act(&mut self, observed: &Observed, step: &Step, pods: &Pods) -> Outcome {
        match step {
            Step::WriteStatus(status) => {
                if self.budget().meta.resource_version != observed.budget.meta.resource_version {
                    return Outcome::Outdated;
                }
                let healthy = pods.values().filter(|pod| pod.ready && !pod.meta.is_deleting());
                self.basis = healthy.map(|pod| pod.meta.uid.clone()).collect();
                let version = self.change_budget(|budget| budget.status = (**status).clone());
                self.own_write = Some((version, observed.agreed_at));
                Outcome::Written(version)
            }
            Step::Reread => Outcome::Reread(Box::new(self.budget().clone())),
            _ => Outcome::Done,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_eviction_leaves_fewer_healthy_pods_than_the_budget_asks_for(
        bound in bound(), events in vec(event(), 0..60),
    ) {
        let mut world = World::new(bound);
        events.iter().for_each(|event| world.happens(event));
    }

    #[test]
    fn once_the_caches_are_up_to_date_the_status_is_right_and_no_longer_written(
        bound in bound(), events in vec(event(), 0..60),
    ) {
        let mut world = World::new(bound);
        events.iter().for_each(|event| world.happens(event));
        world.happens(&Event::Wait(120));
        world.happens(&Event::Sync);
        world.catch_up();
        let settled = world.budget().clone();
        world.happens(&Event::Sync);
        prop_assert_eq!(world.budget().meta.resource_version, settled.meta.resource_version);
        let pods: Vec<Pod> = world.pods().values().cloned().collect();
        let healthy = pods.iter().filter(|pod| pod.ready && !pod.meta.is_deleting()).count();
        let status = settled.status;
        prop_assert_eq!(status.observed_generation, settled.meta.generation);
        prop_assert_eq!(status.current_healthy, i32::try_from(healthy).unwrap());
        let spare = (status.current_healthy - status.desired_healthy).max(0);
        let expected = if status.expected_pods > 0 { spare } else { 0 };
        prop_assert_eq!(status.disruptions_allowed, expected);
        prop_assert!(status.disrupted_pods.is_empty());
    }
}

#[test]
fn the_model_sees_evictions_agreed_to_and_refused() {
    let mut world = World::new(min(1));
    for name in 0..3 {
        world.happens(&Event::Evict(name));
    }
    assert_eq!(world.evictions, 2);
}

#[test]
fn a_pod_that_was_evicted_before_the_cache_showed_it_never_counts() {
    let mut world = World::new(min(1));
    let sync = [Event::SeeBudgets(9), Event::Sync];
    let unseen = [Event::Create(3), Event::Evict(3)];
    let seen = [Event::SeePods(1)];
    unseen.iter().chain(&sync).chain(&seen).chain(&sync).for_each(|event| world.happens(event));
    // The three other pods can spare two.
    (0..3).for_each(|name| world.happens(&Event::Evict(name)));
    assert_eq!(world.evictions, 3);
}
