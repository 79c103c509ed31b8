//! Aggregated ClusterRoles kept up to date by the manager, as a process.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::real::AGGREGATION_CONTROLLER_TOKEN;
use support::{Cluster, Server, eventually};

const CONTROLLER: &[&str] = &["--controllers=clusterrole-aggregation-controller"];

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    roles: Roles,
    _manager: Manager,
    _cluster: Cluster,
}

/// The roles of a test, whose names and labels no other test uses.
struct Roles {
    api: Api<ClusterRole>,
    prefix: String,
}

impl Managed {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let manager = Manager::start(&cluster.kubeconfig(), CONTROLLER);
        Self { roles: Roles::of(&cluster), _manager: manager, _cluster: cluster }
    }
}

fn rule(resource: &str) -> Value {
    json!({ "verbs": ["get"], "apiGroups": [""], "resources": [resource] })
}

/// The resources of the rules, in the rules' order.
fn resources(role: &ClusterRole) -> Vec<String> {
    let rules = role.rules.iter().flatten();
    rules.flat_map(|rule| rule.resources.iter().flatten()).cloned().collect()
}

impl Roles {
    fn of(cluster: &Cluster) -> Self {
        Self { api: Api::all(cluster.client()), prefix: cluster.namespace.clone() }
    }

    fn name(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// The label that makes a role a part of another.
    fn label(&self, whole: &str) -> String {
        format!("{}.example.com/part-of-{whole}", self.prefix)
    }

    async fn create(&self, role: Value) -> ClusterRole {
        self.api.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap()
    }

    /// Creates a part of some roles, with a rule for each of these resources.
    async fn part(&self, name: &str, wholes: &[&str], resources: &[&str]) {
        let labels: Value = wholes.iter().map(|whole| (self.label(whole), json!("true"))).collect();
        let rules: Vec<_> = resources.iter().map(|resource| rule(resource)).collect();
        self.create(json!({ "metadata": { "name": self.name(name), "labels": labels }, "rules": rules }))
            .await;
    }

    /// Creates a role that is aggregated from the parts of some wholes, and is itself a part of another, if it says so.
    async fn whole(&self, name: &str, parts_of: &[&str], part_of: Option<&str>, rules: Value) {
        let selectors: Vec<_> =
            parts_of.iter().map(|whole| json!({ "matchLabels": { self.label(whole): "true" } })).collect();
        let labels: Value = part_of.iter().map(|whole| (self.label(whole), json!("true"))).collect();
        self.create(json!({
            "metadata": { "name": self.name(name), "labels": labels },
            "aggregationRule": { "clusterRoleSelectors": selectors }, "rules": rules,
        }))
        .await;
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.api.patch(&self.name(name), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until a role has one rule for each of these resources, in this order.
    async fn has(&self, name: &str, expected: &[&str]) -> ClusterRole {
        eventually(&format!("{name} has rules for {expected:?}"), || async {
            let role = self.api.get(&self.name(name)).await.ok()?;
            (resources(&role) == expected).then_some(role)
        })
        .await
    }
}

#[tokio::test]
async fn a_role_has_the_rules_of_its_parts_in_the_order_of_selectors_and_names() {
    let managed = Managed::start().await;
    let roles = &managed.roles;
    roles.part("c", &["sum"], &["secrets", "pods"]).await;
    roles.part("b", &["sum"], &["pods", "services"]).await;
    roles.part("a", &["more"], &["nodes", "pods"]).await;
    roles.part("d", &["other"], &["events"]).await;
    roles.whole("sum", &["sum", "more"], None, json!([])).await;
    let sum = roles.has("sum", &["pods", "services", "secrets", "nodes"]).await;
    let managers = sum.metadata.managed_fields.unwrap();
    let applied = managers.iter().find(|entry| entry.operation.as_deref() == Some("Apply")).unwrap();
    assert_eq!(applied.manager.as_deref(), Some("clusterrole-aggregation-controller"));
    let rule: PolicyRule = serde_json::from_value(rule("pods")).unwrap();
    assert_eq!(sum.rules.unwrap()[0], rule);
}

#[tokio::test]
async fn a_role_follows_its_parts() {
    let managed = Managed::start().await;
    let roles = &managed.roles;
    roles.whole("sum", &["sum"], None, json!([])).await;
    roles.part("a", &["sum"], &["pods"]).await;
    roles.has("sum", &["pods"]).await;
    roles.part("b", &["sum"], &["services"]).await;
    roles.has("sum", &["pods", "services"]).await;
    roles.patch("a", json!({ "rules": [rule("nodes")] })).await;
    roles.has("sum", &["nodes", "services"]).await;
    roles.patch("a", json!({ "metadata": { "labels": { roles.label("sum"): null } } })).await;
    roles.has("sum", &["services"]).await;
    roles.patch("a", json!({ "metadata": { "labels": { roles.label("sum"): "true" } } })).await;
    roles.has("sum", &["nodes", "services"]).await;
    roles.api.delete(&roles.name("b"), &DeleteParams::default()).await.unwrap();
    roles.has("sum", &["nodes"]).await;
    roles.api.delete(&roles.name("a"), &DeleteParams::default()).await.unwrap();
    roles.has("sum", &[]).await;
}

#[tokio::test]
async fn rules_pass_through_roles_that_are_parts_of_others() {
    let managed = Managed::start().await;
    let roles = &managed.roles;
    roles.whole("admin", &["admin"], None, json!([])).await;
    roles.whole("edit", &["edit"], Some("admin"), json!([])).await;
    roles.whole("view", &["view"], Some("edit"), json!([])).await;
    roles.part("a", &["view"], &["pods"]).await;
    roles.has("admin", &["pods"]).await;
    roles.part("b", &["admin"], &["roles"]).await;
    roles.has("admin", &["roles", "pods"]).await;
    roles.has("edit", &["pods"]).await;
    roles.patch("a", json!({ "rules": [] })).await;
    roles.has("admin", &["roles"]).await;
    roles.has("edit", &[]).await;
}

#[tokio::test]
async fn rules_that_a_user_writes_into_an_aggregated_role_do_not_stay() {
    let managed = Managed::start().await;
    let roles = &managed.roles;
    roles.part("a", &["sum"], &["pods"]).await;
    roles.whole("sum", &["sum"], None, json!([rule("secrets")])).await;
    roles.has("sum", &["pods"]).await;
    roles.patch("sum", json!({ "rules": [rule("secrets"), rule("nodes")] })).await;
    roles.has("sum", &["pods"]).await;
    // The role's own labels, annotations and selectors stay as they are.
    let note = json!({ "metadata": { "annotations": { "example.com/note": "kept" } }, "rules": null });
    roles.patch("sum", note).await;
    let sum = roles.has("sum", &["pods"]).await;
    assert_eq!(sum.metadata.annotations.unwrap()["example.com/note"], "kept");
    assert_eq!(sum.aggregation_rule.unwrap().cluster_role_selectors.unwrap().len(), 1);
}

#[tokio::test]
async fn a_role_that_becomes_aggregated_gets_its_rules() {
    let managed = Managed::start().await;
    let roles = &managed.roles;
    roles.part("a", &["sum"], &["pods"]).await;
    roles.part("sum", &[], &["secrets"]).await;
    let selector = json!({ "matchExpressions": [{ "key": roles.label("sum"), "operator": "Exists" }] });
    roles.patch("sum", json!({ "aggregationRule": { "clusterRoleSelectors": [selector] } })).await;
    roles.has("sum", &["pods"]).await;
    // One that is no longer aggregated keeps what it has.
    roles.patch("sum", json!({ "aggregationRule": null })).await;
    roles.part("b", &["sum", "marker"], &["nodes"]).await;
    roles.whole("marker", &["marker"], None, json!([])).await;
    roles.has("marker", &["nodes"]).await;
    roles.has("sum", &["pods"]).await;
}

/// A fresh API server has these roles, and they are empty until a controller aggregates them.
#[tokio::test]
async fn the_roles_for_users_are_filled_with_the_rights_of_kubernetes_own_role() {
    let cluster = Cluster::start_own().await;
    if matches!(cluster.server, Server::Embedded(_)) {
        println!("the embedded API server has no roles here, and asks for no rights: not run");
        return;
    }
    let roles = Roles::of(&cluster);
    let count = async |name: &str| roles.api.get(name).await.unwrap().rules.unwrap_or_default().len();
    for name in ["admin", "edit", "view"] {
        assert_eq!(count(name).await, 0, "{name}");
    }
    let limited = cluster.kubeconfig_with_token(AGGREGATION_CONTROLLER_TOKEN);
    let (_one, _other) = (Manager::start(&limited, CONTROLLER), Manager::start(&limited, CONTROLLER));
    for (name, part) in [("view", None), ("edit", Some("view")), ("admin", Some("edit"))] {
        eventually(&format!("{name} is filled"), || async {
            let role = roles.api.get(name).await.unwrap();
            let rules = role.rules.unwrap_or_default();
            let parts = match part {
                Some(part) => roles.api.get(part).await.unwrap().rules.unwrap_or_default(),
                None => Vec::new(),
            };
            let own = roles.api.get(&format!("system:aggregate-to-{name}")).await.unwrap().rules.unwrap();
            let all = own.iter().chain(&parts).all(|rule| rules.contains(rule));
            (all && !rules.is_empty() && (part.is_none() || !parts.is_empty())).then_some(())
        })
        .await;
    }
}
