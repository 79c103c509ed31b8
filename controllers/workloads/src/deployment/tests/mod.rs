//! Tables of policy: a Deployment and its ReplicaSets in, steps out.

mod annotations;
mod creation;
mod flow;
mod history;
mod new_set;
mod progress;
mod recreate;
mod rollback;
mod rolling;
mod safety;
mod scaling;
mod status;

use std::time::Duration;

use steersman_api::{ArcStr, Meta, ObjectKey, ResourceVersion, Time};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::Plan;
use steersman_informer::wire::{IntOrString, Opaque};
use steersman_kinds::selector::SelectorSpec;

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use super::observed::{Done, Observed};
use super::owner::{Deployment, Strategy};
use super::plan::{Step, WriteStatus, plan};
use super::replica_set::{ReplicaSet, SetRef, SetStatus};
use super::status::Status;

const NOW: i64 = 1_000_000;

fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

fn now() -> Time {
    ago(0)
}

fn int_or_string(text: &str) -> IntOrString {
    text.parse().map_or_else(|_| IntOrString::String(text.into()), IntOrString::Int)
}

/// A strategy with these bounds, in numbers or percent.
fn rolling(max_surge: &str, max_unavailable: &str) -> Strategy {
    Strategy::RollingUpdate {
        max_surge: int_or_string(max_surge),
        max_unavailable: int_or_string(max_unavailable),
    }
}

/// A Deployment named `web` that rolls with a surge of one, has a history limit of 10 and no progress deadline.
fn web(replicas: i32) -> Deployment {
    let key = ObjectKey::new("ns", "web");
    Deployment {
        meta: Meta { key, uid: "web".into(), generation: 3, ..Meta::default() },
        annotations: [(REVISION, "1")].into_iter().collect(),
        replicas,
        strategy: rolling("1", "0"),
        min_ready_seconds: 0,
        history_limit: Some(10),
        progress_deadline: None,
        paused: false,
        selector: SelectorSpec {
            match_labels: [("app", "web")].into_iter().collect(),
            match_expressions: Vec::new(),
        },
        template: Opaque::None,
        status: Status::default(),
    }
}

/// An old ReplicaSet that has all of its pods, all available, as after a sync with these numbers of the Deployment.
fn set(name: &str, replicas: i32) -> ReplicaSet {
    ReplicaSet {
        reference: SetRef {
            key: ObjectKey::new("ns", name),
            uid: name.into(),
            version: ResourceVersion::parse("1").unwrap(),
        },
        generation: 1,
        created: Some(ago(100)),
        deleting: false,
        claim: Claim::Owned,
        annotations: [(REVISION, "1")].into_iter().collect(),
        replicas,
        min_ready_seconds: 0,
        has_template: false,
        runs_pods: false,
        status: SetStatus {
            replicas,
            ready: replicas,
            available: replicas,
            terminating: Some(0),
            observed_generation: 1,
            failure: None,
        },
    }
}

impl ReplicaSet {
    /// With the Deployment's template.
    fn updated(self) -> Self {
        Self { has_template: true, ..self }
    }

    /// With only so many pods available.
    fn available_are(mut self, available: i32) -> Self {
        self.status.available = available;
        self.status.ready = available;
        self
    }

    fn revision_is(mut self, revision: &str) -> Self {
        self.annotations.insert(REVISION.into(), revision.into());
        self
    }

    fn age(self, seconds: i64) -> Self {
        Self { created: Some(ago(seconds)), ..self }
    }

    /// As scaled when the Deployment had these numbers.
    fn sized_for(mut self, desired: i32, max: i32) -> Self {
        self.annotations.insert(DESIRED_REPLICAS.into(), desired.to_string().into());
        self.annotations.insert(MAX_REPLICAS.into(), max.to_string().into());
        self
    }
}

fn observed(deployment: Deployment, mut sets: Vec<ReplicaSet>) -> Observed {
    sets.sort_by(ReplicaSet::age_order);
    let done = Done { hash: Some("hash".into()), ..Done::default() };
    Observed { deployment, sets, grounds: Grounds::Sure, counts_terminating: true, done }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, now()) {
        Plan::Act(batch) => batch.steps,
        Plan::Done { .. } => Vec::new(),
    }
}

/// The sizes that the next steps give ReplicaSets, by name. Empty if the next step does not scale.
fn sizes(observed: &Observed) -> Vec<(ArcStr, i32)> {
    let size = |step| match step {
        Step::Scale(scale) => Some((scale.set.key.name, scale.to)),
        _ => None,
    };
    steps(observed).into_iter().filter_map(size).collect()
}

/// The status that the next step writes.
fn written(observed: &Observed) -> Status {
    match steps(observed).pop() {
        Some(Step::WriteStatus(WriteStatus { status, .. })) => status,
        other => panic!("{other:?}"),
    }
}

fn requeue_after(observed: &Observed) -> Option<Duration> {
    match plan(observed, now()) {
        Plan::Done { requeue_after } => requeue_after,
        Plan::Act(batch) => panic!("{batch:?}"),
    }
}
