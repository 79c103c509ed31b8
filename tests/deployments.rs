//! Deployments rolled out by the manager, as a process, together with its controller of ReplicaSets, while a test plays the
//! kubelet.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::deployments::{BROKEN, Kubelet, Rollout, condition, end, manifest};
use support::kubectl::Kubectl;
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::replicas::{image_of, is_active, name_of};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=deployment-controller,replicaset-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second that a test sees the manager in the middle of its work.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=10", "--kube-api-burst=10"];

async fn create(managed: &Managed, replicas: i32, image: &str) -> Rollout {
    Rollout::create(&managed.client, manifest("web", replicas, image)).await
}

fn with_bounds(replicas: i32, surge: Value, unavailable: Value) -> Value {
    let mut manifest = manifest("web", replicas, "v1");
    manifest["spec"]["strategy"] =
        json!({ "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } });
    manifest
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let key = format!("deployment.kubernetes.io/{name}");
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

#[tokio::test]
async fn a_new_deployment_gets_a_replica_set_and_its_pods() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let mut manifest = manifest("web", 3, "v1");
    manifest["metadata"]["annotations"] = json!({ "example.com/note": "copied" });
    manifest["spec"]["minReadySeconds"] = json!(1);
    let web = Rollout::create(&managed.client, manifest).await;
    let deployment = web.complete(3).await;
    let set = web.has_sets(&[("v1", 3)]).await.remove("v1").unwrap();
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(name(&set), format!("web-{hash}"));
    let labels = json!({ "app": "web", "pod-template-hash": hash });
    assert_eq!(set["metadata"]["labels"], labels);
    assert_eq!(set["spec"]["selector"], json!({ "matchLabels": labels }));
    assert_eq!(set["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(set["spec"]["minReadySeconds"], 1);
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "example.com/note": "copied",
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
        })
    );
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": web.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(set["metadata"]["ownerReferences"], owner);
    assert_eq!(annotation(&deployment, "revision"), "1");
    assert_eq!(deployment["metadata"]["generation"], 1, "the revision is no change of what is wanted");
    let status = &deployment["status"];
    assert_eq!((&status["terminatingReplicas"], &status["collisionCount"]), (&json!(0), &Value::Null));
    let available = web.condition("Available", "MinimumReplicasAvailable").await;
    assert_eq!(available["message"], "Deployment has minimum availability.");
    let progressing = web.condition("Progressing", "NewReplicaSetAvailable").await;
    let message = format!("ReplicaSet \"{}\" has successfully progressed.", name(&set));
    assert_eq!((&progressing["message"], &progressing["status"]), (&json!(message), &json!("True")));
    let message = format!("Scaled up replica set {} from 0 to 3", name(&set));
    let event = web.event("ScalingReplicaSet", &message).await;
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.source.unwrap().component.as_deref(), Some("deployment-controller"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Deployment"));
}

#[tokio::test]
async fn the_size_follows_the_deployment() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let web = create(&managed, 2, "v1").await;
    web.complete(2).await;
    for replicas in [5, 1, 0, 3] {
        web.scale(replicas).await;
        web.complete(replicas).await;
        let set = web.has_sets(&[("v1", replicas.into())]).await.remove("v1").unwrap();
        assert_eq!(annotation(&set, "desired-replicas"), replicas.to_string());
    }
    let set = name(&web.sets().await["v1"]).to_owned();
    for (direction, from, to) in [("up", 2, 5), ("down", 5, 1), ("down", 1, 0), ("up", 0, 3)] {
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        web.event("ScalingReplicaSet", &message).await;
    }
    // Annotations of the Deployment follow too, and so does a pod that must be ready for longer.
    web.patch(json!({ "metadata": { "annotations": { "example.com/note": "new" } }, "spec": { "minReadySeconds": 1 } }))
        .await;
    eventually("the ReplicaSet follows", || async {
        let set = web.sets().await.remove("v1")?;
        let follows = set["metadata"]["annotations"]["example.com/note"] == "new"
            && set["spec"]["minReadySeconds"] == 1;
        follows.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rolling_update_keeps_to_its_bounds() {
    let managed = Managed::start(QUICK).await;
    let kubelet = Kubelet::start(&managed.client);
    let web = Rollout::create(&managed.client, with_bounds(6, json!(1), json!(0))).await;
    web.complete(6).await;
    let mut revision = 1;
    for (image, surge, unavailable, most, least) in [
        ("v2", json!(1), json!(0), 7, 6),
        ("v3", json!(0), json!(2), 6, 4),
        ("v4", json!("25%"), json!("25%"), 8, 5),
        ("v5", json!("10%"), json!("10%"), 7, 6),
        ("v6", json!("100%"), json!("100%"), 12, 0),
    ] {
        kubelet.seen();
        let containers = json!([{ "name": "main", "image": image }]);
        let bounds = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        web.patch(json!({ "spec": {
            "strategy": { "rollingUpdate": bounds }, "template": { "spec": { "containers": containers } },
        } }))
        .await;
        let deployment = web.complete(6).await;
        // A pod that the kubelet counted may just have been about to go: the pods of upstream's manager may briefly
        // outnumber the bound while those that it scaled down are not yet deleted.
        let seen = kubelet.seen();
        assert!(seen.least_available >= least, "{image}: {seen:?}");
        if managed.manager.is_steersman() {
            assert!(seen.most <= most, "{image}: {seen:?}");
        }
        revision += 1;
        assert_eq!(annotation(&deployment, "revision"), revision.to_string());
        let sets = web.sets().await;
        assert_eq!(annotation(&sets[image], "revision"), revision.to_string());
        assert!(web.active().await.iter().all(|pod| image_of(pod) == image));
        let wanted = |set: &Value| set["spec"]["replicas"].as_i64().unwrap();
        assert!(sets.iter().all(|(of, set)| wanted(set) == if of == image { 6 } else { 0 }));
    }
}

#[tokio::test]
async fn a_rollout_of_broken_pods_is_held_until_it_is_undone() {
    let managed = Managed::start(QUICK).await;
    let kubelet = Kubelet::start(&managed.client);
    let mut manifest = with_bounds(4, json!(1), json!(1));
    manifest["spec"]["progressDeadlineSeconds"] = json!(3);
    let web = Rollout::create(&managed.client, manifest).await;
    web.complete(4).await;
    kubelet.seen();
    web.roll_to(BROKEN).await;
    let sets = web.has_sets(&[("v1", 3), (BROKEN, 2)]).await;
    let held = web.condition("Progressing", "ProgressDeadlineExceeded").await;
    let message = format!("ReplicaSet \"{}\" has timed out progressing.", name(&sets[BROKEN]));
    assert_eq!((&held["status"], &held["message"]), (&json!("False"), &json!(message)));
    let deployment =
        web.reports(json!({ "replicas": 5, "updatedReplicas": 2, "unavailableReplicas": 2 })).await;
    assert_eq!(annotation(&deployment, "revision"), "2");
    assert_eq!(condition(&deployment, "Available").unwrap()["status"], "True");

    web.roll_to("v1").await;
    let deployment = web.complete(4).await;
    let sets = web.has_sets(&[("v1", 4), (BROKEN, 0)]).await;
    assert_eq!(annotation(&deployment, "revision"), "3");
    assert_eq!(annotation(&sets["v1"], "revision"), "3");
    assert_eq!(annotation(&sets["v1"], "revision-history"), "1");
    web.condition("Progressing", "NewReplicaSetAvailable").await;
    assert!(kubelet.seen().least_available >= 3);
}

#[tokio::test]
async fn recreate_waits_for_the_last_old_pod() {
    let managed = Managed::start(QUICK).await;
    let nodes = Api::<Node>::all(managed.client.clone());
    let node = json!({ "metadata": { "generateName": "node-" } });
    let node = nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let node = name(&serde_json::to_value(&node).unwrap()).to_owned();
    let _kubelet = Kubelet::start(&managed.client);
    let mut manifest = manifest("web", 2, "v1");
    manifest["spec"]["strategy"] = json!({ "type": "Recreate" });
    // The pods of a node end when its kubelet says so.
    manifest["spec"]["template"]["spec"]["nodeName"] = json!(node);
    let web = Rollout::create(&managed.client, manifest).await;
    web.complete(2).await;
    let old: Vec<_> = web.active().await.iter().map(name_of).collect();
    web.roll_to("v2").await;
    web.has_sets(&[("v1", 0)]).await;
    web.reports(json!({ "replicas": 0, "terminatingReplicas": 2 })).await;
    end(&web.pods, &old[0]).await;
    web.reports(json!({ "replicas": 0, "terminatingReplicas": 1 })).await;
    web.has_sets(&[("v1", 0)]).await;
    end(&web.pods, &old[1]).await;
    web.complete(2).await;
    web.has_sets(&[("v1", 0), ("v2", 2)]).await;
    for pod in web.active().await {
        web.pods.delete(&name_of(&pod), &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_paused_deployment_scales_and_rolls_out_once_it_is_resumed() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let web = create(&managed, 2, "v1").await;
    web.complete(2).await;
    web.patch(json!({ "spec": { "paused": true } })).await;
    let paused = web.condition("Progressing", "DeploymentPaused").await;
    assert_eq!((&paused["status"], &paused["message"]), (&json!("Unknown"), &json!("Deployment is paused")));
    web.roll_to("v2").await;
    web.scale(4).await;
    web.reports(json!({ "replicas": 4, "updatedReplicas": 0, "availableReplicas": 4 })).await;
    web.has_sets(&[("v1", 4)]).await;
    web.patch(json!({ "spec": { "paused": null } })).await;
    web.complete(4).await;
    web.has_sets(&[("v1", 0), ("v2", 4)]).await;
    web.condition("Progressing", "NewReplicaSetAvailable").await;
}

#[tokio::test]
async fn a_rollout_in_the_middle_scales_in_proportion() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let web = Rollout::create(&managed.client, with_bounds(10, json!(3), json!(2))).await;
    web.complete(10).await;
    web.roll_to(BROKEN).await;
    web.has_sets(&[("v1", 8), (BROKEN, 5)]).await;
    web.reports(json!({ "replicas": 13, "availableReplicas": 8 })).await;
    web.scale(30).await;
    let sets = web.has_sets(&[("v1", 20), (BROKEN, 13)]).await;
    for set in sets.values() {
        assert_eq!((annotation(set, "desired-replicas"), annotation(set, "max-replicas")), ("30", "33"));
    }
    web.reports(json!({ "replicas": 33, "availableReplicas": 20 })).await;
    web.scale(5).await;
    // At first five and three. But five available pods are two more than must be.
    web.has_sets(&[("v1", 3), (BROKEN, 5)]).await;
}

#[tokio::test]
async fn kubectl_shows_and_steers_rollouts() {
    let managed = Managed::start(QUICK).await;
    let Some(kubectl) = Kubectl::find(&managed.cluster.kubeconfig(), &managed.cluster.namespace) else {
        return;
    };
    let _kubelet = Kubelet::start(&managed.client);
    let done = "deployment \"web\" successfully rolled out";
    kubectl.run("create deployment web --image=v1 --replicas=2").await;
    assert!(kubectl.run("rollout status deployment/web").await.contains(done));
    kubectl.run("annotate deployment/web kubernetes.io/change-cause=second").await;
    kubectl.run("set image deployment/web v1=v2").await;
    assert!(kubectl.run("rollout status deployment/web").await.contains(done));
    let rows = |history: &str| -> Vec<String> {
        let rows = history.lines().skip(2).filter(|line| !line.is_empty());
        rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let history = kubectl.run("rollout history deployment/web").await;
    assert_eq!(rows(&history), ["1", "2"], "{history}");
    assert!(history.contains("second"), "{history}");
    kubectl.run("rollout undo deployment/web").await;
    assert!(kubectl.run("rollout status deployment/web").await.contains(done));
    let images = || async {
        let deployments =
            Api::<k8s_openapi::api::apps::v1::Deployment>::default_namespaced(managed.client.clone());
        let deployment = serde_json::to_value(deployments.get("web").await.unwrap()).unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    assert_eq!(images().await, "v1");
    let history = kubectl.run("rollout history deployment/web").await;
    assert_eq!(rows(&history), ["2", "3"], "{history}");
    kubectl.run("rollout undo deployment/web --to-revision=2").await;
    assert!(kubectl.run("rollout status deployment/web").await.contains(done));
    assert_eq!(images().await, "v2");
    kubectl.run("rollout pause deployment/web").await;
    kubectl.run("rollout resume deployment/web").await;
    kubectl.run("rollout restart deployment/web").await;
    assert!(kubectl.run("rollout status deployment/web").await.contains(done));
    let history = kubectl.run("rollout history deployment/web").await;
    assert_eq!(rows(&history), ["3", "4", "5"], "{history}");
    kubectl.run("scale deployment/web --replicas=3").await;
    assert!(kubectl.run("rollout status deployment/web").await.contains(done));
}

#[tokio::test]
async fn only_the_last_revisions_are_kept() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let mut manifest = manifest("web", 1, "v1");
    manifest["spec"]["revisionHistoryLimit"] = json!(1);
    let web = Rollout::create(&managed.client, manifest).await;
    web.complete(1).await;
    for image in ["v2", "v3", "v4"] {
        web.roll_to(image).await;
        web.complete(1).await;
    }
    let sets = web.has_sets(&[("v3", 0), ("v4", 1)]).await;
    assert_eq!((annotation(&sets["v3"], "revision"), annotation(&sets["v4"], "revision")), ("3", "4"));
}

#[tokio::test]
async fn the_deprecated_annotation_rolls_back_and_goes() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let web = create(&managed, 1, "v1").await;
    web.complete(1).await;
    web.patch(json!({ "metadata": { "annotations": { "example.com/note": "second" } } })).await;
    web.roll_to("v2").await;
    web.complete(1).await;
    let wish = |revision: &str| json!({ "metadata": { "annotations": { "deprecated.deployment.rollback.to": revision } } });
    web.patch(wish("0")).await;
    web.event("DeploymentRollback", "Rolled back deployment \"web\" to revision 1").await;
    web.has_sets(&[("v1", 1), ("v2", 0)]).await;
    let deployment = web.complete(1).await;
    let annotations = deployment["metadata"]["annotations"].as_object().unwrap();
    assert!(!annotations.contains_key("deprecated.deployment.rollback.to"), "{annotations:?}");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], json!({ "app": "web" }));
    for (revision, reason, message) in [
        (
            "3",
            "DeploymentRollbackTemplateUnchanged",
            "The rollback revision contains the same template as current deployment \"web\"",
        ),
        ("9", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
    ] {
        web.patch(wish(revision)).await;
        web.event(reason, message).await;
        eventually("the wish is dropped", || async {
            let deployment = web.get().await;
            deployment["metadata"]["annotations"]
                .get("deprecated.deployment.rollback.to")
                .is_none()
                .then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_name_that_is_taken_changes_the_hash() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let web = create(&managed, 1, "v1").await;
    web.complete(1).await;
    // Somebody changes the template of the ReplicaSet, so that it is not the new one any more, but keeps the name.
    let first = name(&web.sets().await["v1"]).to_owned();
    let changed = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "other" }] } } } });
    web.sets.patch(&first, &PatchParams::default(), &Patch::Merge(changed)).await.unwrap();
    let sets = web.has_sets(&[("other", 0), ("v1", 1)]).await;
    assert_ne!(name(&sets["v1"]), first);
    web.reports(json!({ "collisionCount": 1, "replicas": 1, "updatedReplicas": 1 })).await;
}

