//! Objects in, plan out. A whole sync is told as a list of lines, one for each batch of steps, under the assumption that all
//! of them succeed.

use std::sync::OnceLock;
use std::time::Duration;

use steersman_api::condition::ConditionStatus;
use steersman_api::{Meta, ObjectKey, ResourceVersion, Time, Uid};
use steersman_informer::wire::Opaque;

use super::backoff::Backoff;
use super::observed::{Done, Job, Observed, Places, Suspension};
use super::plan::{Outcome, Step, decide};
use super::pods::{Deletion, Phase, Pod};
use super::status::{Condition, Status, Uncounted};
use super::wanted::{Completions, Restarts, Wanted};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_kinds::index_failures::IndexFailures;
use steersman_kinds::pod_failure::PodFailure;

mod actions;
mod claims;
mod ending;
mod failure_policy;
mod indexed;
mod making_pods;
mod observing;
mod per_index;
mod refusals;
mod replacing;
mod simulation;
mod success_policy;
mod suspending;
mod tracking;

/// When a job of these tests began.
fn start() -> Time {
    second(0)
}

/// When its plans are made.
fn now() -> Time {
    second(1_000)
}

fn second(at: i64) -> Time {
    Time::from_seconds(at)
}

/// A job that has begun, wants one pod to succeed, and has none.
fn job() -> Observed {
    Observed {
        job: Job {
            meta: Meta {
                key: ObjectKey::new("ns", "pi"),
                uid: Uid::from("job"),
                resource_version: ResourceVersion(1),
                ..Meta::default()
            },
            managed_by_other: None,
            wanted: Wanted {
                parallelism: 1,
                completions: Completions::Count(1),
                backoff_limit: 6,
                ..Wanted::default()
            },
            status: Status {
                start_time: Some(start()),
                ready: Some(0),
                terminating: Some(0),
                uncounted: Some(Uncounted::default()),
                ..Status::default()
            },
            template: Opaque::default(),
        },
        refusal: None,
        pods: Vec::new(),
        backoff: Backoff::default(),
        grounds: Grounds::Sure,
        suspension: Suspension::ClearsStartTime,
        done: Done::default(),
        rest: None,
        action: OnceLock::new(),
        places: Places::default(),
    }
}

impl Observed {
    fn parallel(mut self, parallelism: usize) -> Self {
        self.job.wanted.parallelism = parallelism;
        self
    }

    fn completions(mut self, completions: Completions) -> Self {
        self.job.wanted.completions = completions;
        self
    }

    fn wanting(mut self, change: impl FnOnce(&mut Wanted)) -> Self {
        change(&mut self.job.wanted);
        self
    }

    fn status(mut self, change: impl FnOnce(&mut Status)) -> Self {
        change(&mut self.job.status);
        self
    }

    fn condition(self, kind: &str, status: ConditionStatus, reason: &str) -> Self {
        let condition = Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: "before".into(),
            ..Condition::default()
        };
        self.status(|status| status.conditions.push(condition))
    }

    fn with(mut self, pods: impl IntoIterator<Item = Pod>) -> Self {
        self.pods.extend(pods);
        self
    }

    /// As if the status were that of these pods, which have just been made.
    fn settled(self) -> Self {
        let active = super::count(self.owned().filter(|pod| pod.is_active()).count());
        let terminating = super::count(self.owned().filter(|pod| pod.is_terminating()).count());
        self.status(|status| (status.active, status.terminating) = (active, Some(terminating)))
    }
}

/// A pod of the job, running since it was made.
fn pod(name: &str) -> Pod {
    Pod {
        name: name.into(),
        uid: name.into(),
        claim: Claim::Owned,
        phase: Phase::Running,
        deletion: Deletion::No,
        tracked: true,
        ready: None,
        scheduled: true,
        max_restarts: (0, 0),
        restarts: 0,
        created: Some(start()),
        finished_at: start(),
        index: None,
        earlier: IndexFailures::default(),
        failure: PodFailure::default(),
    }
}

impl Pod {
    fn phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    fn succeeded(self) -> Self {
        self.phase(Phase::Succeeded)
    }

    fn failed(self) -> Self {
        self.phase(Phase::Failed)
    }

    fn finished_at(self, at: Time) -> Self {
        Self { finished_at: at, ..self }
    }

    fn deleting(self) -> Self {
        Self { deletion: Deletion::Asked, ..self }
    }

    fn untracked(self) -> Self {
        Self { tracked: false, ..self }
    }

    fn ready(self) -> Self {
        Self { ready: Some(None), ..self }
    }

    fn index(self, index: u32) -> Self {
        Self { index: Some(index), ..self }
    }

    /// As a pod of an index that has failed that often before, and of those failures that many were ignored.
    fn after(self, counted: u32, ignored: u32) -> Self {
        Self { earlier: IndexFailures { counted, ignored }, ..self }
    }

