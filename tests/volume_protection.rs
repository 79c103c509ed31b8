//! What the manager, as a process, does for claims and volumes in use: protection, claims for ephemeral volumes, and who expands
//! a volume.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{self, Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_testing::{Pod, pod};
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] = &[
    "--controllers=persistentvolumeclaim-protection-controller,persistentvolume-protection-controller,\
     volumeattributesclass-protection-controller,ephemeral-volume-controller,persistentvolume-expander-controller",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];

/// A cluster with a manager at work.
struct Storage {
    client: kube::Client,
    manager: Manager,
    cluster: Cluster,
}

/// What a controller keeps an object by.
const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
const CLASS: &str = "kubernetes.io/vac-protection";

fn claim_spec(storage: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": storage}},
    })
}

/// A pod that uses a claim.
fn user_of(claim: &str, name: &str) -> Pod {
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    pod(name).spec(json!({"volumes": [volume]}))
}

/// A pod `web` with a generic ephemeral volume `data`.
fn with_ephemeral_volume() -> Pod {
    let template = json!({"spec": claim_spec("1Gi")});
    let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": template}});
    pod("web").spec(json!({"volumes": [volume]}))
}

impl Storage {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        Self { client: cluster.client(), manager: Manager::start(&cluster.kubeconfig(), FLAGS), cluster }
    }

    fn of<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::default_namespaced(self.client.clone())
    }

    fn all<K: Resource>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    /// A name for an object without namespace, which no other test uses.
    fn own(&self, name: &str) -> String {
        format!("{name}-{}", self.cluster.namespace)
    }

    async fn event(&self, object: &str, reason: &str) -> [String; 3] {
        let events = self.of::<Event>();
        eventually(&format!("{object} has an event {reason}"), || async {
            let events = events.list(&ListParams::default()).await.ok()?;
            let event = events.items.into_iter().find(|event| {
                event.involved_object.name.as_deref() == Some(object)
                    && event.reason.as_deref() == Some(reason)
            })?;
            Some([event.type_?, event.message?, event.source?.component?])
        })
        .await
    }
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn patch<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, patch: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn patch_status<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn delete<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Deletes a pod as its kubelet does once its containers have ended.
async fn end(pods: &Api<v1::Pod>, name: &str) {
    pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
}

async fn is_gone<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str) {
    eventually(&format!("{name} is gone"), || async {
        api.get_opt(name).await.ok()?.is_none().then_some(())
    })
    .await;
}

/// Waits until an object has a finalizer.
async fn is_protected<K: Resource + Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, by: &str) {
    eventually(&format!("{name} is protected"), || async {
        let object = api.get(name).await.ok()?;
        object.meta().finalizers.as_ref()?.iter().any(|finalizer| finalizer == by).then_some(())
    })
    .await;
}

/// Asserts that an object is being deleted and protected.
async fn is_kept<K: Resource + Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, by: &str) {
    let meta = api.get(name).await.unwrap().meta().clone();
    assert!(meta.deletion_timestamp.is_some(), "{name}");
    assert!(meta.finalizers.unwrap_or_default().iter().any(|finalizer| finalizer == by), "{name}");
}

/// Waits until the manager has let another claim of the namespace go. It takes one claim at a time.
async fn marker(claims: &Api<PersistentVolumeClaim>, name: &str) {
    create(claims, json!({"metadata": {"name": name}, "spec": claim_spec("1Gi")})).await;
    is_protected(claims, name, CLAIM).await;
    delete(claims, name).await;
    is_gone(claims, name).await;
}

#[tokio::test]
async fn a_claim_stays_until_the_last_scheduled_pod_that_uses_it_is_gone() {
    let storage = Storage::start().await;
    let (claims, pods) = (storage.of::<PersistentVolumeClaim>(), storage.of::<v1::Pod>());
    for name in ["used", "unused"] {
        create(&claims, json!({"metadata": {"name": name}, "spec": claim_spec("1Gi")})).await;
        is_protected(&claims, name, CLAIM).await;
    }
    create(&pods, user_of("used", "runs").on("n1").build()).await;
    create(&pods, user_of("used", "succeeds").on("n1").build()).await;
    create(&pods, user_of("unused", "waits").build()).await;
    for name in ["used", "unused"] {
        delete(&claims, name).await;
    }
    // A pod that was never scheduled does not count.
    is_gone(&claims, "unused").await;
    is_kept(&claims, "used", CLAIM).await;

    patch_status(&pods, "succeeds", json!({"phase": "Succeeded"})).await;
    end(&pods, "runs").await;
    marker(&claims, "marker").await;
    is_kept(&claims, "used", CLAIM).await;
    end(&pods, "succeeds").await;
    is_gone(&claims, "used").await;
}

