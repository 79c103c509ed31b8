//! A model of an API server with one namespace that is being deleted.

use std::collections::BTreeMap;

use steersman_api::{GroupVersionResource, Meta, ObjectKey, Time};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::super::conditions::Status;
use super::super::contents::{Content, Contents, Leftover, Undiscovered, Verbs};
use super::super::deletion::{Called, Deletion, Namespace, Outcome, Sight};
use super::super::plan::{KUBERNETES, Step, TERMINATING, plan};

/// The time of the namespace's deletion, in seconds.
const DELETED: i64 = 1_000;

/// The objects of one kind.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub verbs: Verbs,
    pub is_unseen: bool,
    pub objects: Vec<Meta>,
    /// The error of each call.
    pub error: Option<&'static str>,
    /// Whether the API server answers that it does not know the kind any more.
    pub is_undefined: bool,
}

/// The API server.
pub(super) struct World {
    pub namespace: Namespace,
    pub kinds: BTreeMap<GroupVersionResource, Objects>,
    pub undiscovered: Option<Undiscovered>,
    /// The number of writes of the namespace that the API server refuses, because another client writes first.
    pub conflicts: usize,
    /// Seconds since the namespace's deletion.
    pub since: i64,
}

/// How a sync ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// The namespace comes again after so many seconds.
    Again(u64),
    Failed(String),
}

pub(super) fn kind(name: &str) -> GroupVersionResource {
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    GroupVersionResource::new(group, "v1", resource)
}

/// An object that goes when it is deleted, unless it has finalizers.
pub(super) fn object(name: &str, finalizers: &[&str]) -> Meta {
    Meta {
        key: ObjectKey::new("team", name),
        finalizers: finalizers.iter().map(|finalizer| (*finalizer).into()).collect(),
        ..Meta::default()
    }
}

/// A pod that takes so many seconds to end.
pub(super) fn pod(name: &str, grace: i64) -> Meta {
    Meta { deletion: ends_after(grace), ..object(name, &[]) }
}

/// A deletion with a grace period of so many seconds.
pub(super) fn ends_after(grace: i64) -> Option<Box<steersman_api::Deletion>> {
    Some(Box::new(steersman_api::Deletion { at: Time::from_seconds(DELETED + grace), grace: Some(grace) }))
}

impl World {
    /// A namespace with objects of these kinds.
    pub(super) fn with<const N: usize>(kinds: [(&str, Vec<Meta>); N]) -> Self {
        let verbs = Verbs { delete_collection: true, list: true };
        let objects =
            |objects| Objects { verbs, is_unseen: false, objects, error: None, is_undefined: false };
        let namespace = Namespace {
            meta: Meta {
                key: ObjectKey::cluster("team"),
                uid: "1".into(),
                deletion: steersman_api::Deletion::at(Time::from_seconds(DELETED)),
                ..Meta::default()
            },
            finalizers: vec![KUBERNETES.into()],
            status: Status { phase: TERMINATING.into(), ..Status::default() },
        };
        Self {
            namespace,
            kinds: kinds.into_iter().map(|(name, all)| (kind(name), objects(all))).collect(),
            undiscovered: None,
            conflicts: 0,
            since: 5,
        }
    }

    pub(super) fn kind(&mut self, name: &str) -> &mut Objects {
        self.kinds.get_mut(&kind(name)).unwrap()
    }

    /// Syncs the namespace. Returns the steps, and how the sync ended.
    pub(super) fn sync(&mut self) -> (Vec<String>, Ended) {
        let (mut deletion, mut steps) = (Deletion::default(), Vec::new());
        for _ in 0..100 {
            let batch = match plan(&deletion, Time::from_seconds(DELETED + self.since)) {
                Plan::Act(batch) => batch,
                Plan::Done { requeue_after: None } => return (steps, Ended::Done),
                Plan::Done { requeue_after: Some(after) } => return (steps, Ended::Again(after.as_secs())),
            };
            let results: Vec<_> = batch.steps.iter().map(|step| self.act(step)).collect();
            for (step, result) in batch.steps.into_iter().zip(results) {
                steps.push(name(&step));
                match result {
                    Ok(outcome) => deletion.absorb(&step, StepResult::Done(outcome)),
                    Err(error) => return (steps, Ended::Failed(error)),
                }
            }
        }
        panic!("the sync does not end: {steps:?}")
    }

    /// The message of a condition, if it holds.
    pub(super) fn condition(&self, kind: &str) -> Option<&str> {
        let conditions = self.namespace.status.conditions.iter();
        let mut true_ones = conditions.filter(|condition| condition.status.as_str() == "True");
        true_ones.find(|condition| condition.kind == kind).map(|condition| condition.message.as_str())
    }

    fn found(&self) -> Sight {
        Sight::Found(Box::new(self.namespace.clone()))
    }

    fn write(&mut self, change: impl FnOnce(&mut Namespace)) -> Outcome {
        Outcome::Namespace(if self.conflicts > 0 {
            self.conflicts -= 1;
            Sight::Unread(Some(self.namespace.meta.uid.clone()))
        } else {
            change(&mut self.namespace);
            self.found()
        })
    }

    fn act(&mut self, step: &Step) -> Result<Outcome, String> {
        Ok(match step {
            Step::Read => Outcome::Namespace(self.found()),
            Step::WritePhase(status) | Step::WriteConditions(status) => {
                self.write(|namespace| namespace.status = status.clone())
            }
            Step::Discover => {
                let content = |(kind, objects): (&GroupVersionResource, &Objects)| {
                    (kind.clone(), Content::new(objects.verbs, objects.is_unseen))
                };
                let kinds = self.kinds.iter().map(content).collect();
                Outcome::Discovered(Contents { kinds, undiscovered: self.undiscovered.clone() })
            }
            Step::DeleteAll(kind) | Step::DeleteEach(kind) | Step::Count(kind) => {
                let objects = self.kinds.get_mut(kind).unwrap();
                Outcome::Called(kind.clone(), objects.call(step))
            }
            Step::Finalize => {
                match self.write(|namespace| namespace.finalizers.retain(|one| one != KUBERNETES)) {
                    Outcome::Namespace(Sight::Found(_)) => Outcome::Namespace(Sight::Gone),
                    outdated => outdated,
                }
            }
            Step::Fail(error) => return Err(error.clone()),
        })
    }
}

impl Objects {
    fn call(&mut self, step: &Step) -> Called {
        match (step, self.error) {
            (_, Some(error)) => Called::Failed(error.to_owned()),
            (Step::DeleteAll(_), _) if self.is_undefined => Called::Unsupported,
            (Step::Count(_), _) => {
                let mut left = Leftover::default();
                self.objects.iter().for_each(|object| left.add(object));
                Called::Counted(left)
            }
            _ => {
                self.objects
                    .retain(|object| !object.finalizers.is_empty() || object.deletion_grace().is_some());
                Called::Deleted
            }
        }
    }
}

/// A step as the tables write it.
fn name(step: &Step) -> String {
    match step {
        Step::Read => "read".to_owned(),
        Step::WritePhase(_) => "phase".to_owned(),
        Step::Discover => "discover".to_owned(),
        Step::DeleteAll(kind) => format!("delete {kind}"),
        Step::DeleteEach(kind) => format!("delete each of {kind}"),
        Step::Count(kind) => format!("count {kind}"),
        Step::WriteConditions(_) => "conditions".to_owned(),
        Step::Finalize => "finalize".to_owned(),
        Step::Fail(_) => "fail".to_owned(),
    }
}
