//! Decides whether a job ends, and how.

use std::time::Duration;

use arcstr::literal;
use steersman_api::condition::find;
use steersman_api::{ArcStr, Time};

use super::failure_policy::{Explained, FailureAction};
use super::observed::Observed;
use super::pods::Phase;
use super::status::conditions;
use super::tally::Tally;
use super::wanted::{Completions, Restarts};

/// How a job ends. The controller first sets an interim condition (`SuccessCriteriaMet` or `FailureTarget`). It sets the
/// final condition (`Complete` or `Failed`) once all pods of the job are counted, and have finished or are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) end: End,
    /// The reason of both conditions.
    pub(super) reason: ArcStr,
    /// The message of both conditions.
    pub(super) message: ArcStr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Failure,
}

impl End {
    /// The type of the interim condition.
    pub(super) fn interim(self) -> &'static str {
        match self {
            Self::Success => conditions::SUCCESS_CRITERIA_MET,
            Self::Failure => conditions::FAILURE_TARGET,
        }
    }

    /// The type of the final condition.
    pub(super) fn terminal(self) -> &'static str {
        match self {
            Self::Success => conditions::COMPLETE,
            Self::Failure => conditions::FAILED,
        }
    }
}

/// The verdict that does not wait for running pods: one that the status already has, a failure, or a success by the job's
/// success policy. The controller then deletes all active pods.
pub(super) fn early(observed: &Observed, tally: &Tally<'_>, now: Time) -> Option<Verdict> {
    for end in [End::Success, End::Failure] {
        let kind = end.interim();
        if observed.job.status.holds(kind) {
            let given = find(&observed.job.status.conditions, kind)?;
            return Some(Verdict { end, reason: given.reason.clone(), message: given.message.clone() });
        }
    }
    let failure = |reason, message| Some(Verdict { end: End::Failure, reason, message });
    if let Some(message) = fail_job_message(observed) {
        return failure(literal!("PodFailurePolicy"), message);
    }
    if tally.failed > observed.job.wanted.backoff_limit || too_many_restarts(observed) {
        return failure(
            literal!("BackoffLimitExceeded"),
            literal!("Job has reached the specified backoff limit"),
        );
    }
    if time_left(observed, now) == Some(Duration::ZERO) {
        return failure(
            literal!("DeadlineExceeded"),
            literal!("Job was active longer than specified deadline"),
        );
    }
    of_indexes(observed, tally)
}

/// The message of the first failed pod for which the pod failure policy lets the whole job fail.
fn fail_job_message(observed: &Observed) -> Option<ArcStr> {
    let policy = observed.job.wanted.failure_policy.as_ref()?;
    let mut failed = observed.owned().filter(|pod| pod.phase == Phase::Failed);
    failed.find_map(|pod| {
        let matched = policy.matching(&pod.failure)?;
        let namespace = &observed.job.meta.key.namespace;
        let explained = Explained { matched: &matched, namespace, pod: &pod.name };
        (matched.action == FailureAction::FailJob).then(|| explained.to_string().into())
    })
}

/// The verdict on an indexed job that follows from which of its indexes have failed, and which have succeeded.
fn of_indexes(observed: &Observed, tally: &Tally<'_>) -> Option<Verdict> {
    let wanted = &observed.job.wanted;
    let Completions::Indexes(completions) = wanted.completions else { return None };
    let failure = |reason, message| Some(Verdict { end: End::Failure, reason, message });
    let failed = tally.failed_indexes.total();
    if wanted.per_index.and_then(|limits| limits.max_failed).is_some_and(|most| failed > most) {
        return failure(
            literal!("MaxFailedIndexesExceeded"),
            literal!("Job has exceeded the specified maximal number of failed indexes"),
        );
    }
    if failed > 0 && failed + tally.indexes.total() >= completions {
        return failure(literal!("FailedIndexes"), literal!("Job has failed indexes"));
    }
    let rule = wanted.success_policy.as_ref()?.met(&tally.indexes)?;
    Some(Verdict {
        end: End::Success,
        reason: literal!("SuccessPolicy"),
        message: format!("Matched rules at index {rule}").into(),
    })
}

/// The verdict of success: enough pods have succeeded, and none is active.
pub(super) fn complete(observed: &Observed, tally: &Tally<'_>) -> Option<Verdict> {
    let enough = match observed.job.wanted.completions {
        Completions::Any => tally.succeeded > 0,
        Completions::Count(count) | Completions::Indexes(count) => tally.succeeded >= count,
    };
    (enough && tally.active.is_empty()).then(|| Verdict {
        end: End::Success,
        reason: literal!("CompletionsReached"),
        message: literal!("Reached expected number of succeeded pods"),
    })
}

/// The time that the job may still be active; `None` if it has no deadline or is suspended.
pub(super) fn time_left(observed: &Observed, now: Time) -> Option<Duration> {
    let wanted = &observed.job.wanted;
    let deadline = wanted.active_deadline.filter(|_| !wanted.suspended)?;
    let start = observed.job.status.start_time.unwrap_or(now);
    Some(deadline.saturating_sub(now.since(start)))
}

/// Whether restarts of containers exceed the backoff limit. They count as failed pods do.
fn too_many_restarts(observed: &Observed) -> bool {
    if observed.job.wanted.restarts == Restarts::Never {
        return false;
    }
    let unfinished = observed.owned().filter(|pod| matches!(pod.phase, Phase::Pending | Phase::Running));
    let restarts: usize = unfinished.map(|pod| super::size(pod.restarts)).sum();
    restarts >= observed.job.wanted.backoff_limit.max(1)
}
