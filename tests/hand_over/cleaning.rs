//! Namespaces that are being deleted, and aggregated roles, that go from one manager to the other.

use std::path::Path;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use support::manager::Manager;
use support::namespaces::{Space, bound_pod, config_map, held};
use support::{Cluster, eventually};

const NAMESPACES: &str = "--controllers=namespace-controller";
const ROLES: &str = "--controllers=clusterrole-aggregation-controller";
const HOLD: &str = "example.com/hold";

/// Starts a manager with these flags.
type Start<'a> = &'a dyn Fn(&Path, &[&str]) -> Manager;

/// Namespaces handed over in the middle: one manager deletes the pods, the other one the rest and the namespace; one tells
/// what holds a namespace, the other one lets it go.
pub(super) async fn namespaces(cluster: &Cluster, first: Start<'_>, second: Start<'_>) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let (staged, blocked) = (Space::create(&client).await, Space::create(&client).await);
    let holding = held(config_map("held"), &[HOLD]);
    for object in [bound_pod("pod"), config_map("map")] {
        staged.put(object).await;
    }
    for object in [holding.clone(), config_map("map")] {
        blocked.put(object).await;
    }
    staged.delete().await;
    blocked.delete().await;
    let one = first(&kubeconfig, &[NAMESPACES]);
    let told = blocked.says("NamespaceContentRemaining", "True", "SomeResourcesRemain").await;
    eventually("the pod is being deleted", || async {
        staged.list(&bound_pod("pod")).await.get("pod").copied().filter(|is_deleting| *is_deleting)
    })
    .await;
    drop(one);
    staged.end(&bound_pod("pod")).await;
    assert!(!staged.has_none(&config_map("map")).await);

    let _other = second(&kubeconfig, &[NAMESPACES]);
    staged.is_gone().await;
    assert_eq!(blocked.says("NamespaceContentRemaining", "True", "SomeResourcesRemain").await, told);
    blocked.release(&holding).await;
    blocked.is_gone().await;
}

/// The version of each aggregated role.
async fn versions(roles: &Api<ClusterRole>) -> Vec<(String, String)> {
    let all = roles.list(&Default::default()).await.expect("roles must be listed").items;
    let aggregated = all.into_iter().filter(|role| role.aggregation_rule.is_some()).map(|role| role.metadata);
    aggregated
        .map(|meta| (meta.name.unwrap_or_default(), meta.resource_version.unwrap_or_default()))
        .collect()
}

async fn create(roles: &Api<ClusterRole>, role: Value) {
    let role = serde_json::from_value(role).expect("it is a role");
    roles.create(&PostParams::default(), &role).await.expect("a role must be made");
}

/// Has the running manager aggregate one more role. Once it has, it has also looked at the older ones.
async fn aggregate_one_more(roles: &Api<ClusterRole>, name: &str) {
    let rule = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] });
    let labels = json!({ format!("example.com/{name}"): "true" });
    create(
        roles,
        json!({ "metadata": { "name": format!("{name}-part"), "labels": labels }, "rules": [rule] }),
    )
    .await;
    let selectors = json!([{ "matchLabels": labels }]);
    create(
        roles,
        json!({ "metadata": { "name": name }, "aggregationRule": { "clusterRoleSelectors": selectors }, "rules": [] }),
    )
    .await;
    eventually(&format!("{name} is aggregated"), || async {
        let role = roles.get(name).await.ok()?;
        (role.rules?.len() == 1).then_some(())
    })
    .await;
}

/// Roles handed over: the second manager changes nothing in what the first one left, and goes on.
pub(super) async fn roles(cluster: &Cluster, first: Start<'_>, second: Start<'_>) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let roles = Api::<ClusterRole>::all(client);
    let one = first(&kubeconfig, &[ROLES]);
    aggregate_one_more(&roles, "first").await;
    eventually("the roles for users are filled, if there are any", || async {
        for (whole, part) in [
            ("view", "system:aggregate-to-view"),
            ("edit", "system:aggregate-to-edit"),
            ("edit", "view"),
            ("admin", "system:aggregate-to-admin"),
            ("admin", "edit"),
        ] {
            let Some(whole) = roles.get_opt(whole).await.ok()? else { break };
            let (all, part) = (whole.rules.unwrap_or_default(), roles.get(part).await.ok()?.rules);
            if !part.unwrap_or_default().iter().all(|rule| all.contains(rule)) {
                return None;
            }
        }
        Some(())
    })
    .await;
    drop(one);
    let before = versions(&roles).await;
    let other = second(&kubeconfig, &[ROLES]);
    aggregate_one_more(&roles, "second").await;
    let mut after = versions(&roles).await;
    after.retain(|(name, _)| name != "second");
    assert_eq!(after, before, "the second manager changed what the first one left");

    // The second one owns the fields that the first one has applied.
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "example.com/first": null } } }));
    roles.patch("first-part", &PatchParams::default(), &patch).await.expect("a role must be patched");
    eventually("the rules of the first role are gone", || async {
        let role = roles.get("first").await.ok()?;
        role.rules.is_none_or(|rules| rules.is_empty()).then_some(())
    })
    .await;
    drop(other);
}
