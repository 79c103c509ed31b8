//! StatefulSets kept by the manager, as a process, while a test plays the kubelet.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_api::Time;
use support::history::PodHistory;
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::replicas::{create_pod, image_of, mark};
use support::stateful_sets::{Set, claim_template, manifest, revision_of};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=statefulset-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second that a test sees the manager in the middle of its work.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=5", "--kube-api-burst=5"];

async fn create(managed: &Managed, replicas: u32, spec: Value) -> Set {
    Set::create(&managed.client, with(replicas, spec)).await
}

/// The set `web` with these fields in its spec.
fn with(replicas: u32, spec: Value) -> Value {
    let mut manifest = manifest("web", replicas);
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

fn parallel() -> Value {
    json!({ "podManagementPolicy": "Parallel" })
}

/// A template whose pods are on a node: they end when a test says so.
fn on_a_node(name: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "main", "image": "image:1" }] },
    })
}

#[tokio::test]
async fn a_pod_has_its_name_its_number_and_its_place_in_dns() {
    let managed = Managed::start(QUICK).await;
    let mut template = on_a_node("web");
    template["metadata"]["annotations"] = json!({ "example.com/note": "kept" });
    template["metadata"]["finalizers"] = json!(["example.com/kept"]);
    let set = create(&managed, 1, json!({ "template": template })).await;
    let pod = set.waits_for(0).await;
    let revision = set.history().await[&1].clone();
    let labels = serde_json::to_value(&pod.metadata.labels).unwrap();
    let expected = json!({
        "app": "web", "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": revision,
    });
    assert_eq!(labels, expected);
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["example.com/note"], "kept");
    assert_eq!(pod.metadata.finalizers.as_ref().unwrap(), &["example.com/kept"]);
    let owners = serde_json::to_value(&pod.metadata.owner_references).unwrap();
    let expected = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(owners, expected);
    let spec = pod.spec.unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-0"), Some("web")));
}

#[tokio::test]
async fn ordered_pods_are_created_each_after_its_predecessor_is_ready() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 3, json!({})).await;
    set.rests_at(&[0]).await;
    set.mark(0, "Running", "False").await;
    set.reports(json!({ "replicas": 1, "readyReplicas": 0 })).await;
    set.rests_at(&[0]).await;
    set.ready(0).await;
    set.reports(json!({ "replicas": 2, "readyReplicas": 1, "availableReplicas": 1 })).await;
    set.rests_at(&[0, 1]).await;
    set.ready(1).await;
    set.ready(2).await;
    let status = set.reports(json!({ "replicas": 3, "readyReplicas": 3, "currentReplicas": 3 })).await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(status["updatedReplicas"], 3);
    assert_eq!(status["collisionCount"], 0);
}

#[tokio::test]
async fn ordered_pods_are_deleted_each_after_its_successor_is_gone() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 4, json!({ "template": on_a_node("web") })).await;
    set.all_ready(&[0, 1, 2, 3]).await;
    set.reports(json!({ "readyReplicas": 4 })).await;
    set.scale(1).await;
    for number in [3, 2, 1] {
        let lower = set.pod(number - 1);
        eventually("the highest is being deleted", || async {
            set.pods.get(&set.pod(number)).await.ok()?.metadata.deletion_timestamp.map(|_| ())
        })
        .await;
        assert!(set.pods.get(&lower).await.unwrap().metadata.deletion_timestamp.is_none(), "{lower} waits");
        set.end(number).await;
    }
    set.rests_at(&[0]).await;
}

#[tokio::test]
async fn parallel_pods_are_created_and_deleted_at_once() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 3, parallel()).await;
    set.rests_at(&[0, 1, 2]).await;
    set.scale(5).await;
    set.rests_at(&[0, 1, 2, 3, 4]).await;
    set.scale(0).await;
    set.rests_at(&[]).await;
}