    fn exit_code(mut self, container: &str, code: i32) -> Self {
        self.failure.add_exit_code(container, code);
        self.failed()
    }

    fn condition(mut self, kind: &str, status: ConditionStatus) -> Self {
        self.failure.add_condition(kind, status);
        self
    }

    fn claim(self, claim: Claim) -> Self {
        Self { claim, ..self }
    }
}

/// Plans as the controller does.
fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    let decision = decide(observed, now);
    if let Some(action) = decision.action {
        observed.action.get_or_init(|| action);
    }
    decision.plan
}

/// Carries a sync out, and tells of it.
fn story(observed: &mut Observed) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..20 {
        match plan(observed, now()) {
            Plan::Done { requeue_after: None } => return lines,
            Plan::Done { requeue_after: Some(after) } => {
                lines.push(format!("again after {}", seconds(after)));
                return lines;
            }
            Plan::Act(batch) => {
                lines.push(describe(&batch.steps));
                for (at, step) in batch.steps.into_iter().enumerate() {
                    let result = StepResult::Done(success(&step, observed, at));
                    observed.absorb(step, result);
                }
            }
        }
    }
    panic!("the plan comes to no end: {lines:#?}");
}

fn told(mut observed: Observed) -> Vec<String> {
    story(&mut observed)
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}

fn success(step: &Step, observed: &Observed, at: usize) -> Outcome {
    match step {
        Step::Create { index, earlier, .. } => {
            let name = format!("new-{}-{at}", observed.pods.len());
            let earlier = earlier.unwrap_or_default();
            Outcome::Created(Box::new(Pod { index: *index, earlier, ..pod(&name).phase(Phase::Pending) }))
        }
        Step::WriteStatus(_) => Outcome::Written(ResourceVersion(observed.job.meta.resource_version.0 + 1)),
        Step::Confirm => {
            Outcome::Reread(Some(Box::new(Observed { grounds: Grounds::Sure, ..observed.clone() })))
        }
        _ => Outcome::Done,
    }
}

/// `discard a b`, `create 3`, `create 0 2(1+0)` (indexes, with earlier failures that count and that do not), `write active=1 +Suspended=True(JobSuspended)`.
fn describe(steps: &[Step]) -> String {
    let names = |steps: &[Step]| -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Adopt(pod)
            | Step::Disown(pod)
            | Step::Discard(pod)
            | Step::Delete(pod)
            | Step::Release(pod) => pod.name.to_string(),
            Step::Ignore(pod) => format!("{}(ignored)", pod.name),
            Step::Create { index: Some(index), earlier: Some(earlier), .. } if earlier.total() > 0 => {
                format!("{index}({}+{})", earlier.counted, earlier.ignored)
            }
            Step::Create { index: Some(index), .. } => index.to_string(),
            _ => String::new(),
        };
        steps.iter().map(name).collect()
    };
    let verb = match &steps[0] {
        Step::Refuse(refusal) => return format!("refuse {}: {refusal}", refusal.reason()),
        Step::Confirm => return "confirm".to_owned(),
        Step::CheckAlive => return "check alive".to_owned(),
        Step::WriteStatus(write) => return describe_write(write),
        Step::Create { index: None, .. } => return format!("create {}", steps.len()),
        Step::Create { .. } => "create",
        Step::Adopt(_) => "adopt",
        Step::Disown(_) => "disown",
        Step::Discard(_) => "discard",
        Step::Delete(_) => "delete",
        Step::Release(_) | Step::Ignore(_) => "release",
    };
    if steps.len() > 9 {
        return format!("{verb} {} of them", steps.len());
    }
    format!("{verb} {}", names(steps).join(" "))
}

fn describe_write(write: &super::status::StatusWrite) -> String {
    let mut words = vec!["write".to_owned()];
    let patch = write.change(&Meta::default()).unwrap().patch();
    for (name, value) in patch["status"].as_object().unwrap() {
        match value {
            serde_json::Value::Array(_) => {
                for condition in write.is.conditions.iter().filter(|c| !write.was.conditions.contains(c)) {
                    let Condition { kind, status, reason, .. } = condition;
                    words.push(format!("{kind}={}({reason})", status.as_str()));
                }
            }
            serde_json::Value::Object(lists) => {
                for (list, uids) in lists {
                    let uids = uids.as_array().map(|uids| {
                        let uids: Vec<_> = uids.iter().map(|uid| uid.as_str().unwrap()).collect();
                        if uids.len() > 9 { format!("{} of them", uids.len()) } else { uids.join(" ") }
                    });
                    words.push(format!("{list}:[{}]", uids.unwrap_or_default()));
                }
            }
            serde_json::Value::String(text) => words.push(format!("{name}={text}")),
            serde_json::Value::Null => words.push(format!("-{name}")),
            value => words.push(format!("{name}={value}")),
        }
    }
    words.extend(write.announcements.iter().map(|announcement| format!("say {announcement:?}")));
    words.join(" ")
}
