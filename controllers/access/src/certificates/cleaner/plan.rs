//! Which requests can go.

use std::fmt;
use std::time::Duration;

use steersman_api::{ObjectKey, Time, Uid};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_informer::View;
use steersman_kinds::certificate_signing_request::{APPROVED, DENIED, FAILED, RequestStatus};

use super::CleanableRequest;

/// Maximum number of concurrent calls. The client's own rate limit is much narrower.
const MAX_CONCURRENT_CALLS: usize = 20;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long requests stay after they were approved and signed. Upstream: `approvedExpiration`.
const APPROVED_EXPIRATION: Duration = HOUR;
/// How long requests stay after they were denied or refused. Upstream: `deniedExpiration`.
const DENIED_EXPIRATION: Duration = HOUR;
/// How long requests wait for a decision, and after it for a certificate. Upstream: `pendingExpiration`.
const PENDING_EXPIRATION: Duration = HOUR.saturating_mul(24);

/// The requests, before or after they were cleaned.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// All readable requests.
    pub requests: Vec<View<CleanableRequest>>,
    /// Whether this sync has tried to delete those that were due. The next one tries the rest.
    pub is_cleaned: bool,
}

/// A request to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub key: ObjectKey,
    pub uid: Uid,
    /// Why the request can go.
    pub reason: Reason,
}

/// Why a request can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The signer issued its certificate a while ago.
    Issued,
    /// An approver denied it a while ago.
    Denied,
    /// Its signer refused it a while ago.
    Failed,
    /// It has been waiting for an approval or a denial for a long time.
    Pending,
    /// Its certificate has expired.
    Expired,
    /// An approver approved it long ago, and no signer has signed it.
    Unsigned,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Issued => "it is more than approvedExpiration duration old and approved",
            Self::Denied => "it is more than deniedExpiration duration old and denied",
            Self::Failed => "it is more than deniedExpiration duration old and failed",
            Self::Pending => "it is more than pendingExpiration duration old and unhandled",
            Self::Expired => "the associated certificate is expired",
            Self::Unsigned => "it is approved but unissued for more than pendingExpiration duration",
        })
    }
}

/// Deletes the requests that are due.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Due> {
    if observed.is_cleaned {
        return Plan::done();
    }
    let due = observed.requests.iter().filter_map(|request| {
        let reason = reason(request.meta().created, request.get::<RequestStatus>(), now)?;
        Some(Due { key: request.meta().key.clone(), uid: request.meta().uid.clone(), reason })
    });
    let steps: Vec<_> = due.collect();
    if steps.is_empty() {
        return Plan::done();
    }
    let (pace, on_failure) = (Pace::Together(MAX_CONCURRENT_CALLS), OnFailure::PlanAgain);
    Plan::Act(Batch { steps, pace, on_failure })
}

/// Why a request can go now; `None` if it stays.
fn reason(created: Option<Time>, status: &RequestStatus, now: Time) -> Option<Reason> {
    let is_older = |time: Option<Time>, span: Duration| time.is_some_and(|time| now > time + span);
    let any_older =
        |kind, span| status.conditions_of(kind).any(|condition| is_older(condition.last_update_time, span));
    let certificate = status.certificate;
    if certificate.is_issued && any_older(APPROVED, APPROVED_EXPIRATION) {
        Some(Reason::Issued)
    } else if any_older(DENIED, DENIED_EXPIRATION) {
        Some(Reason::Denied)
    } else if any_older(FAILED, DENIED_EXPIRATION) {
        Some(Reason::Failed)
    } else if status.conditions.is_empty() && is_older(created, PENDING_EXPIRATION) {
        Some(Reason::Pending)
    } else if status.is_approved() && certificate.expires.is_some_and(|expires| now > expires) {
        Some(Reason::Expired)
    } else if !certificate.is_issued && any_older(APPROVED, PENDING_EXPIRATION) {
        Some(Reason::Unsigned)
    } else {
        None
    }
}
