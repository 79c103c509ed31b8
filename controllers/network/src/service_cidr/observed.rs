//! What a sync of a ServiceCIDR decides on.

use std::net::IpAddr;

use ipnet::IpNet;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Time};
use steersman_controller::controller::StepResult;
use steersman_informer::{Interned, Object};
use steersman_kinds::condition::MetaCondition;
use steersman_kinds::service_cidr::ServiceCIDR;

use super::plan::Step;

/// Keeps a ServiceCIDR until no service needs it.
pub(super) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The type of the condition that the controller writes.
pub(super) const READY: &str = "Ready";

/// A ServiceCIDR, and what its deletion depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    /// Since when the ServiceCIDR is being deleted. `None` if it is not.
    pub deleted: Option<Time>,
    /// Whether it has [`FINALIZER`].
    pub has_finalizer: bool,
    /// Its condition [`READY`].
    pub ready: Option<Condition>,
    /// Its ranges.
    pub ranges: Vec<IpNet>,
    /// The ranges of the other ServiceCIDRs. Empty unless this one is being deleted.
    pub others: Vec<Vec<IpNet>>,
    /// The addresses of services. Empty unless the ServiceCIDR is being deleted.
    pub addresses: Vec<IpAddr>,
    /// Whether a step found that there is no such ServiceCIDR.
    pub gone: bool,
}

/// A condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub status: ConditionStatus,
    pub reason: Interned,
    pub message: ArcStr,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The step was carried out.
    Done,
    /// There is no such ServiceCIDR.
    Gone,
}

impl Condition {
    fn of(condition: &MetaCondition) -> Self {
        let MetaCondition { status, reason, message, .. } = condition;
        Self { status: *status, reason: reason.clone(), message: message.clone() }
    }
}

impl Observed {
    /// A ServiceCIDR with these ranges and conditions, without what its deletion depends on.
    pub(super) fn of(cidr: &ServiceCIDR, ranges: &[IpNet], conditions: &[MetaCondition]) -> Self {
        let meta = cidr.meta();
        Self {
            deleted: meta.deleted(),
            has_finalizer: meta.has_finalizer(FINALIZER),
            ready: conditions.iter().find(|condition| condition.kind == READY).map(Condition::of),
            ranges: ranges.to_vec(),
            others: Vec::new(),
            addresses: Vec::new(),
            gone: false,
        }
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: &StepResult<Outcome>) {
        match (step, result) {
            (_, StepResult::Done(Outcome::Gone)) => self.gone = true,
            (Step::AddFinalizer, StepResult::Done(Outcome::Done)) => self.has_finalizer = true,
            (Step::RemoveFinalizer, StepResult::Done(Outcome::Done)) => self.has_finalizer = false,
            (Step::SetReady(condition), StepResult::Done(Outcome::Done)) => self.ready = Some(condition),
            (_, StepResult::Failed(_) | StepResult::Skipped) => {}
        }
    }
}