#[tokio::test]
async fn a_pod_that_has_ended_is_replaced_by_one_of_its_name() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 2, json!({})).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    for (number, phase) in [(0, "Failed"), (1, "Succeeded")] {
        let old = set.waits_for(number).await;
        set.mark(number, phase, "False").await;
        set.replaces(number, &old).await;
        set.ready(number).await;
        set.reports(json!({ "replicas": 2, "readyReplicas": 2 })).await;
    }
    let old = set.waits_for(0).await;
    set.delete(0).await;
    set.replaces(0, &old).await;
}

#[tokio::test]
async fn a_rolling_update_goes_from_the_highest_pod_down_to_the_partition() {
    let managed = Managed::start(QUICK).await;
    let partition = |at: u32| json!({ "updateStrategy": { "rollingUpdate": { "partition": at } } });
    let set = create(&managed, 3, partition(2)).await;
    set.all_ready(&[0, 1, 2]).await;
    let first = set.reports(json!({ "readyReplicas": 3 })).await["currentRevision"].clone();
    let old = set.has(&[0, 1, 2]).await;
    set.update(2).await;
    let new = set.replaces(2, &old["web-2"]).await;
    assert_eq!(image_of(&new), "image:2");
    set.ready(2).await;
    let status = set.reports(json!({ "readyReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1 })).await;
    assert_eq!(status["currentRevision"], first);
    assert_eq!(status["updateRevision"], revision_of(&new));
    assert_ne!(status["updateRevision"], first);

    // A pod below the partition comes back as it was.
    set.delete(0).await;
    let again = set.replaces(0, &old["web-0"]).await;
    assert_eq!((image_of(&again), json!(revision_of(&again))), ("image:1", first));
    set.ready(0).await;
    set.reports(json!({ "readyReplicas": 3, "currentReplicas": 2 })).await;

    set.patch(json!({ "spec": partition(0) })).await;
    set.replaces(1, &old["web-1"]).await;
    set.reports(json!({ "replicas": 3, "readyReplicas": 2, "updatedReplicas": 2 })).await;
    assert_eq!(set.waits_for(0).await.metadata.uid, again.metadata.uid, "it waits for web-1");
    set.ready(1).await;
    set.replaces(0, &again).await;
    set.ready(0).await;
    let status = set.reports(json!({ "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3 })).await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(status["currentRevision"], revision_of(&new));
}

#[tokio::test]
async fn pods_of_a_set_that_updates_on_delete_get_the_template_when_they_are_deleted() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 2, json!({ "updateStrategy": { "type": "OnDelete" } })).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    let old = set.has(&[0, 1]).await;
    set.update(2).await;
    set.reports(json!({ "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 0 })).await;
    set.delete(1).await;
    assert_eq!(image_of(&set.replaces(1, &old["web-1"]).await), "image:2");
    set.ready(1).await;
    set.reports(json!({ "readyReplicas": 2, "currentReplicas": 1, "updatedReplicas": 1 })).await;
    assert_eq!(set.waits_for(0).await.metadata.uid, old["web-0"].metadata.uid);
}

#[tokio::test]
async fn a_template_that_comes_back_raises_its_revision() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 1, json!({})).await;
    set.ready(0).await;
    set.reports(json!({ "readyReplicas": 1 })).await;
    let first = set.waits_for(0).await;
    set.update(2).await;
    let second = set.replaces(0, &first).await;
    set.ready(0).await;
    set.reports(json!({ "readyReplicas": 1, "updatedReplicas": 1 })).await;
    let before = set.history().await;
    assert_eq!(before, [(1, revision_of(&first)), (2, revision_of(&second))].into());
    set.update(1).await;
    let third = set.replaces(0, &second).await;
    assert_eq!((image_of(&third), revision_of(&third)), ("image:1", revision_of(&first)));
    assert_eq!(set.history().await, [(2, revision_of(&second)), (3, revision_of(&first))].into());
}

#[tokio::test]
async fn revisions_beyond_the_limit_are_deleted_from_the_oldest() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 1, json!({ "revisionHistoryLimit": 1 })).await;
    let mut last = set.waits_for(0).await;
    set.ready(0).await;
    set.reports(json!({ "readyReplicas": 1 })).await;
    for tag in 2..5 {
        set.update(tag).await;
        last = set.replaces(0, &last).await;
        set.ready(0).await;
        set.reports(json!({ "readyReplicas": 1, "updatedReplicas": 1, "currentReplicas": 1 })).await;
    }
    let history = eventually("two revisions are left", || async {
        let history = set.history().await;
        (history.len() == 2).then_some(history)
    })
    .await;
    assert_eq!(history.keys().copied().collect::<Vec<_>>(), [3, 4]);
}

#[tokio::test]
async fn a_revision_is_owned_and_labelled() {
    let managed = Managed::start(QUICK).await;
    let mut manifest = manifest("web", 1);
    manifest["metadata"]["annotations"] = json!({ "example.com/note": "kept" });
    let set = Set::create(&managed.client, manifest).await;
    set.waits_for(0).await;
    let name = set.history().await[&1].clone();
    let revision = set.revisions.get(&name).await.unwrap();
    let labels = revision.metadata.labels.unwrap();
    assert_eq!(labels["app"], "web");
    assert_eq!(name, format!("web-{}", labels["controller.kubernetes.io/hash"]));
    assert_eq!(revision.metadata.annotations.unwrap()["example.com/note"], "kept");
    let owner = &revision.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.controller), (set.uid.as_str(), Some(true)));
    let data = serde_json::to_value(revision.data.unwrap().0).unwrap();
    assert_eq!(data["spec"]["template"]["$patch"], "replace");
    assert_eq!(data["spec"]["template"]["spec"]["containers"][0]["image"], "image:1");
}

#[tokio::test]
async fn each_pod_has_claims_of_its_own_which_outlive_it() {
    let managed = Managed::start(QUICK).await;
    let templates = json!([claim_template("data"), claim_template("logs")]);
    let set = create(&managed, 2, json!({ "volumeClaimTemplates": templates })).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    for pod in ["web-0", "web-1"] {
        let volumes = set.pods.get(pod).await.unwrap().spec.unwrap().volumes.unwrap();
        for template in ["data", "logs"] {
            let name = format!("{template}-{pod}");
            let claim = set.claims.get(&name).await.unwrap();
            let labels = claim.metadata.labels.unwrap();
            assert_eq!((labels["app"].as_str(), labels["kept"].as_str()), ("web", "yes"));
            assert!(claim.metadata.owner_references.is_none(), "the policy is to retain claims");
            let volume = volumes.iter().find(|volume| volume.name == template).unwrap();
            assert_eq!(volume.persistent_volume_claim.as_ref().unwrap().claim_name, name);
            set.event(
                "SuccessfulCreate",
                &format!("Create Claim {name} Pod {pod} in StatefulSet web success"),
            )
            .await;
        }
    }
    let claim = set.claims.get("data-web-1").await.unwrap();
    set.scale(1).await;
    set.rests_at(&[0]).await;
    set.scale(2).await;
    set.waits_for(1).await;
    assert_eq!(set.claims.get("data-web-1").await.unwrap().metadata.uid, claim.metadata.uid);
}

#[tokio::test]
async fn a_pending_pod_whose_claim_is_gone_gets_another() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 1, json!({ "volumeClaimTemplates": [claim_template("data")] })).await;
    set.waits_for(0).await;
    let old = set.claims.get("data-web-0").await.unwrap();
    set.claims.delete("data-web-0", &DeleteParams::default()).await.unwrap();
    // No controller here releases the claim from its protection.
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    if set.claims.get_opt("data-web-0").await.unwrap().is_some() {
        let _ = set.claims.patch("data-web-0", &PatchParams::default(), &free).await;
    }
    set.patch(json!({ "metadata": { "annotations": { "look": "again" } } })).await;
    eventually("there is another claim", || async {
        let claim = set.claims.get_opt("data-web-0").await.ok()??;
        (claim.metadata.uid != old.metadata.uid).then_some(())
    })
    .await;
}

