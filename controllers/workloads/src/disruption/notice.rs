//! What the controller tells users by events.

use steersman_api::{Meta, ObjectKey};
use steersman_client::events::EventType;

/// An event about a budget or one of its pods. Reasons and messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The budget selects no pods.
    NoPods,
    /// The budget's pods can't be told, for this reason.
    PodsFailed(String),
    /// The number of expected pods can't be told, for this reason.
    ExpectedFailed(String),
    /// Some pods have no managing owner. With the budget's selector as Go prints it.
    UnmanagedPods(String),
    /// This pod was to be deleted, and was not.
    NotDeleted(Meta),
}

impl Notice {
    /// The type, the reason and the message of the event about the budget `budget`, or about its pod.
    pub(super) fn event(&self, budget: &ObjectKey) -> (EventType, &'static str, String) {
        match self {
            Self::NoPods => (EventType::Normal, "NoPods", "No matching pods found".to_owned()),
            Self::PodsFailed(why) => (EventType::Warning, "NoPods", format!("Failed to get pods: {why}")),
            Self::ExpectedFailed(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                (EventType::Warning, "CalculateExpectedPodCountFailed", message)
            }
            Self::UnmanagedPods(selector) => {
                let message = format!(
                    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the \
                     status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
                     for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
                );
                (EventType::Warning, "UnmanagedPods", message)
            }
            Self::NotDeleted(_) => {
                // Upstream names the namespace twice.
                let namespace = &budget.namespace;
                let message =
                    format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
                (EventType::Warning, "NotDeleted", message)
            }
        }
    }
}

/// The message of the event about a pod that several budgets select.
pub(super) fn several_budgets(pod: &ObjectKey, first: &ObjectKey) -> String {
    let ObjectKey { namespace, name } = pod;
    format!(
        "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
        first.name
    )
}
