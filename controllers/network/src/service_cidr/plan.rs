//! Decides whether a ServiceCIDR is ready, and whether it may go.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::condition::ConditionStatus;
use steersman_controller::plan::Plan;

use super::observed::{Condition, Observed};
use super::ranges::may_go;

/// How long after its deletion a ServiceCIDR stays at least: by then all API servers know that they may give no more addresses
/// from its ranges.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// A write of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Adds the finalizer.
    AddFinalizer,
    /// Sets the condition `Ready`.
    SetReady(Condition),
    /// Removes the finalizer.
    RemoveFinalizer,
}

impl Condition {
    /// The condition of a ServiceCIDR whose ranges services get addresses from. Upstream sets no reason.
    pub(super) fn ready() -> Self {
        Self {
            status: ConditionStatus::True,
            reason: "".into(),
            message: arcstr::literal!("Kubernetes Service CIDR is ready"),
        }
    }

    /// The condition of a ServiceCIDR that can't go yet.
    pub(super) fn terminating() -> Self {
        let message = arcstr::literal!(
            "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
        );
        Self { status: ConditionStatus::False, reason: "Terminating".into(), message }
    }
}

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Step> {
    if observed.gone {
        return Plan::done();
    }
    let Some(deleted) = observed.deleted else {
        return if observed.has_finalizer {
            set_ready(observed, Condition::ready())
        } else {
            Plan::step(Step::AddFinalizer)
        };
    };
    if !may_go(&observed.ranges, &observed.others, &observed.addresses) {
        return set_ready(observed, Condition::terminating());
    }
    let left = GRACE.saturating_sub(now.duration_since(deleted.into()));
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Plan::Done { requeue_after: Some(left) },
        _ if observed.has_finalizer => Plan::step(Step::RemoveFinalizer),
        _ => Plan::done(),
    }
}

/// Sets the condition `Ready` unless the ServiceCIDR has it so already.
fn set_ready(observed: &Observed, condition: Condition) -> Plan<Step> {
    if observed.ready.as_ref() == Some(&condition) {
        return Plan::done();
    }
    Plan::step(Step::SetReady(condition))
}
