//! Budgets and pods in, steps out.

use std::collections::HashMap;

use steersman_api::condition::ConditionStatus;
use steersman_api::{Deletion, Meta, ObjectKey, OwnerReference, ResourceVersion, Time};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::wire::IntOrString;

use super::budget::{Bound, Budget};
use super::observed::{Done, Observed, Replicas};
use super::owners::{Owner, Scale};
use super::plan::{Outcome, Step, plan};
use super::pods::Pod;
use super::status::{Condition, DISRUPTION_ALLOWED, Status};

mod budgets;
mod model;
mod owners;
mod selecting;
mod stale;

const NOW: i64 = 1_000_000;

fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

fn now() -> Time {
    ago(0)
}

/// A ready pod without an owner.
fn pod(name: &str) -> Pod {
    let meta = Meta { key: ObjectKey::new("ns", name), uid: name.into(), ..Meta::default() };
    Pod { meta, ready: true, owner: Owner::Unmanaged }
}

impl Pod {
    /// The same pod, of an owner with that number of replicas.
    fn of(self, owner: &str, replicas: i32) -> Self {
        Self { owner: Owner::Scaled(Scale { uid: owner.into(), replicas }), ..self }
    }

    /// The same pod, of an owner whose scale is not cached.
    fn of_foreign(self, owner: &str) -> Self {
        Self { owner: Owner::Foreign(foreign(owner)), ..self }
    }

    fn unready(self) -> Self {
        Self { ready: false, ..self }
    }

    fn deleting(mut self) -> Self {
        self.meta.deletion = Deletion::at(now());
        self
    }
}

fn foreign(name: &str) -> OwnerReference {
    OwnerReference::controller("example.com/v1", "Widget", name, name.into())
}

fn min(number: i32) -> Bound {
    Bound::MinAvailable(IntOrString::Int(number))
}

fn min_percent(text: &str) -> Bound {
    Bound::MinAvailable(IntOrString::String(text.into()))
}

fn max(number: i32) -> Bound {
    Bound::MaxUnavailable(IntOrString::Int(number))
}

fn max_percent(text: &str) -> Bound {
    Bound::MaxUnavailable(IntOrString::String(text.into()))
}

/// A budget of generation 3 that no controller has seen yet, with these pods.
fn observed(bound: Bound, pods: Vec<Pod>) -> Observed {
    let meta = Meta {
        key: ObjectKey::new("ns", "budget"),
        generation: 3,
        resource_version: ResourceVersion(10),
        ..Meta::default()
    };
    let budget = Budget { meta, bound, ..Budget::default() };
    let (versions, foreign) = ((ResourceVersion(10), ResourceVersion(10)), HashMap::new());
    Observed {
        budget,
        pods: Ok(pods),
        pods_version: versions.0,
        agreed_at: versions.1,
        foreign,
        done: Done::default(),
    }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, now()) {
        Plan::Act(batch) => batch.steps,
        Plan::Done { requeue_after } => {
            assert_eq!(requeue_after, None);
            Vec::new()
        }
    }
}

/// The status that the first batch of steps writes.
fn written(observed: &Observed) -> Option<Status> {
    steps(observed).into_iter().find_map(|step| match step {
        Step::WriteStatus(status) => Some(*status),
        _ => None,
    })
}

/// The reasons and messages of the events that the first batch of steps records.
fn events(observed: &Observed) -> Vec<(&'static str, String)> {
    let event = |step| match step {
        Step::Record(notice) => {
            let (_, reason, message) = notice.event(&observed.budget.meta.key);
            Some((reason, message))
        }
        _ => None,
    };
    steps(observed).into_iter().filter_map(event).collect()
}

/// Allowed disruptions, healthy, desired and expected pods.
fn numbers(status: &Status) -> [i32; 4] {
    [status.disruptions_allowed, status.current_healthy, status.desired_healthy, status.expected_pods]
}

fn condition(status: &Status) -> (ConditionStatus, &str, &str) {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|condition| condition.kind == DISRUPTION_ALLOWED).unwrap();
    (condition.status, &condition.reason, &condition.message)
}

fn disrupted(status: &Status) -> Vec<&str> {
    status.disrupted_pods.keys().map(|pod| &**pod).collect()
}
