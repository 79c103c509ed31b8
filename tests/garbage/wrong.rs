//! References to owners that do not exist, or that are somewhere else.

use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::Api;
use kube::api::PropagationPolicy::Background;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::Managed;
use support::eventually;
use support::owned::{Object, config_maps, resource};

fn cluster_roles() -> kube::api::ApiResource {
    resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
}

fn named(name: &str, owners: &[Value]) -> Value {
    json!({ "metadata": { "name": name, "ownerReferences": owners } })
}

/// A reference like this one, but for some members.
fn but(reference: &Value, members: Value) -> Value {
    let mut changed = reference.clone();
    for (name, value) in members.as_object().unwrap() {
        changed[name] = value.clone();
    }
    changed
}

#[tokio::test]
async fn a_dependent_of_an_owner_that_never_was_goes() {
    let managed = Managed::start().await;
    let absent = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "name": "absent", "uid": "absent" });
    let of_map = managed.config_map("of-map", &[absent("ConfigMap")]).await;
    let of_node = managed.config_map("of-node", &[absent("Node")]).await;
    let stays = managed.config_map("stays", &[]).await;
    let of_both = managed.config_map("of-both", &[absent("ConfigMap"), stays.reference()]).await;
    of_map.goes().await;
    of_node.goes().await;
    of_both.has_owners(&[&stays]).await;
}

#[tokio::test]
async fn a_dependent_of_an_owner_of_an_unknown_kind_stays() {
    let managed = Managed::start().await;
    let owner = json!({ "apiVersion": "unknown.example.com/v1", "kind": "Unknown", "name": "x", "uid": "x" });
    let absent = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent" });
    let unknown = managed.config_map("unknown", std::slice::from_ref(&owner)).await;
    let both = managed.config_map("both", &[absent, owner]).await;
    managed.works("later").await;
    managed.works("last").await;
    assert!(unknown.stays().await && both.stays().await);
}

#[tokio::test]
async fn a_reference_with_the_uid_of_an_owner_but_another_name_or_kind_is_to_nothing() {
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    let right = managed.config_map("right", &[owner.reference()]).await;
    managed.works("later").await;
    for (name, members) in [
        ("another-name", json!({ "name": "other" })),
        ("another-kind", json!({ "kind": "Secret" })),
        ("cluster-scoped-kind", json!({ "kind": "Node" })),
    ] {
        managed.config_map(name, &[but(&owner.reference(), members)]).await.goes().await;
    }
    assert!(right.stays().await && owner.stays().await);
    owner.delete(Background).await;
    right.goes().await;
}

/// Another namespace.
async fn namespace(client: &kube::Client) -> String {
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "generateName": "other-" } })).unwrap();
    let created =
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    created.metadata.name.unwrap()
}

/// Waits for the event about a reference to an owner in another namespace, and returns its message.
async fn event(client: &kube::Client, namespace: &str, uid: &str) -> String {
    let events = Api::<Event>::namespaced(client.clone(), namespace);
    eventually("the event OwnerRefInvalidNamespace", || async {
        let all = events.list(&ListParams::default()).await.ok()?.items;
        let found = all.into_iter().find(|event| {
            event.reason.as_deref() == Some("OwnerRefInvalidNamespace")
                && event.involved_object.uid.as_deref() == Some(uid)
        })?;
        assert_eq!(found.type_.as_deref(), Some("Warning"));
        assert_eq!(found.source?.component.as_deref(), Some("garbage-collector-controller"));
        found.message
    })
    .await
}

#[tokio::test]
async fn an_owner_owns_nothing_in_another_namespace() {
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    let valid = managed.config_map("valid", &[owner.reference()]).await;
    managed.works("later").await;
    let elsewhere = namespace(&managed.client).await;
    let forged = named("forged", &[owner.reference()]);
    let forged = Object::create_in(&managed.client, &elsewhere, &config_maps(), forged).await;
    let message = event(&managed.client, &elsewhere, &forged.uid).await;
    let expected = format!(
        "ownerRef [v1/ConfigMap, namespace: {elsewhere}, name: owner, uid: {}] does not exist in namespace \
         \"{elsewhere}\"",
        owner.uid
    );
    assert_eq!(message, expected);
    forged.goes().await;
    assert!(owner.stays().await && valid.stays().await);
}

/// The manager sees the dependents before the owners, or the other way round.
#[tokio::test]
async fn a_manager_that_starts_tells_wrong_references_from_right_ones() {
    let cluster = support::Cluster::start_alone().await;
    let client = cluster.client();
    let elsewhere = namespace(&client).await;
    let owner = Object::config_map(&client, "owner", &[]).await;
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    let secrets = resource("", "v1", "Secret", "secrets");
    for at in 0..5 {
        let reference = owner.reference();
        let manifest = named(&format!("right-{at}"), std::slice::from_ref(&reference));
        right.push(Object::create(&client, &secrets, manifest).await);
        let bad = but(&reference, json!({ "kind": "Pod", "name": "invalid" }));
        for kind in [&secrets, &config_maps()] {
            let manifest = named(&format!("wrong-{at}"), std::slice::from_ref(&bad));
            wrong.push(Object::create_in(&client, &elsewhere, kind, manifest).await);
        }
    }
    let managed = Managed::on(cluster).await;
    for object in wrong {
        object.goes().await;
    }
    managed.works("last").await;
    for object in right.iter().chain([&owner]) {
        assert!(object.stays().await, "{}", object.name);
    }
    owner.delete(Background).await;
    for object in right {
        object.goes().await;
    }
}

#[tokio::test]
async fn a_cluster_scoped_owner_owns_in_every_namespace() {
    let managed = Managed::start().await;
    let roles = cluster_roles();
    let name = format!("owner-of-{}", managed.cluster.namespace);
    let owner = Object::create_cluster_scoped(&managed.client, &roles, named(&name, &[])).await;
    let below = named(&format!("{name}-below"), &[owner.reference()]);
    let below = Object::create_cluster_scoped(&managed.client, &roles, below).await;
    let mut dependents = vec![managed.config_map("dependent", &[owner.reference()]).await];
    let elsewhere = namespace(&managed.client).await;
    let other = named("dependent", &[owner.reference()]);
    dependents.push(Object::create_in(&managed.client, &elsewhere, &config_maps(), other).await);
    managed.works("later").await;
    for dependent in dependents.iter().chain([&below]) {
        assert!(dependent.stays().await, "{}", dependent.name);
    }
    owner.delete(Background).await;
    for dependent in dependents.iter().chain([&below]) {
        dependent.goes().await;
    }
}

#[tokio::test]
async fn a_cluster_scoped_object_is_never_collected_for_a_namespaced_owner() {
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    managed.works("later").await;
    let name = format!("forged-{}", managed.cluster.namespace);
    let forged = named(&name, &[owner.reference()]);
    let forged = Object::create_cluster_scoped(&managed.client, &cluster_roles(), forged).await;
    event(&managed.client, "default", &forged.uid).await;
    owner.delete(Background).await;
    owner.goes().await;
    managed.works("last").await;
    assert!(forged.stays().await);
    forged.delete(Background).await;
}
