//! The cached fields of ClusterRoles, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::selector::SelectorSpec;

projection! {
    /// A rule of a role: these verbs are allowed on these resources, or on these paths.
    #[derive(Eq)]
    pub struct PolicyRule {
        /// The verbs, such as `get`; `*` stands for all.
        pub verbs: Vec<Interned> = 1 "verbs",
        /// The API groups of the resources; empty for the core group.
        pub api_groups: Vec<Interned> = 2 "apiGroups",
        /// The resources, such as `pods` or `pods/log`.
        pub resources: Vec<Interned> = 3 "resources",
        /// The names of single objects. Empty for all.
        pub resource_names: Vec<Interned> = 4 "resourceNames",
        /// Paths of the API server that are no resources, such as `/healthz`.
        pub non_resource_urls: Vec<Interned> = 5 "nonResourceURLs",
    }

    /// The roles whose rules an aggregated role has.
    pub struct AggregationRule {
        /// Selects the roles by their labels. Each selector adds roles.
        pub cluster_role_selectors: Vec<SelectorSpec> = 1 "clusterRoleSelectors",
    }
}

/// The rules of a role, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<PolicyRule>);

/// How a role is aggregated from others. `None` for a role with rules of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregation(pub Option<AggregationRule>);

impl FieldValue for Rules {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::from_json(deserializer).map(Self)
    }
}

impl FieldValue for Aggregation {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::from_json(deserializer).map(Self)
    }
}

kind! {
    /// A ClusterRole.
    pub struct ClusterRole("rbac.authorization.k8s.io", "v1", "clusterroles") {
        rules: Rules = 2 "rules",
        aggregation: Aggregation = 3 "aggregationRule",
    }
}
