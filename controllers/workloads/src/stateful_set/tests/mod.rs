//! Tables of the policy: an observation in, steps out.

use std::collections::HashMap;

use steersman_api::{ArcStr, Meta, ObjectKey, Time, Uid};
use steersman_controller::children::{Claim as PodClaim, Grounds};
use steersman_controller::controller::{StepResult, SyncError};
use steersman_controller::plan::{Batch, Plan};
use steersman_kinds::stateful_set::ClaimTemplate;

use super::claims::Claim;
use super::identity::{POD_INDEX, POD_NAME, REVISION, ordinal};
use super::observed::{Done, Observed, Set, Update};
use super::plan::{Outcome, Step, plan};
use super::pods::{Phase, Pod};
use super::revisions::{Revision, RevisionOutcome, RevisionStep, Revisions};
use super::status::Status;
use super::steps::{Did, Goal, Write};

mod claims;
mod history;
mod order;
mod properties;
mod repair;
mod rollout;
mod status;

const NOW: i64 = 1_000_000;
/// The revision that a rolling update comes from.
const OLD: &str = "web-old";
/// The revision that a rolling update leads to.
const NEW: &str = "web-new";

fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

fn now() -> Time {
    ago(0)
}

/// A pod of the set `web` at the new revision: running, and ready for long.
fn pod(number: i32) -> Pod {
    let name = format!("web-{number}");
    let labels = [("app", "web"), (POD_NAME, &name), (POD_INDEX, &number.to_string()), (REVISION, NEW)];
    Pod {
        key: ObjectKey::new("ns", name.as_str()),
        uid: format!("{name}-uid").as_str().into(),
        claim: PodClaim::Owned,
        ordinal: ordinal("web", &name),
        labels: labels.into_iter().collect(),
        phase: Phase::Running,
        deleting: false,
        ready: Some(Some(ago(100))),
        volumes: Vec::new(),
    }
}

impl Pod {
    fn at(mut self, revision: &str) -> Self {
        self.labels.insert(REVISION.into(), revision.into());
        self
    }

    fn pending(self) -> Self {
        Self { phase: Phase::Pending, ready: None, ..self }
    }

    fn unready(self) -> Self {
        Self { ready: None, ..self }
    }

    fn ended(self) -> Self {
        Self { phase: Phase::Ended, ready: None, ..self }
    }

    fn deleting(self) -> Self {
        Self { deleting: true, ..self }
    }

    fn ready_since(self, seconds: i64) -> Self {
        Self { ready: Some(Some(ago(seconds))), ..self }
    }

    fn with_volume(mut self, volume: &str, claim: &str) -> Self {
        self.volumes.push((volume.into(), claim.into()));
        self
    }
}

fn revision(name: &str, number: i64) -> Revision {
    Revision { key: ObjectKey::new("ns", name), uid: Uid::from(name), number, is_orphan: false }
}

/// The set `web`, which wants this number of pods and rolls from the old to the new revision.
fn set(replicas: i32, pods: Vec<Pod>) -> Observed {
    let meta = Meta { key: ObjectKey::new("ns", "web"), uid: "set".into(), generation: 2, ..Meta::default() };
    let status = Status { current_revision: OLD.into(), ..Status::default() };
    let update = Update { partition: Some(0), ..Update::default() };
    let set = Set { meta, replicas, update, status, history_limit: 10, ..Set::default() };
    let all = vec![revision(OLD, 1), revision(NEW, 2)];
    let revisions = Revisions { all, newest: Some(NEW.into()), collision_count: 0 };
    let (claims, grounds, done) = (HashMap::new(), Grounds::Sure, Done::default());
    Observed { set, pods, claims, revisions, grounds, done }
}

/// As [`set`], and it is at one revision.
fn settled(replicas: i32, pods: Vec<Pod>) -> Observed {
    let mut observed = set(replicas, pods);
    observed.revisions.all.remove(0);
    observed.set.status.current_revision = NEW.into();
    observed
}

fn template(name: &str) -> ClaimTemplate {
    ClaimTemplate { name: name.into(), ..ClaimTemplate::default() }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, now()) {
        Plan::Act(Batch { steps, .. }) => steps,
        Plan::Done { .. } => Vec::new(),
    }
}

/// The steps as texts such as `create web-0`, but for writes of the status.
fn said(observed: &Observed) -> Vec<String> {
    steps(observed).iter().filter_map(say).collect()
}

