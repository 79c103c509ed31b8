//! The conditions of a namespace that is being deleted.

use serde::Serialize;
use steersman_api::condition::{self, Condition, ConditionStatus};
use steersman_api::{ArcStr, Time};
use steersman_kinds::namespace::NamespaceStatus;

use super::report::Report;

/// Names the first objects that are left. Upstream has no such condition: those that it has count objects only, and tell
/// nothing of pods.
pub(super) const BLOCKING_OBJECTS: &str = "steersman.io/BlockingObjects";

/// The status of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Status {
    /// `Active` or `Terminating`.
    pub phase: ArcStr,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status {
    pub(super) fn of(status: &NamespaceStatus) -> Self {
        let conditions = status.conditions.iter().map(|cached| Condition {
            kind: cached.kind.as_arc().clone(),
            status: cached.status,
            last_transition_time: cached.last_transition_time,
            reason: cached.reason.as_arc().clone(),
            message: cached.message.clone(),
        });
        Self { phase: status.phase.as_arc().clone(), conditions: conditions.collect() }
    }

    /// This status with the conditions that follow from a report. Other conditions stay.
    pub(super) fn with(&self, report: &Report, now: Time) -> Self {
        let mut status = self.clone();
        for (kind, trouble, fine) in [
            ("NamespaceDeletionDiscoveryFailure", discovery(report), DISCOVERED),
            ("NamespaceDeletionGroupVersionParsingFailure", None, PARSED),
            ("NamespaceDeletionContentFailure", failures(report), DELETED),
            ("NamespaceContentRemaining", remaining(report), REMOVED),
            ("NamespaceFinalizersRemaining", finalizers(report), FINALIZED),
        ] {
            status.set(kind, trouble, fine, now);
        }
        let blocking = (!report.blocking.is_empty()).then(|| ("ObjectsRemain", report.blocking.join(", ")));
        if blocking.is_some() || condition::find(&status.conditions, BLOCKING_OBJECTS).is_some() {
            status.set(BLOCKING_OBJECTS, blocking, UNBLOCKED, now);
        }
        status
    }

    fn set(&mut self, kind: &str, trouble: Option<Trouble>, fine: (&str, &str), now: Time) {
        let is_trouble = trouble.is_some();
        let (reason, message) = trouble.unwrap_or_else(|| (fine.0, fine.1.to_owned()));
        let new = Condition {
            kind: kind.into(),
            status: if is_trouble { ConditionStatus::True } else { ConditionStatus::False },
            last_transition_time: Some(now),
            reason: reason.into(),
            message: message.into(),
        };
        condition::set(&mut self.conditions, new);
    }
}

/// The reason and the message of a condition that holds.
type Trouble<'a> = (&'a str, String);

// The reasons and messages of conditions that do not hold.
const DISCOVERED: (&str, &str) = ("ResourcesDiscovered", "All resources successfully discovered");
const PARSED: (&str, &str) = ("ParsedGroupVersions", "All legacy kube types successfully parsed");
const DELETED: (&str, &str) =
    ("ContentDeleted", "All content successfully deleted, may be waiting on finalization");
const REMOVED: (&str, &str) = ("ContentRemoved", "All content successfully removed");
const FINALIZED: (&str, &str) = ("ContentHasNoFinalizers", "All content-preserving finalizers finished");
const UNBLOCKED: (&str, &str) = ("NoObjectsRemain", "No objects remain");

fn discovery(report: &Report) -> Option<Trouble<'static>> {
    let undiscovered = report.undiscovered.as_ref()?;
    let error = &undiscovered.error;
    let message = match undiscovered.group_versions {
        Some(failing) => format!("Discovery failed for some groups, {failing} failing: {error}"),
        None => error.clone(),
    };
    Some(("DiscoveryFailed", message))
}

fn failures(report: &Report) -> Option<Trouble<'static>> {
    let message = format!(
        "Failed to delete all resource types, {} remaining: {}",
        report.errors.len(),
        sorted(report.errors.clone())
    );
    (!report.errors.is_empty()).then_some(("ContentDeletionFailed", message))
}

fn remaining(report: &Report) -> Option<Trouble<'static>> {
    let kinds = report.remaining.iter().map(|(kind, count)| {
        // With the dot that upstream has after the core group's resources, too.
        format!("{}.{} has {count} resource instances", kind.resource, kind.group)
    });
    let message = format!("Some resources are remaining: {}", sorted(kinds.collect()));
    (!report.remaining.is_empty()).then_some(("SomeResourcesRemain", message))
}

fn finalizers(report: &Report) -> Option<Trouble<'static>> {
    let finalizers = report.finalizers.iter();
    let each = finalizers.map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    let message =
        format!("Some content in the namespace has finalizers remaining: {}", sorted(each.collect()));
    (!report.finalizers.is_empty()).then_some(("SomeFinalizersRemain", message))
}

/// The texts in order, so that the same state has the same message.
fn sorted(mut texts: Vec<String>) -> String {
    texts.sort_unstable();
    texts.join(", ")
}