#[tokio::test]
async fn replica_sets_are_adopted_by_template_and_released_by_labels() {
    let managed = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&managed.client);
    let labels = json!({ "app": "web", "pod-template-hash": "mine" });
    let template = json!({
        "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "v1" }] },
    });
    let bare = json!({
        "metadata": { "name": "bare", "labels": labels },
        "spec": { "replicas": 2, "selector": { "matchLabels": labels }, "template": template },
    });
    let sets = Api::<ReplicaSet>::default_namespaced(managed.client.clone());
    sets.create(&PostParams::default(), &serde_json::from_value(bare).unwrap()).await.unwrap();
    let web = create(&managed, 2, "v1").await;
    let deployment = web.complete(2).await;
    let adopted = web.has_sets(&[("v1", 2)]).await.remove("v1").unwrap();
    assert_eq!((name(&adopted), annotation(&adopted, "revision")), ("bare", "1"));
    assert_eq!(annotation(&deployment, "revision"), "1");

    let other = json!({ "metadata": { "labels": { "app": "other" } } });
    sets.patch("bare", &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    eventually("it is released", || async {
        let released = sets.get("bare").await.ok()?.metadata.owner_references;
        released.unwrap_or_default().is_empty().then_some(())
    })
    .await;
    let sets = web.has_sets(&[("v1", 2)]).await;
    assert_ne!(name(&sets["v1"]), "bare");
    web.reports(json!({ "updatedReplicas": 2 })).await;
}