fn say(step: &Step) -> Option<String> {
    Some(match step {
        Step::Confirm => "confirm".to_owned(),
        Step::CheckAlive => "check alive".to_owned(),
        Step::Adopt(pod) => format!("adopt {}", pod.key.name),
        Step::Release(pod) => format!("release {}", pod.key.name),
        Step::Inspect(pod) => format!("inspect {}", pod.key.name),
        Step::Revision(RevisionStep::Adopt(revision)) => format!("adopt {}", revision.key.name),
        Step::Revision(RevisionStep::Raise(revision, to)) => format!("raise {} to {to}", revision.key.name),
        Step::Revision(RevisionStep::Create(number)) => format!("create revision {number}"),
        Step::Revision(RevisionStep::Delete(revision)) => format!("delete {}", revision.key.name),
        Step::Pod(step) => {
            let goal = match step.goal {
                Goal::Create => "create",
                Goal::Complete => "complete",
                Goal::Update => "update",
                Goal::Release => "release claims of",
                Goal::Delete => "delete",
            };
            format!("{goal} {}", step.pod.name)
        }
        Step::WriteStatus(_) => return None,
    })
}

/// Carries out a step as an API server does that refuses nothing. Returns what it did.
fn perform(observed: &Observed, step: &Step) -> Outcome {
    let Step::Pod(step) = step else {
        return match step {
            Step::WriteStatus(_) => Outcome::Written(observed.set.meta.resource_version),
            Step::Revision(RevisionStep::Raise(revision, number)) => {
                Outcome::Revision(RevisionOutcome::Is(Revision { number: *number, ..revision.clone() }))
            }
            Step::Revision(RevisionStep::Adopt(revision)) => {
                Outcome::Revision(RevisionOutcome::Is(Revision { is_orphan: false, ..revision.clone() }))
            }
            Step::Revision(RevisionStep::Delete(_)) => Outcome::Revision(RevisionOutcome::Gone),
            Step::Revision(RevisionStep::Create(number)) => {
                let name = format!("web-r{number}");
                Outcome::Revision(RevisionOutcome::Created(revision(&name, *number), 0))
            }
            _ => Outcome::Done,
        };
    };
    let did = step.writes.iter().map(|write| match write {
        Write::CreateClaim { name, owners, .. } => {
            let claim = Claim { uid: Uid::from(&**name), owners: owners.clone(), ..Claim::default() };
            Did::Claim(name.clone(), claim)
        }
        Write::SetOwners { name, owners, .. } => {
            Did::Claim(name.clone(), Claim { owners: owners.clone(), ..observed.claims[name].clone() })
        }
        Write::CreatePod(which) => {
            let revision = match which {
                super::steps::Which::Current => {
                    observed.revisions.current(&observed.set.status.current_revision)
                }
                super::steps::Which::Update => observed.revisions.update(),
            };
            let mut created = pod(step.ordinal).pending().at(revision.unwrap());
            created.uid = Uid::random();
            let storage = observed.set.storage(step.ordinal);
            created.volumes = storage.map(|(volume, claim)| (volume.clone(), claim)).collect();
            Did::Pod(Box::new(created))
        }
        Write::UpdatePod => {
            let old = observed.pods.iter().find(|pod| Some(&pod.uid) == step.uid.as_ref()).unwrap();
            let mut new = old.clone();
            new.labels.insert(POD_NAME.into(), old.key.name.clone());
            new.volumes = observed.set.storage(step.ordinal).map(|(v, c)| (v.clone(), c)).collect();
            Did::Pod(Box::new(new))
        }
        Write::DeletePod => Did::Deleted,
        Write::Warn(_) | Write::WaitForClaim(_) => Did::Nothing,
    });
    Outcome::Pod(did.collect())
}

/// Runs a whole sync, and returns its steps as texts, but for writes of the status.
fn sync(observed: &mut Observed) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..1_000 {
        let steps = steps(observed);
        if steps.is_empty() {
            return all;
        }
        for step in steps {
            all.extend(say(&step));
            let outcome = perform(observed, &step);
            observed.absorb(step, StepResult::Done(outcome));
        }
    }
    panic!("a sync must end: {all:?}");
}

fn refused() -> SyncError {
    SyncError::Failed("refused".to_owned())
}

fn written(observed: &Observed) -> Status {
    match &steps(observed)[..] {
        [Step::WriteStatus(status)] => (**status).clone(),
        other => panic!("{other:?}"),
    }
}
