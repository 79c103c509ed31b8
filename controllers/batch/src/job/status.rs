//! A job's status, and its writes.

use serde::Serialize;
use steersman_api::condition::{self, ConditionStatus, is_true};
use steersman_api::{ArcStr, Meta, Time, Uid};

use super::backoff::Backoff;
use super::failure_policy::FailureAction;
use super::plan::Rest;
use steersman_controller::client::StatusChange;
use steersman_kinds::job::{JobStatus, UncountedTerminatedPods};

/// The part of a job's status that its controller writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The conditions, at most one of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When the job became active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Pods that are neither finished nor being deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i32,
    /// Active pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// Pods that are being deleted and have not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Pods (of an indexed job: indexes) that succeeded and are no longer in `uncounted`.
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    /// Pods that failed and are no longer in `uncounted`.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    /// The indexes that succeeded, as `Indexes` formats them.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub completed_indexes: ArcStr,
    /// The indexes that failed, as `Indexes` formats them. `None` unless the job limits the failures of each index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<ArcStr>,
    /// Finished pods that are not in the counters, because they may still have their finalizers.
    #[serde(rename = "uncountedTerminatedPods", skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<Uncounted>,
}

/// Finished pods by their uids.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Uncounted {
    /// The pods that succeeded. Empty for an indexed job, which has `completed_indexes` instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<Uid>,
    /// The pods that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Uid>,
}

/// One of a job's conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Complete`.
    #[serde(rename = "type")]
    pub kind: ArcStr,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// When the controller last changed the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// The same time, as upstream sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why the status is what it is: one word, for programs.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub reason: ArcStr,
    /// The same in a sentence, for people.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub message: ArcStr,
}

impl condition::Entry for Condition {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn status(&self) -> &str {
        self.status.as_str()
    }

    fn keep_transition_time(&mut self, old: &Self) {
        self.last_transition_time = old.last_transition_time;
    }
}

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// The stored status.
    pub was: Status,
    /// The new status.
    pub is: Status,
    /// The job's back-off once the status is written.
    pub backoff: Backoff,
    /// The events to record then.
    pub announcements: Vec<Announcement>,
    /// For each pod that the status now counts by a rule of the pod failure policy: the rule's action.
    pub(super) handled: Vec<FailureAction>,
    /// The rest of the sync once the status is written.
    pub(super) rest: Rest,
}

/// An event about the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// The job was suspended, and has no pods any more.
    Suspended,
    /// The job was resumed.
    Resumed,
    /// More pods have succeeded than the job needs.
    TooManySucceededPods,
    /// The job is complete, for this reason.
    Complete(ArcStr),
    /// The job has failed, for this reason and with this message.
    Failed(ArcStr, ArcStr),
}