#[tokio::test]
async fn a_volume_stays_while_it_is_bound() {
    let storage = Storage::start().await;
    let volumes = storage.all::<PersistentVolume>();
    let [bound, free] = ["bound", "free"].map(|name| storage.own(name));
    for name in [&bound, &free] {
        let spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/none"}, "storageClassName": "none",
        });
        create(&volumes, json!({"metadata": {"name": name}, "spec": spec})).await;
        is_protected(&volumes, name, VOLUME).await;
    }
    patch_status(&volumes, &bound, json!({"phase": "Bound"})).await;
    for name in [&bound, &free] {
        // Not before the manager has seen the phase: it looks at nothing but its cache, as upstream's.
        delete(&volumes, name).await;
    }
    is_gone(&volumes, &free).await;
    is_kept(&volumes, &bound, VOLUME).await;
    patch_status(&volumes, &bound, json!({"phase": "Released"})).await;
    is_gone(&volumes, &bound).await;
}

#[tokio::test]
async fn a_volume_attributes_class_stays_while_a_claim_or_a_volume_names_it() {
    let storage = Storage::start().await;
    let classes = storage.all::<VolumeAttributesClass>();
    let (claims, volumes) = (storage.of::<PersistentVolumeClaim>(), storage.all::<PersistentVolume>());
    let [gold, silver, unused, volume] = ["gold", "silver", "unused", "volume"].map(|name| storage.own(name));
    for name in [&gold, &silver, &unused] {
        let class = json!({
            "metadata": {"name": name}, "driverName": "csi.example.com", "parameters": {"iops": "100"},
        });
        create(&classes, class).await;
        is_protected(&classes, name, CLASS).await;
    }
    let mut spec = claim_spec("1Gi");
    spec["volumeAttributesClassName"] = gold.as_str().into();
    create(&claims, json!({"metadata": {"name": "claim"}, "spec": spec})).await;
    let spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"}, "volumeAttributesClassName": silver,
    });
    create(&volumes, json!({"metadata": {"name": volume}, "spec": spec})).await;
    is_protected(&claims, "claim", CLAIM).await;
    is_protected(&volumes, &volume, VOLUME).await;
    for name in [&gold, &silver, &unused] {
        delete(&classes, name).await;
    }
    is_gone(&classes, &unused).await;
    is_kept(&classes, &gold, CLASS).await;
    is_kept(&classes, &silver, CLASS).await;
    delete(&claims, "claim").await;
    is_gone(&classes, &gold).await;
    is_kept(&classes, &silver, CLASS).await;
    delete(&volumes, &volume).await;
    is_gone(&classes, &silver).await;
}

#[tokio::test]
async fn a_claim_is_made_for_each_ephemeral_volume_and_again_if_it_is_deleted() {
    let storage = Storage::start().await;
    let (claims, pods) = (storage.of::<PersistentVolumeClaim>(), storage.of::<v1::Pod>());
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "scratch"}}, "spec": claim_spec("2Gi"),
    });
    let volume = |name: &str| json!({"name": name, "ephemeral": {"volumeClaimTemplate": template}});
    let volumes = json!([volume("one"), {"name": "e", "emptyDir": {}}, volume("two")]);
    let made = create(&pods, pod("web").spec(json!({"volumes": volumes})).build()).await;
    let claim = |name: &'static str| {
        let claims = &claims;
        eventually(name, move || async move { claims.get_opt(name).await.ok()? })
    };
    let mut uids = Vec::new();
    for name in ["web-one", "web-two"] {
        let claim = claim(name).await;
        let meta = claim.metadata;
        let owner = &meta.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            serde_json::to_value(owner).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made.metadata.uid, "controller": true,
                "blockOwnerDeletion": true,
            })
        );
        assert_eq!(meta.labels.unwrap()["app"], "web");
        assert_eq!(meta.annotations.unwrap()["note"], "scratch");
        let spec = serde_json::to_value(claim.spec.unwrap()).unwrap();
        assert_eq!(spec["resources"], json!({"requests": {"storage": "2Gi"}}));
        assert_eq!(spec["accessModes"], json!(["ReadWriteOnce"]));
        uids.push(meta.uid.unwrap());
    }
    // No kubelet has the pod, so the claim is not in use.
    delete(&claims, "web-one").await;
    eventually("web-one is made again", || async {
        let again = claims.get_opt("web-one").await.ok()??;
        (again.metadata.uid.as_ref() != Some(&uids[0])).then_some(())
    })
    .await;
    assert_eq!(claim("web-two").await.metadata.uid.unwrap(), uids[1]);
    if storage.manager.is_steersman() {
        let (_, metrics) = storage.manager.get("/metrics").await.unwrap();
        for sample in [
            "ephemeral_volume_controller_create_total 3",
            "ephemeral_volume_controller_create_failures_total 0",
        ] {
            assert!(metrics.contains(sample), "{sample}\n{metrics}");
        }
    }
}