#[tokio::test]
async fn claims_are_owned_as_the_retention_policy_demands() {
    let managed = Managed::start(QUICK).await;
    let policy = |deleted: &str, scaled: &str| json!({ "whenDeleted": deleted, "whenScaled": scaled });
    let spec = json!({
        "volumeClaimTemplates": [claim_template("data")],
        "persistentVolumeClaimRetentionPolicy": policy("Delete", "Delete"),
        "template": on_a_node("web"),
    });
    let set = create(&managed, 2, spec).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    for claim in ["data-web-0", "data-web-1"] {
        set.owned_by(claim, &[("StatefulSet", "web")]).await;
    }
    set.scale(1).await;
    set.owned_by("data-web-1", &[("Pod", "web-1")]).await;
    set.end(1).await;
    set.rests_at(&[0]).await;

    // The claim is about to go with the pod that owns it, so that the next pod waits.
    set.scale(2).await;
    set.rests_at(&[0]).await;
    set.patch(json!({ "spec": { "persistentVolumeClaimRetentionPolicy": policy("Retain", "Retain") } }))
        .await;
    set.owned_by("data-web-0", &[]).await;
    set.waits_for(1).await;
    set.patch(json!({ "spec": { "persistentVolumeClaimRetentionPolicy": policy("Delete", "Retain") } }))
        .await;
    set.owned_by("data-web-0", &[("StatefulSet", "web")]).await;
}

