//! Which budgets select a pod, and which pods a budget selects. Neither looks at all objects of a namespace, unless a
//! selector demands no single value of any label.

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey};
use steersman_informer::index::{BY_LABEL, BY_NAMESPACE, by_label, by_namespace};
use steersman_informer::{Index, IndexValue, Informer, Lister, Unreadable, View};
use steersman_kinds::pod_disruption_budget::PodDisruptionBudgetSpec;
use steersman_kinds::selector::SelectorSpec;

use super::{GuardedPod, SyncedBudget};

/// The index of budgets by namespace and one label that all their pods have. A budget whose selector demands no label is
/// found under its namespace alone, one without a selector not at all.
const BY_SELECTOR: &str = "selectorLabel";

/// Finds the budgets of pods and the pods of budgets. Cheap to clone.
#[derive(Clone)]
pub(super) struct Guarded {
    budgets: Lister<SyncedBudget>,
    pods: Lister<GuardedPod>,
    budgets_by_selector: Index<SyncedBudget>,
    pods_by_label: Index<GuardedPod>,
    pods_by_namespace: Index<GuardedPod>,
}

impl Guarded {
    /// Adds the indexes to the caches.
    pub(super) fn new(budgets: &Informer<SyncedBudget>, pods: &Informer<GuardedPod>) -> Self {
        Self {
            budgets: budgets.lister(),
            pods: pods.lister(),
            budgets_by_selector: budgets.add_index(BY_SELECTOR, by_selector),
            pods_by_label: pods.add_index(BY_LABEL, by_label),
            pods_by_namespace: pods.add_index(BY_NAMESPACE, by_namespace),
        }
    }

    /// The budgets that select a pod with these labels.
    pub(super) fn budgets_of(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        let mut found = BTreeSet::new();
        let demanded = labels
            .iter()
            .map(|(key, value)| IndexValue::Triple(namespace.clone(), key.clone(), value.clone()));
        for entry in demanded.chain([IndexValue::Text(namespace.clone())]) {
            let Ok(budgets) = self.budgets.by_index(&self.budgets_by_selector, &entry) else {
                // One of the budgets can't be read. All of the namespace are synced, so that the others do not suffer.
                self.budgets.for_each_meta(|meta| {
                    if meta.key.namespace == *namespace {
                        found.insert(meta.key.clone());
                    }
                });
                return found;
            };
            let selects = |budget: &&View<SyncedBudget>| {
                selector_of(budget).is_some_and(|selector| selector.matches(labels))
            };
            found.extend(budgets.iter().filter(selects).map(|budget| budget.meta().key.clone()));
        }
        found
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

/// The function of [`BY_SELECTOR`].
fn by_selector(budget: &View<SyncedBudget>) -> Vec<IndexValue> {
    let Some(selector) = selector_of(budget) else { return Vec::new() };
    let namespace = &budget.meta().key.namespace;
    vec![selector.demanded_label().map_or_else(
        || IndexValue::Text(namespace.clone()),
        |(key, value)| IndexValue::Triple(namespace.clone(), key.into(), value.clone()),
    )]
}

/// The selector of a budget's pods; `None` if it selects nothing. An invalid selector selects nothing, as upstream.
fn selector_of(budget: &View<SyncedBudget>) -> Option<LabelSelector> {
    budget.get::<PodDisruptionBudgetSpec>().selector.as_ref()?.to_selector().ok()
}