#[tokio::test]
async fn a_replica_set_that_is_refused_is_a_condition() {
    let managed = Managed::start(QUICK).await;
    let quotas = Api::<k8s_openapi::api::core::v1::ResourceQuota>::default_namespaced(managed.client.clone());
    let quota =
        json!({ "metadata": { "name": "none" }, "spec": { "hard": { "count/replicasets.apps": "0" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    // No controller for quotas counts here.
    let counted = json!({ "status": { "hard": { "count/replicasets.apps": "0" }, "used": { "count/replicasets.apps": "0" } } });
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(counted)).await.unwrap();
    let web = create(&managed, 1, "v1").await;
    let failed = web.condition("Progressing", "ReplicaSetCreateError").await;
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("Failed to create new replica set \"web-"), "{message}");
    assert!(message.contains("exceeded quota: none"), "{message}");
    web.event("ReplicaSetCreateError", message).await;
    let everything = DeleteParams::default();
    quotas.delete("none", &everything).await.unwrap();
    let _kubelet = Kubelet::start(&managed.client);
    web.complete(1).await;
}

#[tokio::test]
async fn a_deployment_at_rest_is_not_written_again() {
    let Managed { client, mut manager, cluster } = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&client);
    let web = Rollout::create(&client, with_bounds(3, json!("25%"), json!("25%"))).await;
    web.complete(3).await;
    web.roll_to("v2").await;
    web.complete(3).await;
    let message = format!("ReplicaSet \"{}\" has successfully progressed.", name(&web.sets().await["v2"]));
    eventually("the rollout has ended", || async {
        let deployment = web.get().await;
        let progressed =
            condition(&deployment, "Progressing").is_some_and(|found| found["message"] == message);
        (progressed && deployment["status"]["terminatingReplicas"] == 0).then_some(())
    })
    .await;
    let before = web.versions().await;
    // A manager that starts looks at every Deployment; the new one shows that it has.
    manager.stop().await;
    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    let last = Rollout::create(&client, manifest("last", 1, "v1")).await;
    last.complete(1).await;
    assert_eq!(web.versions().await, before);
}

#[tokio::test]
async fn a_manager_killed_in_mid_rollout_makes_no_second_replica_set() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let kubelet = Kubelet::start(&client);
    let mut first = Manager::start(&cluster.kubeconfig(), QUICK);
    let web = Rollout::create(&client, with_bounds(8, json!(2), json!(2))).await;
    web.complete(8).await;
    first.kill();
    kubelet.seen();
    web.roll_to("v2").await;
    for updated in [2, 4, 6] {
        let mut slow = Manager::start(&cluster.kubeconfig(), SLOW);
        eventually("the rollout proceeds", || async {
            let pods = web.active().await;
            (pods.iter().filter(|pod| image_of(pod) == "v2").count() >= updated).then_some(())
        })
        .await;
        slow.kill();
    }
    let _last = Manager::start(&cluster.kubeconfig(), QUICK);
    let deployment = web.complete(8).await;
    let sets = web.has_sets(&[("v1", 0), ("v2", 8)]).await;
    assert_eq!((annotation(&deployment, "revision"), annotation(&sets["v2"], "revision")), ("2", "2"));
    let all = web.sets.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(kubelet.seen().least_available >= 6);
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_ends_the_rollout() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let kubelet = Kubelet::start(&client);
    let mut managers = Candidates::start(&cluster, SLOW).await;
    let web = Rollout::create(&client, with_bounds(6, json!(1), json!(1))).await;
    web.complete(6).await;
    kubelet.seen();
    web.roll_to("v2").await;
    eventually("the rollout has begun", || async {
        web.active().await.iter().any(|pod| image_of(pod) == "v2").then_some(())
    })
    .await;
    managers.kill_leader();
    web.complete(6).await;
    web.has_sets(&[("v1", 0), ("v2", 6)]).await;
    assert!(kubelet.seen().least_available >= 5);
    assert!(web.active().await.iter().all(is_active));
}

