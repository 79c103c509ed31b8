//! The cached fields of ResourceQuotas, in groups.

use steersman_api::ArcStr;
use steersman_informer::{Interned, kind, projection};

use super::resource_list::ResourceList;

projection! {
    /// A quota's spec.
    #[derive(Eq)]
    pub struct ResourceQuotaSpec {
        /// The most that the namespace's objects may use.
        pub hard: ResourceList = 1 "hard",
        /// The scopes that an object must be in to be counted.
        pub scopes: Vec<Interned> = 2 "scopes",
        /// More scopes that an object must be in to be counted.
        pub scope_selector: ScopeSelector = 3 "scopeSelector",
    }

    /// A list of scopes.
    #[derive(Eq)]
    pub struct ScopeSelector {
        /// The scopes. An object must be in all of them.
        pub match_expressions: Vec<ScopeRequirement> = 1 "matchExpressions",
    }

    /// A scope, with the values that select objects.
    #[derive(Eq)]
    pub struct ScopeRequirement {
        /// The scope, such as `PriorityClass`.
        pub scope: Interned = 1 "scopeName",
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub operator: Interned = 2 "operator",
        /// The values for `In` and `NotIn`.
        pub values: Vec<ArcStr> = 3 "values",
    }

    /// A quota's status. The API server's admission reads it, and adds to `used` what it admits.
    #[derive(Eq, serde::Serialize)]
    pub struct ResourceQuotaStatus {
        /// The limits that `used` was counted for.
        pub hard: ResourceList = 1 "hard",
        /// What the namespace's objects use.
        pub used: ResourceList = 2 "used",
    }
}

kind! {
    /// A ResourceQuota.
    pub struct ResourceQuota("", "v1", "resourcequotas") {
        spec: ResourceQuotaSpec = 2 "spec",
        status: ResourceQuotaStatus = 3 "status",
    }
}
