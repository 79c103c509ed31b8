//! Whatever users do, pods suffer and caches miss: no step of a rollout takes more available pods, or adds more pods, than the
//! strategy allows; and once everything has come to rest, the rollout is complete.

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use steersman_controller::controller::{StepResult, SyncError};
use steersman_controller::plan::{OnFailure, Plan};

use super::*;
use crate::deployment::plan::{NewSet, Outcome, Scale, Stage};

/// Something that happens in the cluster.
#[derive(Clone, Debug)]
enum Event {
    /// Users change the number of pods.
    Replicas(i32),
    /// Users change the template, or go back to an earlier one.
    Template(u8),
    /// Users change the bounds.
    Bounds(i32, i32),
    /// Users choose `Recreate`.
    Recreate,
    /// Users pause or resume the rollout.
    Pause(bool),
    /// The controller of ReplicaSets creates and deletes pods of one.
    Manage(usize),
    /// The controller of ReplicaSets reports the number of pods.
    Report(usize),
    /// A pod becomes available.
    Ready(usize),
    /// A pod is lost.
    Lose(usize),
    /// The cache sees the current state of a ReplicaSet.
    Deliver(usize),
    /// The Deployment controller syncs.
    Sync,
}

fn event() -> impl Generator<Value = Event> {
    let bounds = (0..4, 0..4_i32).prop_map(|(surge, unavailable)| Event::Bounds(surge, unavailable));
    prop_oneof![
        1 => (0..9).prop_map(Event::Replicas),
        1 => (0..3_u8).prop_map(Event::Template),
        1 => bounds,
        1 => Just(Event::Recreate),
        1 => any::<bool>().prop_map(Event::Pause),
        8 => (0..3_usize).prop_map(Event::Manage),
        8 => (0..3_usize).prop_map(Event::Report),
        12 => (0..3_usize).prop_map(Event::Ready),
        3 => (0..3_usize).prop_map(Event::Lose),
        10 => (0..3_usize).prop_map(Event::Deliver),
        12 => Just(Event::Sync),
    ]
}

/// A ReplicaSet at the API server, its pods, and what the cache shows of it.
struct Member {
    set: ReplicaSet,
    template: u8,
    /// Whether each pod is available.
    pods: Vec<bool>,
    /// The generation that the pods were last managed for.
    managed: i64,
    cached: ReplicaSet,
    /// Whether the Deployment controller has deleted it.
    gone: bool,
}

impl Member {
    fn available(&self) -> i32 {
        number(self.pods.iter().filter(|available| **available).count())
    }

    fn write(&mut self) {
        let next = self.set.reference.version.to_string().parse::<u64>().unwrap() + 1;
        self.set.reference.version = ResourceVersion::parse(&next.to_string()).unwrap();
        // Available pods are reported at once, and their number otherwise when the controller gets to it.
        self.set.status.available = self.available();
    }

    fn manage(&mut self) {
        let wanted = usize::try_from(self.set.replicas).unwrap();
        // Available pods last.
        self.pods.sort_by_key(|available| !available);
        self.pods.resize(wanted, false);
        self.managed = self.set.generation;
        self.write();
    }

    fn report(&mut self) {
        self.set.status.replicas = number(self.pods.len());
        self.set.status.observed_generation = self.managed;
        self.write();
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap()
}

struct World {
    deployment: Deployment,
    template: u8,
    members: Vec<Member>,
}

impl World {
    fn new() -> Self {
        let deployment = Deployment { annotations: [].into_iter().collect(), ..web(4) };
        Self { deployment, template: 0, members: Vec::new() }
    }

