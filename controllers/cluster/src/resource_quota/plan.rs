//! What a quota's status should say.

use std::collections::BTreeSet;
use std::time::Duration;

use steersman_api::{ArcStr, Meta};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::resource_quota::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};

use super::amounts::Amounts;

/// How soon a quota is synced again after a conflict. That sync waits for the cache to show the newer quota.
const AFTER_CONFLICT: Duration = Duration::from_millis(10);

/// A quota.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    pub meta: Meta,
    pub spec: ResourceQuotaSpec,
    pub status: ResourceQuotaStatus,
}

impl Quota {
    /// Reads a cached quota.
    ///
    /// # Panics
    /// If the cache does not keep the groups that the controller reads.
    pub(super) fn of(quota: &ResourceQuota) -> Self {
        let (spec, status) = (ResourceQuotaSpec::of(quota), ResourceQuotaStatus::of(quota));
        let (spec, status) = spec.zip(status).expect("the groups that the controller reads must be kept");
        Self { meta: quota.meta().clone(), spec: spec.clone(), status: status.clone() }
    }

    /// The names that the quota bounds.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.spec.hard.names().map(|name| &**name)
    }
}

/// What the objects of one kind use of a quota.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tally {
    /// The names, of those that the quota bounds, that objects of the kind use.
    pub names: BTreeSet<ArcStr>,
    /// The sum over all objects in the quota's scopes. Names that it lacks are not used.
    pub used: Result<Amounts, Uncounted>,
}

/// Why the objects of a kind could not be counted. The quota keeps the old figures for the kind's names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Uncounted {
    /// The kind is not known, or not cached, yet. The quota is synced again once it is.
    NotYet,
    /// An object can't be read.
    Failed(String),
}

/// The state that a sync decides on.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub quota: Quota,
    /// One for each kind that uses what the quota bounds.
    pub tallies: Vec<Tally>,
    /// The time until the next pod is overdue that is counted now.
    pub next_overdue: Option<Duration>,
    /// The outcome of the write, once there is one.
    pub outcome: Option<Outcome>,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Write the status.
    WriteStatus(ResourceQuotaStatus),
    /// End the sync with this error, so that the quota is synced again after its back-off.
    Fail(String),
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The status is written.
    Written,
    /// Another client, such as the API server's admission, changed the quota first.
    Conflict,
    /// The quota is gone.
    Gone,
}

impl Observed {
    pub(super) fn absorb(&mut self, result: StepResult<Outcome>) {
        if let StepResult::Done(outcome) = result {
            self.outcome = Some(outcome);
        }
    }
}

/// Writes the status if it differs from what was counted.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    match observed.outcome {
        Some(Outcome::Gone) => return Plan::done(),
        Some(Outcome::Conflict) => return Plan::Done { requeue_after: Some(AFTER_CONFLICT) },
        Some(Outcome::Written) => {}
        None => {
            if let Some(status) = changed_status(observed) {
                return Plan::step(Step::WriteStatus(status));
            }
        }
    }
    let failed = observed.tallies.iter().filter_map(|tally| match &tally.used {
        Err(Uncounted::Failed(why)) => Some(why.as_str()),
        _ => None,
    });
    let failed: Vec<&str> = failed.collect();
    if !failed.is_empty() {
        return Plan::step(Step::Fail(failed.join(", ")));
    }
    Plan::Done { requeue_after: observed.next_overdue }
}

/// The status as counted. `None` if the quota has it already: amounts compare by value, whatever their notation.
fn changed_status(observed: &Observed) -> Option<ResourceQuotaStatus> {
    let Quota { spec, status, .. } = &observed.quota;
    let used = used(observed);
    if status.hard.is_worth(&spec.hard) && status.used.is_worth(&used) {
        return None;
    }
    Some(ResourceQuotaStatus { hard: spec.hard.clone(), used })
}

/// What is used of each name that the quota bounds. Names of kinds that could not be counted keep their old figures, and so do
/// names that belong to no kind.
fn used(observed: &Observed) -> steersman_kinds::resource_list::ResourceList {
    let Quota { spec, status, .. } = &observed.quota;
    let mut counted = Amounts::default();
    let mut uncounted: BTreeSet<&str> = BTreeSet::new();
    for Tally { names, used } in &observed.tallies {
        match used {
            // Several kinds may use one name.
            Ok(used) => names.iter().for_each(|name| counted.add(name, used.get(name).unwrap_or_default())),
            Err(_) => uncounted.extend(names.iter().map(|name| &**name)),
        }
    }
    let names = spec.hard.names().map(|name| &**name);
    let used = names.filter_map(|name| {
        let was = status.used.get(name);
        let is = counted.get(name).filter(|_| !uncounted.contains(name));
        // If the value is the same, so is the notation.
        let amount = is.filter(|is| was != Some(*is)).or(was)?;
        Some((name, amount))
    });
    used.collect()
}