/// The types of conditions.
pub(super) mod conditions {
    pub(in crate::job) const SUSPENDED: &str = "Suspended";
    pub(in crate::job) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
    pub(in crate::job) const COMPLETE: &str = "Complete";
    pub(in crate::job) const FAILURE_TARGET: &str = "FailureTarget";
    pub(in crate::job) const FAILED: &str = "Failed";
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl Status {
    /// Reads the status of a job from the cache or from the API server.
    pub fn of(status: &JobStatus) -> Self {
        let condition = |condition: &steersman_kinds::job::JobCondition| Condition {
            kind: condition.kind.as_arc().clone(),
            status: condition.status,
            last_probe_time: condition.last_probe_time,
            last_transition_time: condition.last_transition_time,
            reason: condition.reason.as_arc().clone(),
            message: condition.message.clone(),
        };
        let uncounted = |UncountedTerminatedPods { succeeded, failed }: &_| Uncounted {
            succeeded: Vec::clone(succeeded),
            failed: Vec::clone(failed),
        };
        Self {
            conditions: status.conditions.iter().map(condition).collect(),
            start_time: status.start_time,
            completion_time: status.completion_time,
            active: status.active,
            ready: status.ready,
            terminating: status.terminating,
            succeeded: status.succeeded,
            failed: status.failed,
            completed_indexes: status.completed_indexes.clone(),
            failed_indexes: status.failed_indexes.clone(),
            uncounted: status.uncounted_terminated_pods.as_ref().map(uncounted),
        }
    }

    /// Whether the job is complete or has failed.
    pub fn is_finished(&self) -> bool {
        self.holds(conditions::COMPLETE) || self.holds(conditions::FAILED)
    }

    /// Whether the status has the condition with the status `True`.
    pub(super) fn holds(&self, kind: &str) -> bool {
        is_true(&self.conditions, kind)
    }

    /// The uids of finished pods that are not in the counters: of those that succeeded, and of those that failed.
    pub(super) fn uncounted(&self) -> (&[Uid], &[Uid]) {
        self.uncounted.as_ref().map_or((&[], &[]), |uncounted| (&uncounted.succeeded, &uncounted.failed))
    }

    /// Sets a condition, and returns whether that changed the list. Appends no condition whose status is `False`.
    ///
    /// The rules are those of upstream's `ensureJobConditionStatus`, which differ from those of [`condition::set`]: whatever
    /// changes (the status, the reason or the message), both times become `now`.
    pub(super) fn ensure(
        &mut self,
        kind: &str,
        status: ConditionStatus,
        (reason, message): (&ArcStr, &ArcStr),
        now: Time,
    ) -> bool {
        let new = Condition {
            kind: kind.into(),
            status,
            last_probe_time: Some(now),
            last_transition_time: Some(now),
            reason: reason.clone(),
            message: message.clone(),
        };
        match self.conditions.iter_mut().find(|condition| condition.kind == kind) {
            Some(old) if (old.status, &old.reason, &old.message) == (status, reason, message) => false,
            Some(old) => {
                *old = new;
                true
            }
            None if status == ConditionStatus::False => false,
            None => {
                self.conditions.push(new);
                true
            }
        }
    }
}

impl StatusWrite {
    /// The change of the status of the job with this metadata. `None` if nothing changes.
    pub fn change(&self, job: &Meta) -> Option<StatusChange> {
        StatusChange::between(job, &self.was, &self.is)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_api::ResourceVersion;

    use super::*;

    #[test]
    fn a_change_has_the_members_that_differ_and_no_others() {
        let (a, b) = (Uid::from("a"), Uid::from("b"));
        let was = Status {
            active: 2,
            start_time: Some(Time::from_seconds(0)),
            ready: Some(1),
            succeeded: 3,
            uncounted: Some(Uncounted { succeeded: vec![a.clone()], failed: vec![b.clone()] }),
            ..Status::default()
        };
        let is = Status {
            active: 0,
            start_time: None,
            terminating: Some(0),
            uncounted: Some(Uncounted { succeeded: Vec::new(), failed: vec![b, a] }),
            ..was.clone()
        };
        let write = StatusWrite {
            was,
            is,
            backoff: Backoff::default(),
            announcements: Vec::new(),
            handled: Vec::new(),
            rest: Rest::default(),
        };
        let job = Meta { uid: "u".into(), resource_version: ResourceVersion(7), ..Meta::default() };
        assert_eq!(
            write.change(&job).unwrap().patch(),
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7"},
                "status": {
                    "active": null, "startTime": null, "terminating": 0,
                    "uncountedTerminatedPods": {"succeeded": null, "failed": ["b", "a"]},
                },
            })
        );
    }

    #[test]
    fn a_condition_is_appended_only_if_true_and_changed_only_if_it_differs() {
        let mut status = Status::default();
        let words = |reason: &str| (ArcStr::from(reason), ArcStr::from("message"));
        let mut ensure = |reason, holds, seconds| {
            let (reason, message) = words(reason);
            status.ensure("Suspended", holds, (&reason, &message), Time::from_seconds(seconds))
        };
        assert!(!ensure("JobResumed", ConditionStatus::False, 1));
        assert!(ensure("JobSuspended", ConditionStatus::True, 2));
        assert!(!ensure("JobSuspended", ConditionStatus::True, 3));
        assert!(ensure("JobResumed", ConditionStatus::False, 4));
        assert_eq!(status.conditions.len(), 1);
        assert_eq!(
            serde_json::to_value(&status.conditions[0]).unwrap(),
            json!({
                "type": "Suspended", "status": "False", "reason": "JobResumed", "message": "message",
                "lastProbeTime": "1970-01-01T00:00:04Z", "lastTransitionTime": "1970-01-01T00:00:04Z",
            })
        );
    }
}