    fn happen(&mut self, event: &Event) {
        let at = |index: &usize| self.members.get(*index).filter(|member| !member.gone).map(|_| *index);
        match event {
            Event::Replicas(replicas) => self.deployment.replicas = *replicas,
            Event::Template(template) => self.template = *template,
            Event::Bounds(surge, unavailable) => {
                self.deployment.strategy = rolling(&surge.to_string(), &unavailable.to_string());
            }
            Event::Recreate => self.deployment.strategy = Strategy::Recreate,
            Event::Pause(paused) => self.deployment.paused = *paused,
            Event::Sync => self.sync(),
            Event::Manage(index) => at(index).into_iter().for_each(|at| self.members[at].manage()),
            Event::Report(index) => at(index).into_iter().for_each(|at| self.members[at].report()),
            Event::Ready(index) => {
                if let Some(at) = at(index)
                    && let Some(pod) = self.members[at].pods.iter_mut().find(|available| !**available)
                {
                    *pod = true;
                    self.members[at].write();
                }
            }
            Event::Lose(index) => {
                if let Some(at) = at(index)
                    && self.members[at].pods.pop().is_some()
                {
                    self.members[at].write();
                }
            }
            Event::Deliver(index) => {
                at(index).into_iter().for_each(|at| self.members[at].cached = self.members[at].set.clone());
            }
        }
        if matches!(
            event,
            Event::Replicas(_) | Event::Template(_) | Event::Bounds(..) | Event::Recreate | Event::Pause(_)
        ) {
            self.deployment.meta.generation += 1;
        }
    }

    /// Syncs as the runner does, on what the cache shows. Each member's cache shows the controller's own writes.
    fn sync(&mut self) {
        let sets = self.members.iter().filter(|member| !member.gone).map(|member| ReplicaSet {
            has_template: member.template == self.template,
            ..member.cached.clone()
        });
        let mut observed = observed(self.deployment.clone(), sets.collect());
        observed.done.hash = None;
        for _ in 0..100 {
            let Plan::Act(batch) = plan(&observed, now()) else {
                self.deployment.status = observed.deployment.status;
                self.deployment.annotations = observed.deployment.annotations;
                return;
            };
            let mut failed = false;
            for step in batch.steps {
                let result = match failed {
                    true => StepResult::Skipped,
                    false => self.act(&observed, &step),
                };
                failed |= matches!(result, StepResult::Failed(_));
                observed.absorb(step, result);
            }
            if failed && batch.on_failure == OnFailure::Stop {
                return;
            }
        }
        panic!("the plan never ends: {:?}", plan(&observed, now()));
    }

    fn act(&mut self, observed: &Observed, step: &Step) -> StepResult<Outcome> {
        StepResult::Done(match step {
            Step::Hash => Outcome::Hashed(format!("t{}", self.template).into()),
            Step::Create(new) => self.create(observed, new),
            Step::WriteStatus(_) => Outcome::Written(ResourceVersion::ANY),
            Step::Annotate(annotate) => {
                let member = self.member(&annotate.set);
                if member.set.reference != annotate.set {
                    return conflict();
                }
                for (key, value) in &annotate.annotations {
                    member.set.annotations.insert(key.clone(), value.clone());
                }
                member.write();
                member.cached = member.set.clone();
                Outcome::Changed(Box::new(member.set.clone()))
            }
            Step::Scale(scale) => return self.scale(observed, scale),
            Step::Delete(set) => {
                let member = self.member(set);
                if member.set.reference != *set {
                    return conflict();
                }
                member.gone = true;
                assert_eq!(member.pods.len(), 0, "a set with pods is deleted");
                Outcome::Done
            }
            other => panic!("{other:?}"),
        })
    }

    fn create(&mut self, observed: &Observed, new: &NewSet) -> Outcome {
        let taken = self.members.iter().any(|member| !member.gone && member.set.name() == &new.name);
        assert!(!taken, "a second set for one template");
        let set = ReplicaSet {
            replicas: new.replicas,
            annotations: new.annotations.clone(),
            status: SetStatus::default(),
            created: Some(ago(1000 - i64::try_from(self.members.len()).unwrap())),
            ..set(&new.name, 0)
        };
        let set = ReplicaSet {
            reference: SetRef {
                uid: format!("{}", self.members.len()).as_str().into(),
                ..set.reference.clone()
            },
            ..set
        };
        let before = self.present();
        let (template, cached) = (self.template, set.clone());
        self.members.push(Member {
            set: set.clone(),
            template,
            pods: Vec::new(),
            managed: 0,
            cached,
            gone: false,
        });
        self.check_growth(observed, before, 0, new.replicas);
        Outcome::Created(Box::new(set.updated()))
    }

