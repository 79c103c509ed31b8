//! Custom resources, which come and go with their definitions.

use kube::api::PropagationPolicy::{Background, Foreground, Orphan};
use kube::api::{ApiResource, ListParams};
use serde_json::{Value, json};

use super::{Managed, SLOW};
use support::manager::Manager;
use support::owned::{KEPT, Object, resource};
use support::{Cluster, eventually};

/// A definition, with objects of its kind.
struct Custom {
    definition: Object,
    resource: ApiResource,
    client: kube::Client,
}

impl Custom {
    /// Creates a definition whose group no other test has, and waits until the API server serves its kind.
    async fn create(managed: &Managed, plural: &str) -> Self {
        let group = format!("{}.example.com", managed.cluster.namespace);
        let kind = "Widget";
        let definitions =
            resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
        let schema = json!({ "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } });
        let manifest = json!({
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "plural": plural, "kind": kind },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
            },
        });
        let definition = Object::create_cluster_scoped(&managed.client, &definitions, manifest).await;
        let resource = resource(&group, "v1", kind, plural);
        let custom = Self { definition, resource, client: managed.client.clone() };
        let api = kube::Api::<kube::api::DynamicObject>::default_namespaced_with(
            managed.client.clone(),
            &custom.resource,
        );
        eventually("the kind is served", || async { api.list(&ListParams::default()).await.ok().map(drop) })
            .await;
        custom
    }

    async fn object(&self, name: &str, owners: &[Value], finalizers: &[&str]) -> Object {
        let metadata = json!({ "name": name, "ownerReferences": owners, "finalizers": finalizers });
        Object::create(&self.client, &self.resource, json!({ "metadata": metadata })).await
    }

    /// Waits until the manager watches the kind: it deletes an object of the kind in the foreground.
    async fn is_watched(&self) {
        let probe = self.object("probe", &[], &[]).await;
        probe.delete(Foreground).await;
        probe.goes().await;
    }
}

#[tokio::test]
async fn custom_resources_own_and_are_owned() {
    let managed = Managed::start().await;
    let custom = Custom::create(&managed, "widgets").await;
    custom.is_watched().await;
    let top = custom.object("top", &[], &[]).await;
    let middle = custom.object("middle", &[top.blocking()], &[]).await;
    let map = managed.config_map("map", &[middle.blocking()]).await;
    let [stays, goes] = [managed.config_map("stays", &[]).await, managed.config_map("goes", &[]).await];
    let shared = custom.object("shared", &[stays.reference(), goes.reference()], &[]).await;
    let below = custom.object("below", &[map.reference()], &[]).await;
    managed.works("later").await;
    goes.delete(Background).await;
    // Custom resources take no strategic merge patch.
    shared.has_owners(&[&stays]).await;
    top.delete(Foreground).await;
    for object in [&top, &middle, &map, &below] {
        object.goes().await;
    }
    let owner = custom.object("owner", &[], &[]).await;
    let dependent = custom.object("dependent", &[owner.blocking()], &[KEPT]).await;
    let released = managed.config_map("released", &[owner.blocking()]).await;
    managed.works("last").await;
    owner.delete(Orphan).await;
    owner.goes().await;
    for object in [&dependent, &released] {
        object.has_owners(&[]).await;
        assert!(object.stays().await);
    }
    dependent.release().await;
    custom.definition.delete(Background).await;
    custom.definition.goes().await;
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_and_their_dependents_along() {
    let managed = Managed::start().await;
    for pass in ["first", "second"] {
        let custom = Custom::create(&managed, "gadgets").await;
        custom.is_watched().await;
        let mut dependents = Vec::new();
        for at in 0..5 {
            let owner = custom.object(&format!("owner-{at}"), &[], &[]).await;
            dependents
                .push(managed.config_map(&format!("{pass}-dependent-{at}"), &[owner.reference()]).await);
        }
        managed.works(&format!("{pass}-works")).await;
        custom.definition.delete(Background).await;
        custom.definition.goes().await;
        for dependent in dependents {
            dependent.goes().await;
        }
    }
}

#[tokio::test]
async fn the_dependents_of_an_owner_of_a_kind_that_is_not_known_yet_stay() {
    let managed = Managed::start().await;
    let custom = Custom::create(&managed, "gizmos").await;
    let owner = custom.object("owner", &[], &[]).await;
    let dependent = managed.config_map("dependent", &[owner.reference()]).await;
    custom.is_watched().await;
    managed.works("last").await;
    assert!(dependent.stays().await);
    owner.delete(Background).await;
    dependent.goes().await;
    custom.definition.delete(Background).await;
    custom.definition.goes().await;
}

/// The definition waits for its last object, and the owner for its last dependent: the same object.
#[tokio::test]
async fn a_foreground_deletion_ends_though_the_definition_of_the_dependents_is_deleted_meanwhile() {
    let managed = Managed::start().await;
    let custom = Custom::create(&managed, "trinkets").await;
    custom.is_watched().await;
    let owner = managed.config_map("owner", &[]).await;
    let held = custom.object("held", &[owner.blocking()], &[KEPT]).await;
    let free = custom.object("free", &[owner.blocking()], &[]).await;
    managed.works("later").await;
    owner.delete(Foreground).await;
    held.is_deleted().await;
    free.goes().await;
    custom.definition.delete(Background).await;
    custom.definition.is_deleted().await;
    managed.works("meanwhile").await;
    assert!(owner.get().await.is_some() && custom.definition.get().await.is_some(), "both wait");
    held.release().await;
    owner.goes().await;
    custom.definition.goes().await;
    managed.works("last").await;
}

#[tokio::test]
async fn orphaning_ends_though_the_definition_of_the_dependents_is_deleted_meanwhile() {
    let cluster = Cluster::start_alone().await;
    let manager = Manager::start(&cluster.kubeconfig(), SLOW);
    let managed = Managed { client: cluster.client(), manager, cluster };
    managed.works("first").await;
    let custom = Custom::create(&managed, "baubles").await;
    custom.is_watched().await;
    let owner = managed.config_map("owner", &[]).await;
    let mut dependents = Vec::new();
    for at in 0..60 {
        dependents.push(custom.object(&format!("dependent-{at}"), &[owner.blocking()], &[]).await);
    }
    // Keeps the definition until the owner is gone.
    let held = custom.object("held", &[owner.blocking()], &[KEPT]).await;
    let map = managed.config_map("map", &[owner.blocking()]).await;
    managed.works("later").await;
    owner.delete(Orphan).await;
    eventually("some dependents are released", || async {
        let all = dependents[0].api.list(&ListParams::default()).await.ok()?.items;
        all.iter().any(|one| one.metadata.owner_references.iter().flatten().next().is_none()).then_some(())
    })
    .await;
    assert!(owner.get().await.is_some(), "it is in the middle");
    custom.definition.delete(Background).await;
    owner.goes().await;
    for object in [&held, &map] {
        object.has_owners(&[]).await;
    }
    assert!(map.stays().await);
    held.release().await;
    custom.definition.goes().await;
    for dependent in dependents {
        dependent.goes().await;
    }
    managed.works("last").await;
}
