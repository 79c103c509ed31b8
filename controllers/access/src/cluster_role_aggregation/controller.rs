//! Syncs of aggregated roles.

use serde_json::{Map, Value, json};
use steersman_api::{Meta, ObjectKey, Time};
use steersman_controller::client::{Patch, ResourceClient, Subresource};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::wire::Kind;
use steersman_informer::{Interned, Lister, Unreadable};
use steersman_kinds::cluster_role::{Aggregation, ClusterRole, PolicyRule};

use super::Role;
use super::plan::{Apply, Observed, plan, selectors};

/// The field manager of aggregated rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Gives aggregated roles their rules.
///
/// It does not wait for the cache to show its own writes: a sync that decides on an older state applies the same rules
/// again, which changes nothing.
pub(super) struct Aggregator {
    pub roles: Lister<Role>,
    pub client: ResourceClient,
}

/// What the controller applies. As upstream, empty lists are left out.
pub(super) fn applied(role: &Meta, rules: &[PolicyRule]) -> Value {
    let mut object = json!({
        "apiVersion": format!("{}/{}", ClusterRole::GROUP, ClusterRole::VERSION),
        "kind": ClusterRole::KIND,
        "metadata": {"name": role.key.name, "uid": role.uid},
    });
    if !rules.is_empty() {
        object["rules"] = rules.iter().map(rule).collect();
    }
    object
}

fn rule(rule: &PolicyRule) -> Value {
    let texts = |list: &[Interned]| list.iter().map(|text| Value::from(&**text)).collect::<Value>();
    let lists = [
        ("verbs", &rule.verbs),
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
        ("nonResourceURLs", &rule.non_resource_urls),
    ];
    let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
    filled.map(|(name, list)| (name.to_owned(), texts(list))).collect::<Map<_, _>>().into()
}

impl Controller for Aggregator {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Apply;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let unreadable = |error: Unreadable| SyncError::Unreadable(format!("ClusterRole {}", error.key));
        let role = self.roles.get(key).map_err(unreadable)?;
        let Some(role) = role.filter(|role| role.get::<Aggregation>().0.is_some()) else {
            return Ok(Observation::Nothing);
        };
        let selectors =
            selectors(&role).map_err(|error| SyncError::Failed(format!("ClusterRole {key}: {error}")))?;
        let roles = self.roles.list().map_err(unreadable)?;
        Ok(Observation::Ready(Observed { role, selectors, roles, is_applied: false }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Apply> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Apply) -> Result<(), SyncError> {
        let patch = Patch::Apply { manager: MANAGER, object: applied(observed.role.meta(), &step.0) };
        match self.client.patch(key, Subresource::None, &patch).await {
            // The role is gone, or another one has its name. That one comes with its own changes.
            Err(error) if error.is("Conflict") || error.is("NotFound") => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Apply, _: StepResult<()>) {
        observed.is_applied = true;
    }
}
