//! The cached fields of PodDisruptionBudgets, in groups.

use std::collections::BTreeMap;

use serde::Deserialize;
use steersman_api::{ArcStr, Time};
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, IntOrString, WireError};
use steersman_informer::{kind, projection};

use super::condition::MetaCondition;
use super::selector::SelectorSpec;

projection! {
    /// A budget's spec. The API server sees to it that at most one of the two bounds is set.
    pub struct PodDisruptionBudgetSpec {
        /// The number or percentage of pods that must stay healthy.
        pub min_available: Option<IntOrString> = 1 "minAvailable",
        /// Selects the budget's pods. `None` selects no pods, an empty selector all pods of the namespace.
        pub selector: Option<SelectorSpec> = 2 "selector",
        /// The number or percentage of pods that may be unhealthy.
        pub max_unavailable: Option<IntOrString> = 3 "maxUnavailable",
    }

    /// A budget's status.
    pub struct PodDisruptionBudgetStatus {
        /// The generation of the budget that the status describes. The API server refuses evictions while it is older than the
        /// budget's own.
        pub observed_generation: i64 = 1 "observedGeneration",
        /// The pods that the API server has agreed to evict, and may not have deleted yet.
        pub disrupted_pods: DisruptedPods = 2 "disruptedPods",
        /// The number of pods that may be evicted now.
        pub disruptions_allowed: i32 = 3 "disruptionsAllowed",
        /// The number of healthy pods.
        pub current_healthy: i32 = 4 "currentHealthy",
        /// The number of pods that must stay healthy.
        pub desired_healthy: i32 = 5 "desiredHealthy",
        /// The number of pods that the owners of the budget's pods ask for.
        pub expected_pods: i32 = 6 "expectedPods",
        /// The conditions, at most one of each type.
        pub conditions: Vec<MetaCondition> = 7 "conditions",
    }

    /// An entry of [`DisruptedPods`] in protobuf.
    struct Entry {
        pub pod: ArcStr = 1 "key",
        pub since: Option<Time> = 2 "value",
    }
}

/// The names of evicted pods, each with the time of its eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisruptedPods(pub BTreeMap<ArcStr, Time>);

/// Stands for a time that is not set: Go's zero time, the beginning of year 1, in seconds since 1970.
const UNSET: i64 = -62_135_596_800;

impl DisruptedPods {
    fn insert(&mut self, pod: ArcStr, since: Option<Time>) {
        self.0.insert(pod, since.unwrap_or_else(|| Time::from_seconds(UNSET)));
    }
}

impl FieldValue for DisruptedPods {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut entry = Entry::default();
        entry.merge(field)?;
        self.insert(entry.pod, entry.since);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut pods = Self::default();
        let entries = BTreeMap::<String, Option<Time>>::deserialize(deserializer)?;
        entries.into_iter().for_each(|(pod, since)| pods.insert(pod.into(), since));
        Ok(pods)
    }
}

kind! {
    /// A PodDisruptionBudget.
    pub struct PodDisruptionBudget("policy", "v1", "poddisruptionbudgets") {
        spec: PodDisruptionBudgetSpec = 2 "spec",
        status: PodDisruptionBudgetStatus = 3 "status",
    }
}