#[tokio::test]
async fn a_claim_that_another_controller_manages_is_left_alone() {
    let managed = Managed::start(QUICK).await;
    let claims = Api::default_namespaced(managed.client.clone());
    let mut claim = claim_template("data-web-0");
    claim["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other", "controller": true,
    }]);
    let claim: k8s_openapi::api::core::v1::PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap();
    let spec = json!({
        "volumeClaimTemplates": [claim_template("data")],
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" },
    });
    let set = create(&managed, 1, spec).await;
    set.ready(0).await;
    set.reports(json!({ "readyReplicas": 1 })).await;
    let message = "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference";
    set.event("ConflictingController", message).await;
    set.owned_by("data-web-0", &[("ConfigMap", "other")]).await;
}

#[tokio::test]
async fn pods_are_adopted_by_label_and_name_and_released_by_label() {
    let managed = Managed::start(QUICK).await;
    let pods = Api::default_namespaced(managed.client.clone());
    create_pod(&pods, "web", "web-1", json!({})).await;
    create_pod(&pods, "web", "other-1", json!({})).await;
    create_pod(&pods, "web", "web-x", json!({})).await;
    // A rolling update would replace the adopted pod, which has no revision.
    let mut spec = parallel();
    spec["updateStrategy"] = json!({ "type": "OnDelete" });
    let set = create(&managed, 2, spec).await;
    let owner = |name: &'static str| {
        let pods = pods.clone();
        async move { pods.get(name).await.unwrap().metadata.owner_references.map(|owners| owners[0].uid.clone()) }
    };
    eventually("web-1 is adopted", || async {
        (owner("web-1").await.as_ref() == Some(&set.uid)).then_some(())
    })
    .await;
    set.waits_for(0).await;
    eventually("the adopted pod gets its name as a label", || async {
        let labels = pods.get("web-1").await.ok()?.metadata.labels?;
        (labels.get("statefulset.kubernetes.io/pod-name")? == "web-1").then_some(())
    })
    .await;
    assert_eq!((owner("other-1").await, owner("web-x").await), (None, None));
    let free = Patch::Merge(json!({ "metadata": { "labels": { "app": "free" } } }));
    pods.patch("web-0", &PatchParams::default(), &free).await.unwrap();
    eventually("web-0 is released", || async { owner("web-0").await.is_none().then_some(()) }).await;
    // Its name is taken until somebody deletes it.
    pods.delete("web-0", &DeleteParams::default()).await.unwrap();
    set.waits_for(0).await;
}