#[tokio::test]
async fn a_watch_that_lags_leads_to_no_replica_set_too_many() {
    let cluster = Cluster::start_embedded().await;
    let client = cluster.client();
    let kubelet = Kubelet::start(&client);
    let _manager = Manager::start(&cluster.kubeconfig(), QUICK);
    let web = Rollout::create(&client, with_bounds(4, json!(1), json!(1))).await;
    web.complete(4).await;
    let faults = cluster.embedded().faults();
    faults.delay_watches(steersman_apiserver::Calls::to("replicasets"), Duration::from_secs(1));
    kubelet.seen();
    for image in ["v2", "v3", "v2"] {
        web.roll_to(image).await;
        eventually("the rollout has begun", || async {
            web.active().await.iter().any(|pod| image_of(pod) == image).then_some(())
        })
        .await;
    }
    web.complete(4).await;
    faults.clear();
    web.has_sets(&[("v1", 0), ("v2", 4), ("v3", 0)]).await;
    let seen = kubelet.seen();
    assert!(seen.least_available >= 3 && seen.most <= 5, "{seen:?}");
}

/// Has the manager roll out one more Deployment, which shows that it has looked at those that were there.
async fn one_more(client: &kube::Client, name: &str) {
    let more = Rollout::create(client, manifest(name, 1, "v1")).await;
    more.complete(1).await;
}

