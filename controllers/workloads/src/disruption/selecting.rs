//! Which budgets select a pod, and which pods a budget selects. Neither looks at all objects of a namespace, unless a
//! selector demands no single value of any label.

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey};
use steersman_controller::selecting::{Selecting, Selectors};
use steersman_informer::index::{BY_LABEL, BY_NAMESPACE, by_label, by_namespace};
use steersman_informer::{Index, IndexValue, Informer, Lister, Unreadable, View};
use steersman_kinds::pod_disruption_budget::PodDisruptionBudgetSpec;
use steersman_kinds::selector::SelectorSpec;

use super::{GuardedPod, SyncedBudget};

impl Selecting for SyncedBudget {
    /// An invalid selector selects nothing, as upstream.
    fn selector(budget: &View<Self>) -> Option<LabelSelector> {
        budget.get::<PodDisruptionBudgetSpec>().selector.as_ref()?.to_selector().ok()
    }
}

/// Finds the budgets of pods and the pods of budgets. Cheap to clone.
#[derive(Clone)]
pub(super) struct Guarded {
    budgets: Selectors<SyncedBudget>,
    pods: Lister<GuardedPod>,
    pods_by_label: Index<GuardedPod>,
    pods_by_namespace: Index<GuardedPod>,
}

impl Guarded {
    /// Adds the indexes to the caches.
    pub(super) fn new(budgets: &Informer<SyncedBudget>, pods: &Informer<GuardedPod>) -> Self {
        Self {
            budgets: Selectors::new(budgets),
            pods: pods.lister(),
            pods_by_label: pods.add_index(BY_LABEL, by_label),
            pods_by_namespace: pods.add_index(BY_NAMESPACE, by_namespace),
        }
    }

    /// The budgets that select a pod with these labels.
    pub(super) fn budgets_of(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        self.budgets.selecting(namespace, labels)
    }

    /// The pods that a budget's selector selects, by name.
    ///
    /// # Errors
    /// Why the pods can't be told: the selector is invalid, or one of the pods can't be read.
    pub(super) fn pods_of(
        &self,
        namespace: &ArcStr,
        selector: Option<&SelectorSpec>,
    ) -> Result<Vec<View<GuardedPod>>, String> {
        let Some(selector) = selector else { return Ok(Vec::new()) };
        let selector = selector.to_selector().map_err(|error| error.to_string())?;
        let selected = |pod: &Meta| selector.matches(&pod.labels);
        let found: Result<_, Unreadable> = match selector.demanded_label() {
            Some((key, value)) => {
                let value = IndexValue::Triple(namespace.clone(), key.into(), value.clone());
                self.pods.by_index_where(&self.pods_by_label, &value, selected)
            }
            None => self.pods.by_index_where(&self.pods_by_namespace, &namespace.clone().into(), selected),
        };
        let mut pods = found.map_err(|error| format!("Pod {error}"))?;
        pods.sort_by(|a, b| a.meta().key.cmp(&b.meta().key));
        Ok(pods)
    }
}