    fn scale(&mut self, observed: &Observed, scale: &Scale) -> StepResult<Outcome> {
        let (present, kept, unseen) = (self.present(), self.kept(), self.unseen(observed));
        let member = self.member(&scale.set);
        if member.set.reference != scale.set {
            return conflict();
        }
        assert_eq!(member.set.replicas, scale.from);
        member.set.replicas = scale.to;
        member.set.generation += 1;
        for (key, value) in crate::deployment::annotations::of_size(&observed.deployment) {
            member.set.annotations.insert(key.into(), value);
        }
        member.write();
        member.cached = member.set.clone();
        let set = member.set.clone();
        // Scaling keeps proportions, and nothing else.
        if scale.stage != Stage::Event {
            self.check_growth(observed, present, scale.from, scale.to);
            if self.deployment.is_rolling() && scale.stage != Stage::New {
                let least = self.deployment.min_available().min(kept + unseen);
                let left = self.kept() + unseen;
                assert!(left >= least, "{left} pods stay available of {kept}, and {least} must: {scale:?}");
            }
        }
        StepResult::Done(Outcome::Changed(Box::new(set)))
    }

    fn check_growth(&self, observed: &Observed, before: i32, from: i32, to: i32) {
        if to <= from {
            return;
        }
        let (after, most) = (self.present(), self.deployment.max_replicas());
        if self.deployment.is_rolling() {
            assert!(
                after <= before.max(most),
                "{before} pods become {after}, of {most} at most: {observed:#?}"
            );
        } else {
            let others = self.members.iter().filter(|member| member.template != self.template);
            assert_eq!(others.map(|member| member.pods.len()).sum::<usize>(), 0, "old pods still run");
        }
    }

    fn member(&mut self, set: &SetRef) -> &mut Member {
        self.members.iter_mut().find(|member| member.set.reference.uid == set.uid).unwrap()
    }

    /// The number of pods that there are or shall be.
    fn present(&self) -> i32 {
        self.members.iter().map(|member| member.set.replicas.max(number(member.pods.len()))).sum()
    }

    /// The number of available pods that stay when the ReplicaSets have their sizes.
    fn kept(&self) -> i32 {
        self.members.iter().map(|member| member.set.replicas.min(member.available())).sum()
    }

    /// The number of pods that are lost, and that the controller believes to be available.
    fn unseen(&self, observed: &Observed) -> i32 {
        let lost = |member: &Member| {
            let seen = observed.sets.iter().find(|set| set.reference.uid == member.set.reference.uid);
            (seen.map_or(0, ReplicaSet::available) - member.available()).max(0)
        };
        self.members.iter().map(lost).sum()
    }

    /// Lets everything take its course.
    fn settle(&mut self) {
        self.deployment.paused = false;
        self.deployment.meta.generation += 1;
        for _ in 0..100 {
            for at in 0..self.members.len() {
                let member = &mut self.members[at];
                if !member.gone {
                    member.manage();
                    member.pods.fill(true);
                    member.report();
                    member.cached = member.set.clone();
                }
            }
            self.sync();
        }
    }
}

fn conflict() -> StepResult<Outcome> {
    let status = steersman_api::Status::failure(409, "Conflict", "the object has been modified");
    StepResult::Failed(SyncError::Refused { what: "changing it".to_owned(), status: Box::new(status) })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_step_goes_beyond_what_the_strategy_allows_and_every_rollout_ends(events in vec(event(), 0..160)) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        world.settle();
        let wanted = world.deployment.replicas;
        prop_assert!(world.deployment.status.is_complete(&world.deployment), "{:#?}", world.deployment.status);
        for member in world.members.iter().filter(|member| !member.gone) {
            let is_new = member.template == world.template;
            prop_assert_eq!(member.set.replicas, if is_new { wanted } else { 0 });
        }
        // At rest nothing changes any more.
        let versions = |world: &World| {
            world.members.iter().map(|member| member.set.reference.version).collect::<Vec<_>>()
        };
        let before = (versions(&world), world.deployment.status.clone());
        world.sync();
        prop_assert_eq!((versions(&world), world.deployment.status.clone()), before);
    }
}