#[tokio::test]
async fn a_held_rollout_is_handed_over_to_upstream_and_back() {
    let Some(assets) =
        support::real::assets().filter(|assets| assets.join("kube-controller-manager").exists())
    else {
        println!("no kube-controller-manager is at hand: not run");
        return;
    };
    let Managed { client, mut manager, cluster } = Managed::start(QUICK).await;
    let _kubelet = Kubelet::start(&client);
    let web = Rollout::create(&client, with_bounds(4, json!(1), json!(1))).await;
    web.complete(4).await;
    web.roll_to("v2").await;
    web.complete(4).await;
    web.roll_to(BROKEN).await;
    let held = [("v1", 0), ("v2", 3), (BROKEN, 2)];
    web.has_sets(&held).await;
    web.reports(
        json!({ "replicas": 5, "updatedReplicas": 2, "unavailableReplicas": 2, "terminatingReplicas": 0 }),
    )
    .await;
    one_more(&client, "first").await;
    manager.stop().await;
    let ours = web.versions().await;

    let mut upstream = Manager::start_upstream(&assets, &cluster.kubeconfig(), QUICK);
    one_more(&client, "second").await;
    assert_eq!(web.versions().await, ours, "upstream changed what we left");
    // The name is a hash of the template: upstream gives a ReplicaSet that is gone the same one.
    let sets = web.has_sets(&held).await;
    web.sets.delete(name(&sets[BROKEN]), &DeleteParams::default()).await.unwrap();
    let uid = &sets[BROKEN]["metadata"]["uid"];
    let again = eventually("upstream makes it again", || async {
        web.sets().await.remove(BROKEN).filter(|set| set["metadata"]["uid"] != *uid)
    })
    .await;
    assert_eq!(name(&again), name(&sets[BROKEN]));
    web.has_sets(&held).await;
    web.reports(
        json!({ "replicas": 5, "updatedReplicas": 2, "unavailableReplicas": 2, "terminatingReplicas": 0 }),
    )
    .await;
    one_more(&client, "third").await;
    upstream.stop().await;
    let theirs = web.versions().await;

    let _back = Manager::start(&cluster.kubeconfig(), QUICK);
    one_more(&client, "fourth").await;
    assert_eq!(web.versions().await, theirs, "we changed what upstream left");
    web.roll_to("v3").await;
    web.complete(4).await;
    let sets = web.has_sets(&[("v1", 0), ("v2", 0), (BROKEN, 0), ("v3", 4)]).await;
    assert_eq!(annotation(&sets["v3"], "revision"), "4");
}