#[tokio::test]
async fn a_claim_of_another_stands_in_the_way_until_it_is_gone() {
    let storage = Storage::start().await;
    let (claims, pods) = (storage.of::<PersistentVolumeClaim>(), storage.of::<v1::Pod>());
    let foreign = create(&claims, json!({"metadata": {"name": "web-data"}, "spec": claim_spec("1Gi")})).await;
    is_protected(&claims, "web-data", CLAIM).await;
    create(&pods, with_ephemeral_volume().build()).await;
    let namespace = &storage.cluster.namespace;
    let why = format!(
        "ephemeral volume data: PVC {namespace}/web-data was not created for pod {namespace}/web (pod is not owner)"
    );
    let event = storage.event("web", "FailedBinding").await;
    assert_eq!(event, ["Warning".to_owned(), why, "ephemeral_volume".to_owned()]);
    delete(&claims, "web-data").await;
    eventually("the pod has a claim", || async {
        let claim = claims.get_opt("web-data").await.ok()??;
        (claim.metadata.uid != foreign.metadata.uid).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_was_made_for_a_pod_goes_with_the_pod_that_waits_for_it() {
    let storage = Storage::start().await;
    let (claims, pods) = (storage.of::<PersistentVolumeClaim>(), storage.of::<v1::Pod>());
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    create(&pods, with_ephemeral_volume().on("n1").with(held).build()).await;
    eventually("the claim is made", || async { claims.get_opt("web-data").await.ok()? }).await;
    is_protected(&claims, "web-data", CLAIM).await;
    delete(&claims, "web-data").await;
    marker(&claims, "marker").await;
    is_kept(&claims, "web-data", CLAIM).await;
    // The kubelet is done with the pod, which the finalizer keeps.
    end(&pods, "web").await;
    is_gone(&claims, "web-data").await;
    assert!(pods.get("web").await.unwrap().metadata.deletion_timestamp.is_some());
    patch(&pods, "web", json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test]
async fn users_are_told_who_expands_their_volumes() {
    let storage = Storage::start().await;
    let claims = storage.of::<PersistentVolumeClaim>();
    let class = storage.own("grows");
    let grows = json!({
        "metadata": {"name": class}, "provisioner": "csi.example.com", "allowVolumeExpansion": true,
    });
    create(&storage.all::<StorageClass>(), grows).await;
    let external = "waiting for an external controller to expand this PVC";
    let migrated =
        "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc";
    for (name, source, says, resizer) in [
        ("csi", json!({"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}), external, None),
        ("aws", json!({"awsElasticBlockStore": {"volumeID": "v"}}), migrated, Some("ebs.csi.aws.com")),
    ] {
        let volume = storage.own(name);
        let mut spec = claim_spec("1Gi");
        spec["storageClassName"] = class.as_str().into();
        spec["volumeName"] = volume.as_str().into();
        let claim = create(&claims, json!({"metadata": {"name": name}, "spec": spec})).await;
        let mut spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": storage.cluster.namespace,
                "name": name, "uid": claim.metadata.uid,
            },
        });
        for (field, value) in source.as_object().unwrap() {
            spec[field] = value.clone();
        }
        create(&storage.all::<PersistentVolume>(), json!({"metadata": {"name": volume}, "spec": spec})).await;
        let bound =
            json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        patch_status(&claims, name, bound).await;
        patch(&claims, name, json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})).await;
        let event = storage.event(name, "ExternalExpanding").await;
        assert_eq!(event, ["Normal", says, "volume_expand"], "{name}");
        if let Some(driver) = resizer {
            eventually("the driver is named", || async {
                let claim = claims.get(name).await.ok()?;
                let named = claim.metadata.annotations?.get("volume.kubernetes.io/storage-resizer").cloned();
                (named.as_deref() == Some(driver)).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_manager_that_is_killed_and_started_again_lets_go_what_became_unused_meanwhile() {
    let mut storage = Storage::start().await;
    let (claims, pods) = (storage.of::<PersistentVolumeClaim>(), storage.of::<v1::Pod>());
    let names: Vec<String> = (0..20).map(|at| format!("c{at}")).collect();
    for name in &names {
        create(&claims, json!({"metadata": {"name": name}, "spec": claim_spec("1Gi")})).await;
        create(&pods, user_of(name, name).on("n1").build()).await;
    }
    for name in &names {
        is_protected(&claims, name, CLAIM).await;
        delete(&claims, name).await;
    }
    for (at, name) in names.iter().enumerate() {
        if at % 8 == 2 {
            storage.manager.kill();
        }
        end(&pods, name).await;
        if at % 8 == 5 {
            storage.manager = Manager::start(&storage.cluster.kubeconfig(), FLAGS);
        }
    }
    storage.manager.kill();
    storage.manager = Manager::start(&storage.cluster.kubeconfig(), FLAGS);
    for name in &names {
        is_gone(&claims, name).await;
    }
}