#[tokio::test]
async fn pods_are_numbered_from_the_start() {
    let managed = Managed::start(QUICK).await;
    let mut spec = parallel();
    spec["ordinals"] = json!({ "start": 5 });
    let set = create(&managed, 2, spec).await;
    set.rests_at(&[5, 6]).await;
    set.all_ready(&[5, 6]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    set.patch(json!({ "spec": { "ordinals": { "start": 6 } } })).await;
    set.rests_at(&[6, 7]).await;
}

#[tokio::test]
async fn ordered_pods_wait_until_their_predecessors_have_been_ready_for_long_enough() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 3, json!({ "minReadySeconds": 3600 })).await;
    let since = |seconds: i64| Time::from_seconds(Time::now().seconds() - seconds);
    set.ready(0).await;
    set.reports(json!({ "replicas": 1, "readyReplicas": 1, "availableReplicas": 0 })).await;
    set.rests_at(&[0]).await;
    mark(&set.pods, "web-0", "Running", "True", &since(7200)).await;
    set.waits_for(1).await;
    // Nothing changes when its time is up, so that the controller must wake by itself.
    mark(&set.pods, "web-1", "Running", "True", &since(3597)).await;
    set.waits_for(2).await;
    set.reports(json!({ "replicas": 3, "readyReplicas": 2, "availableReplicas": 2 })).await;
}

/// Starts a set whose update is stuck: its last pod is of a revision that never becomes ready.
async fn stuck(managed: &Managed, annotations: Value) -> Set {
    let mut manifest = manifest("web", 2);
    manifest["metadata"]["annotations"] = annotations;
    let set = Set::create(&managed.client, manifest).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    let old = set.waits_for(1).await;
    set.update(2).await;
    let broken = set.replaces(1, &old).await;
    assert_eq!(image_of(&broken), "image:2");
    set.mark(1, "Running", "False").await;
    let start = json!({ "status": { "startTime": Time::now() } });
    set.pods.patch_status("web-1", &PatchParams::default(), &Patch::Merge(start)).await.unwrap();
    set.reports(json!({ "replicas": 2, "readyReplicas": 1 })).await;
    set
}

#[tokio::test]
async fn a_broken_update_stays_stuck_though_its_template_is_mended() {
    let managed = Managed::start(QUICK).await;
    let set = stuck(&managed, json!({})).await;
    let broken = set.waits_for(1).await;
    set.update(3).await;
    set.reports(json!({ "replicas": 2, "readyReplicas": 1, "updatedReplicas": 0 })).await;
    assert_eq!(set.waits_for(1).await.metadata.uid, broken.metadata.uid);
    // Its user must delete the pod.
    set.delete(1).await;
    assert_eq!(image_of(&set.replaces(1, &broken).await), "image:3");
}

#[tokio::test]
async fn a_broken_update_goes_on_where_the_user_has_asked_for_it() {
    if Manager::is_upstream() {
        println!("skipped: only steersman has this");
        return;
    }
    let managed = Managed::start(QUICK).await;
    let set = stuck(&managed, json!({ "steersman.io/replace-broken-pods": "true" })).await;
    let broken = set.waits_for(1).await;
    set.update(3).await;
    assert_eq!(image_of(&set.replaces(1, &broken).await), "image:3");
}

#[tokio::test]
async fn what_becomes_of_pods_is_recorded_as_events_of_the_set() {
    let managed = Managed::start(QUICK).await;
    let set = create(&managed, 1, json!({})).await;
    set.waits_for(0).await;
    let created = set.event("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful").await;
    set.scale(0).await;
    let deleted = set.event("SuccessfulDelete", "Delete Pod web-0 in StatefulSet web successful").await;
    for event in [created, deleted] {
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.source.unwrap().component.as_deref(), Some("statefulset-controller"));
        assert_eq!(event.involved_object.kind.as_deref(), Some("StatefulSet"));
    }
}