#[tokio::test]
async fn a_deployment_rolls_out_and_back_with_the_rights_of_kubernetes_own_role() {
    if support::real::assets().is_none() {
        println!("the embedded API server asks for no rights: not run");
        return;
    }
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let mut kubeconfig: Value =
        serde_json::from_str(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"]["token"] = support::real::DEPLOYMENT_CONTROLLER_TOKEN.into();
    let limited = cluster.kubeconfig().with_file_name("limited");
    std::fs::write(&limited, kubeconfig.to_string()).unwrap();
    let _deployments = Manager::start(&limited, &["--controllers=deployment-controller"]);
    let _sets = Manager::start(&cluster.kubeconfig(), &["--controllers=replicaset-controller"]);
    let _kubelet = Kubelet::start(&client);
    let mut manifest = manifest("web", 2, "v1");
    manifest["spec"]["revisionHistoryLimit"] = json!(1);
    let web = Rollout::create(&client, manifest).await;
    web.complete(2).await;
    web.roll_to("v2").await;
    web.complete(2).await;
    web.patch(json!({ "metadata": { "annotations": { "deprecated.deployment.rollback.to": "1" } } })).await;
    web.event("DeploymentRollback", "Rolled back deployment \"web\" to revision 1").await;
    let deployment = web.complete(2).await;
    assert_eq!(annotation(&deployment, "revision"), "3");
    web.roll_to("v3").await;
    web.complete(2).await;
    web.has_sets(&[("v1", 0), ("v3", 2)]).await;
}
