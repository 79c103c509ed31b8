//! Which objects a quota is about.

use steersman_informer::Interned;
use steersman_kinds::persistent_volume_claim::{StorageAllotment, StorageDemand};
use steersman_kinds::pod_resources::{PodAllotment, PodDemand};
use steersman_kinds::resource_quota::{ResourceQuotaSpec, ScopeRequirement};

use super::Gates;
use super::measures::is_best_effort;

/// The scopes of a quota. An object is counted if it is in all of them.
pub(super) struct Scopes<'a>(Vec<ScopeRequirementRef<'a>>);

/// A scope, with the values that select objects.
#[derive(Clone, Copy)]
struct ScopeRequirementRef<'a> {
    scope: &'a str,
    operator: &'a str,
    values: &'a [steersman_api::ArcStr],
}

impl<'a> Scopes<'a> {
    /// The scopes of a quota.
    pub(super) fn of(spec: &'a ResourceQuotaSpec) -> Self {
        let plain = |scope: &'a Interned| ScopeRequirementRef { scope, operator: "Exists", values: &[] };
        let selected = |requirement: &'a ScopeRequirement| ScopeRequirementRef {
            scope: &requirement.scope,
            operator: &requirement.operator,
            values: &requirement.values,
        };
        let selectors = spec.scope_selector.match_expressions.iter().map(selected);
        Self(spec.scopes.iter().map(plain).chain(selectors).collect())
    }

    /// Whether the quota counts objects whatever they are. Objects that are in no scope are counted only then.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the quota counts a pod.
    pub(super) fn have_pod(&self, demand: &PodDemand, allotment: &PodAllotment, gates: Gates) -> bool {
        self.0.iter().all(|required| match required.scope {
            "Terminating" => has_deadline(demand),
            "NotTerminating" => !has_deadline(demand),
            "BestEffort" => is_best_effort(demand, allotment, gates),
            "NotBestEffort" => !is_best_effort(demand, allotment, gates),
            "PriorityClass" => required.select(Some(&*demand.priority_class)),
            "CrossNamespacePodAffinity" => demand.affinity.0,
            _ => false,
        })
    }

    /// Whether the quota counts a PersistentVolumeClaim.
    pub(super) fn have_volume_claim(&self, demand: &StorageDemand, allotment: &StorageAllotment) -> bool {
        let classes =
            [&demand.attributes_class, &allotment.current_attributes_class, &allotment.modification.target];
        self.0.iter().all(|required| {
            let mut named =
                classes.iter().map(|class| &***class).filter(|class| !class.is_empty()).peekable();
            required.scope == "VolumeAttributesClass"
                && match named.peek() {
                    None => required.select(None),
                    Some(_) => named.any(|class| required.select(Some(class))),
                }
        })
    }
}

impl ScopeRequirementRef<'_> {
    /// Whether an object with this value of the scope is selected. An object may lack a value.
    fn select(self, value: Option<&str>) -> bool {
        let value = value.filter(|value| !value.is_empty());
        let is_listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => value.is_some_and(is_listed),
            "NotIn" => !value.is_some_and(is_listed),
            _ => false,
        }
    }
}

/// Whether the pod ends by itself.
pub(super) fn has_deadline(demand: &PodDemand) -> bool {
    demand.active_deadline_seconds.is_some_and(|seconds| seconds >= 0)
}