#[tokio::test]
async fn a_set_that_has_its_pods_is_not_written_again() {
    let Managed { client, mut manager, cluster } = Managed::start(QUICK).await;
    let spec = json!({
        "volumeClaimTemplates": [claim_template("data")],
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Delete" },
        "minReadySeconds": 1,
    });
    let set = Set::create(&client, with(2, spec)).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 2 })).await;
    set.owned_by("data-web-1", &[("StatefulSet", "web")]).await;
    let before = set.versions().await;
    // A manager that starts looks at every set; the new one shows that it has.
    manager.stop().await;
    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    let last = Set::create(&client, manifest("last", 1)).await;
    last.waits_for(0).await;
    last.reports(json!({ "replicas": 1 })).await;
    assert_eq!(set.versions().await, before);
}

#[tokio::test]
async fn a_revision_that_an_older_version_wrote_replaces_no_pod() {
    let Managed { client, mut manager, cluster } = Managed::start(QUICK).await;
    let set = Set::create(&client, with(2, json!({}))).await;
    set.all_ready(&[0, 1]).await;
    set.reports(json!({ "readyReplicas": 2 })).await;
    manager.stop().await;
    let pods = set.has(&[0, 1]).await;
    let name = set.history().await[&1].clone();
    let mut revision = serde_json::to_value(set.revisions.get(&name).await.unwrap()).unwrap();
    let metadata = revision["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| matches!(&**field, "name" | "labels" | "annotations" | "ownerReferences"));
    let template = &mut revision["data"]["spec"]["template"];
    template["metadata"]["creationTimestamp"] = Value::Null;
    // An API server that knows the field fills in its default.
    let container = template["spec"]["containers"][0].as_object_mut().unwrap();
    assert_eq!(container.remove("terminationMessagePolicy"), Some(json!("File")));
    // The data of a revision can't be changed.
    set.revisions.delete(&name, &DeleteParams::default()).await.unwrap();
    set.revisions.create(&PostParams::default(), &serde_json::from_value(revision).unwrap()).await.unwrap();

    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    set.scale(3).await;
    let third = set.waits_for(2).await;
    assert_eq!(revision_of(&third), name);
    set.ready(2).await;
    set.reports(json!({ "readyReplicas": 3, "updatedReplicas": 3, "currentReplicas": 3 })).await;
    for (name, pod) in set.has(&[0, 1, 2]).await {
        assert!(pods.get(&name).is_none_or(|before| before.metadata.uid == pod.metadata.uid), "{name}");
    }
    assert_eq!(set.history().await, [(1, name)].into());
}

#[tokio::test]
async fn a_manager_killed_in_the_middle_of_scaling_makes_no_pod_twice() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let history = PodHistory::start(&client);
    let mut first = Manager::start(&cluster.kubeconfig(), SLOW);
    let set = Set::create(&client, with(30, parallel())).await;
    let count = || async { set.labelled().await.len() };
    eventually("some pods are made", || async { (count().await >= 8).then_some(()) }).await;
    first.kill();
    assert!(count().await < 30, "it was in the middle");
    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    let status = set.reports(json!({ "replicas": 30 })).await;
    assert_eq!((count().await, history.count().await), (30, 30));
    for (name, pod) in set.labelled().await {
        assert_eq!(status["updateRevision"], revision_of(&pod), "{name}");
    }
    assert_eq!(set.history().await.len(), 1);
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let history = PodHistory::start(&client);
    let mut managers = Candidates::start(&cluster, SLOW).await;
    let set = Set::create(&client, with(30, parallel())).await;
    eventually("some pods are made", || async { (set.labelled().await.len() >= 4).then_some(()) }).await;
    managers.kill_leader();
    set.reports(json!({ "replicas": 30 })).await;
    assert!(managers.has_changed().await);
    assert_eq!((set.labelled().await.len(), history.count().await), (30, 30));
    assert_eq!(set.history().await.len(), 1);
}
