//! The order in which a namespace's deletion goes on.

use std::time::Duration;

use steersman_api::{GroupVersionResource, Time};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::conditions::Status;
use super::deletion::{Deletion, Sight};
use super::report::Report;

/// The phase of a namespace that is being deleted.
pub(super) const TERMINATING: &str = "Terminating";
/// The controller's own finalizer in a namespace's spec.
pub(super) const KUBERNETES: &str = "kubernetes";
/// Maximum number of calls for one namespace at a time.
const AT_ONCE: usize = 8;

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the namespace from the API server.
    Read,
    /// Write the phase into the status.
    WritePhase(Status),
    /// Ask the API server for its kinds.
    Discover,
    /// Delete all objects of a kind in one call.
    DeleteAll(GroupVersionResource),
    /// List the objects of a kind, and delete them one by one.
    DeleteEach(GroupVersionResource),
    /// List the objects of a kind.
    Count(GroupVersionResource),
    /// Write the conditions into the status. If that fails, the deletion goes on.
    WriteConditions(Status),
    /// Remove the controller's own finalizer.
    Finalize,
    /// End the sync with an error.
    Fail(String),
}

/// The next steps of a namespace's deletion, in upstream's order: the phase; the pods; all other kinds; the conditions; the
/// finalizer.
pub(super) fn plan(deletion: &Deletion, now: Time) -> Plan<Step> {
    let namespace = match &deletion.namespace {
        Sight::Unread(_) => return Plan::step(Step::Read),
        Sight::Gone => return Plan::done(),
        Sight::Found(namespace) => namespace,
    };
    let Some(deleted) = namespace.meta.deleted() else { return Plan::done() };
    if namespace.status.phase != TERMINATING {
        let phase = TERMINATING.into();
        return Plan::step(Step::WritePhase(Status { phase, ..namespace.status.clone() }));
    }
    if namespace.finalizers.is_empty() {
        return Plan::done();
    }
    let Some(contents) = &deletion.contents else { return Plan::step(Step::Discover) };
    let steps = contents.due();
    if !steps.is_empty() {
        let batch = Batch { steps, pace: Pace::Together(AT_ONCE), on_failure: OnFailure::Stop };
        return Plan::Act(batch);
    }
    let since = now.seconds() - deleted.seconds();
    let report = Report::of(&namespace.meta.key.name, contents, since);
    let status = namespace.status.with(&report, now);
    if !deletion.is_reported && status != namespace.status {
        return Plan::step(Step::WriteConditions(status));
    }
    if let Some(error) = report.error() {
        return Plan::step(Step::Fail(error));
    }
    if let Ok(estimate @ 1..) = u64::try_from(report.estimate) {
        return Plan::Done { requeue_after: Some(Duration::from_secs(estimate / 2 + 1)) };
    }
    if namespace.finalizers.iter().any(|finalizer| finalizer == KUBERNETES) {
        Plan::step(Step::Finalize)
    } else {
        Plan::done()
    }
}
