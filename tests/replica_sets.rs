//! ReplicaSets and ReplicationControllers kept at their numbers of pods by the manager, as a process, while a test plays
//! the kubelet. Both kinds behave alike but for `terminatingReplicas`, so that each test goes through both.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};
use steersman_api::Time;
use steersman_apiserver::{Calls, Failure, Verb};
use support::history::PodHistory;
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::replicas::{Kind, Owner, create_pod, mark, name_of};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=replicaset-controller,replicationcontroller-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second that a test sees the manager in the middle of its work.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=5", "--kube-api-burst=5"];

async fn create(managed: &Managed, kind: Kind, replicas: u32) -> Owner {
    Owner::create(&managed.client, kind, &name(kind), replicas).await
}

/// A name that no owner of the other kind has.
fn name(kind: Kind) -> String {
    format!("web-{}", kind.name().to_lowercase())
}

fn names(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(name_of).collect()
}

fn ago(duration: Duration) -> Time {
    Time::from_seconds(Time::now().seconds() - i64::try_from(duration.as_secs()).unwrap())
}

#[tokio::test]
async fn pods_are_made_from_the_template() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 2);
        manifest["spec"]["template"]["metadata"] = json!({
            "labels": { "app": name(kind), "tier": "front" },
            "annotations": { "example.com/note": "kept" },
            "finalizers": ["example.com/kept"],
        });
        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        for pod in owner.has(2).await {
            let pod = owner.pods.get(&pod).await.unwrap();
            let prefix = format!("{}-", owner.name);
            assert_eq!(pod.metadata.generate_name.as_ref(), Some(&prefix));
            let labels = pod.metadata.labels.unwrap();
            assert_eq!((labels.len(), labels["tier"].as_str()), (2, "front"));
            let annotations = pod.metadata.annotations.unwrap();
            assert_eq!((annotations.len(), annotations["example.com/note"].as_str()), (1, "kept"));
            assert_eq!(pod.metadata.finalizers.unwrap(), ["example.com/kept"]);
            let references = serde_json::to_value(pod.metadata.owner_references).unwrap();
            let expected = json!([{
                "apiVersion": kind.api_version(), "kind": kind.name(), "name": owner.name, "uid": owner.uid,
                "controller": true, "blockOwnerDeletion": true,
            }]);
            assert_eq!(references, expected);
            assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("busybox"));
        }
    }
}

#[tokio::test]
async fn the_status_counts_pods_by_what_they_are_like() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 3).await;
        let pods = owner.has(3).await;
        owner.reports(json!({ "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 0 })).await;
        owner.mark(&pods[0], "Running", "True").await;
        owner.mark(&pods[1], "Running", "True").await;
        owner.mark(&pods[2], "Running", "False").await;
        owner.reports(json!({ "replicas": 3, "readyReplicas": 2, "availableReplicas": 2 })).await;
        owner.mark(&pods[1], "Running", "False").await;
        let reported = owner.reports(json!({ "readyReplicas": 1, "availableReplicas": 1 })).await;
        let terminating = match kind {
            Kind::ReplicaSet => json!(0),
            Kind::ReplicationController => Value::Null,
        };
        assert_eq!(reported.data["status"]["terminatingReplicas"], terminating);

        // Pods keep the labels that they were made with, and are no longer fully labelled.
        let labels = json!({ "app": owner.name, "tier": "new" });
        owner.patch(json!({ "spec": { "template": { "metadata": { "labels": labels } } } })).await;
        owner.reports(json!({ "replicas": 3, "fullyLabeledReplicas": 0, "readyReplicas": 1 })).await;
        assert_eq!(owner.active().await.len(), 3);
        owner.patch_pod(&pods[0], json!({ "metadata": { "labels": { "tier": "new" } } })).await;
        owner.reports(json!({ "replicas": 3, "fullyLabeledReplicas": 1 })).await;
    }
}

#[tokio::test]
async fn pods_are_available_once_they_have_been_ready_for_long_enough() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 3);
        manifest["spec"]["minReadySeconds"] = json!(3600);
        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        let pods = owner.has(3).await;
        owner.mark(&pods[0], "Running", "True").await;
        owner.mark_since(&pods[1], "Running", "True", &ago(Duration::from_secs(7200))).await;
        owner.reports(json!({ "readyReplicas": 2, "availableReplicas": 1 })).await;
        // Nothing changes when its time is up, so that the controller must wake by itself.
        owner.mark_since(&pods[2], "Running", "True", &ago(Duration::from_secs(3597))).await;
        owner.reports(json!({ "readyReplicas": 3, "availableReplicas": 2 })).await;
    }
}

#[tokio::test]
async fn scaling_down_deletes_pods_that_are_not_ready_first() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 2).await;
        let first = owner.has(2).await;
        owner.scale(5).await;
        let pods = owner.has(5).await;
        assert!(first.iter().all(|pod| pods.contains(pod)), "the first pods stay");
        // Of the five one is pending, two run, and two are ready.
        for (pod, ready) in pods.iter().zip(["False", "True", "False", "True"]) {
            owner.mark(pod, "Running", ready).await;
        }
        owner.reports(json!({ "replicas": 5, "readyReplicas": 2 })).await;
        owner.scale(4).await;
        assert_eq!(owner.has(4).await, pods[..4], "the pending pod goes first");
        owner.scale(2).await;
        assert_eq!(owner.has(2).await, [pods[1].as_str(), &pods[3]], "ready pods stay");
        owner.reports(json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 2 })).await;
        owner.scale(0).await;
        owner.has(0).await;
        owner.reports(json!({ "replicas": 0, "fullyLabeledReplicas": 0, "readyReplicas": 0 })).await;
    }
}

#[tokio::test]
async fn scaling_down_deletes_pods_of_lower_cost_first() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 5).await;
        let pods = owner.has(5).await;
        for (pod, cost) in pods.iter().zip(["10", "-20", "2147483648", "-3", "7"]) {
            let cost = json!({ "controller.kubernetes.io/pod-deletion-cost": cost });
            // The server refuses a cost that is not valid. Then the pod has none.
            let patch = Patch::Merge(json!({ "metadata": { "annotations": cost } }));
            let patched = owner.pods.patch(pod, &PatchParams::default(), &patch).await;
            assert_eq!(patched.is_err(), *pod == pods[2], "{patched:?}");
            owner.mark(pod, "Running", "True").await;
        }
        owner.reports(json!({ "readyReplicas": 5 })).await;
        for (left, expected) in [(4, &[0, 2, 3, 4][..]), (3, &[0, 2, 4]), (2, &[0, 4]), (1, &[0])] {
            owner.scale(left).await;
            let expected: Vec<_> = expected.iter().map(|at| pods[*at].clone()).collect();
            assert_eq!(owner.has(expected.len()).await, expected, "{left} are left");
            owner.reports(json!({ "replicas": left })).await;
        }
    }
}

/// ReplicaSets with a common controller, such as those of a Deployment, spread the pods that they share. Upstream does not
/// find the siblings of a ReplicationController: its index of owners knows ReplicaSets only.
#[tokio::test]
async fn scaling_down_deletes_pods_on_nodes_with_more_pods_of_sibling_replica_sets_first() {
    let managed = Managed::start(QUICK).await;
    let manifest = |name: &str, replicas| {
        let mut manifest = Kind::ReplicaSet.manifest(name, replicas);
        manifest["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "parent", "uid": "parent-uid", "controller": true,
        }]);
        manifest["spec"]["template"]["spec"]["nodeName"] = json!("crowded");
        manifest
    };
    let sibling = Owner::create_from(&managed.client, Kind::ReplicaSet, manifest("sibling", 2)).await;
    sibling.has(2).await;
    let owner = Owner::create_from(&managed.client, Kind::ReplicaSet, manifest("owner", 3)).await;
    let crowded = owner.has(3).await;
    let empty = json!({ "spec": { "template": { "spec": { "nodeName": "empty" } }, "replicas": 5 } });
    owner.patch(empty).await;
    // Only the node tells the pods apart: they have been ready for as long.
    let since = ago(Duration::from_secs(60));
    for pod in owner.has(5).await {
        owner.mark_since(&pod, "Running", "True", &since).await;
    }
    owner.reports(json!({ "readyReplicas": 5 })).await;
    owner.scale(2).await;
    let left = owner.has(2).await;
    assert!(left.iter().all(|pod| !crowded.contains(pod)), "{left:?} are left, {crowded:?} were crowded");
}

#[tokio::test]
async fn scaling_down_an_owner_without_a_controller_ignores_how_its_pods_are_spread() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 2);
        manifest["spec"]["template"]["spec"]["nodeName"] = json!("crowded");
        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        let crowded = owner.has(2).await;
        let template = json!({ "spec": { "nodeName": "empty" } });
        owner.patch(json!({ "spec": { "template": template, "replicas": 3 } })).await;
        for pod in owner.has(3).await {
            let seconds = if crowded.contains(&pod) { 7200 } else { 60 };
            owner.mark_since(&pod, "Running", "True", &ago(Duration::from_secs(seconds))).await;
        }
        owner.reports(json!({ "readyReplicas": 3 })).await;
        owner.scale(2).await;
        assert_eq!(owner.has(2).await, crowded, "the pod that became ready last goes first");
    }
}

#[tokio::test]
async fn pods_that_are_deleted_or_have_ended_are_replaced() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 3).await;
        let pods = owner.has(3).await;
        owner.pods.delete(&pods[0], &DeleteParams::default()).await.unwrap();
        eventually("another pod takes its place", || async {
            let active = names(&owner.active().await);
            (active.len() == 3 && !active.contains(&pods[0])).then_some(())
        })
        .await;
        owner.mark(&pods[1], "Failed", "False").await;
        owner.mark(&pods[2], "Succeeded", "False").await;
        let active = owner.has(3).await;
        assert!(!active.iter().any(|pod| pods.contains(pod)), "{active:?} {pods:?}");
        owner.reports(json!({ "replicas": 3 })).await;
        // Pods that have ended stay for people to look at, and are still the owner's.
        let all = owner.labelled().await;
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|pod| owner.controls(pod)));
    }
}

#[tokio::test]
async fn a_pod_that_takes_its_time_to_end_is_replaced_at_once() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 2);
        // The pods of a node end when its kubelet says so; this one never does.
        manifest["spec"]["template"]["spec"]["nodeName"] = json!("node-1");
        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        let pods = owner.has(2).await;
        owner.pods.delete(&pods[0], &DeleteParams::default()).await.unwrap();
        eventually("another pod takes its place", || async {
            (owner.labelled().await.len() == 3 && owner.active().await.len() == 2).then_some(())
        })
        .await;
        let counted = |count| match kind {
            Kind::ReplicaSet => json!({ "replicas": 2, "terminatingReplicas": count }),
            Kind::ReplicationController => json!({ "replicas": 2 }),
        };
        let reported = owner.reports(counted(1)).await;
        assert_eq!(reported.data["status"].get("terminatingReplicas").is_some(), kind == Kind::ReplicaSet);
        owner.pods.delete(&pods[0], &DeleteParams::default().grace_period(0)).await.unwrap();
        owner.reports(counted(0)).await;
        assert_eq!(owner.labelled().await.len(), 2);
    }
}

#[tokio::test]
async fn pods_without_an_owner_are_adopted_and_count() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let foreign = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other-uid", "controller": true,
        }]);
        let uncontrolled = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other-uid",
        }]);
        let make = |suffix: &str| format!("{}-{suffix}", name(kind));
        let mut manifest = kind.manifest(&name(kind), 3);
        manifest["spec"]["template"]["metadata"]["labels"]["tier"] = json!("front");
        // The owner comes last, so that it finds all of them.
        let pods = Api::<Pod>::default_namespaced(managed.client.clone());
        for (suffix, metadata) in [
            ("bare", json!({})),
            ("uncontrolled", json!({ "ownerReferences": uncontrolled })),
            ("foreign", json!({ "ownerReferences": foreign })),
            ("ended", json!({})),
        ] {
            create_pod(&pods, &name(kind), &make(suffix), metadata).await;
        }
        mark(&pods, &make("ended"), "Failed", "False", &Time::now()).await;

        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        let active: BTreeSet<_> = owner.has(3).await.into_iter().collect();
        assert!(active.contains(&make("bare")) && active.contains(&make("uncontrolled")), "{active:?}");
        owner.reports(json!({ "replicas": 3, "fullyLabeledReplicas": 1 })).await;
        let left_alone = [make("foreign"), make("ended")];
        for pod in &left_alone {
            assert!(!owner.controls(&owner.pods.get(pod).await.unwrap()), "{pod}");
        }
        let adopted = owner.pods.get(&make("bare")).await.unwrap().metadata.owner_references;
        let expected = json!([{
            "apiVersion": kind.api_version(), "kind": kind.name(), "name": owner.name, "uid": owner.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(serde_json::to_value(adopted).unwrap(), expected);
        let both = owner.pods.get(&make("uncontrolled")).await.unwrap().metadata.owner_references.unwrap();
        assert_eq!(both.len(), 2, "the other owner stays: {both:?}");

        // A surplus one is adopted as well: then one pod too many is deleted.
        owner.create_pod(&make("surplus"), json!({})).await;
        owner.event("SuccessfulDelete", "Deleted pod: ").await;
        owner.has(3).await;
    }
}

#[tokio::test]
async fn a_pod_whose_labels_no_longer_match_is_released_and_replaced() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 2).await;
        let pods = owner.has(2).await;
        owner.patch_pod(&pods[0], json!({ "metadata": { "labels": { "app": "debug" } } })).await;
        eventually("it is released", || async {
            let released = owner.pods.get(&pods[0]).await.ok()?;
            released.metadata.owner_references.unwrap_or_default().is_empty().then_some(())
        })
        .await;
        let active = owner.has(2).await;
        assert!(!active.contains(&pods[0]) && active.contains(&pods[1]), "{active:?}");
        owner.reports(json!({ "replicas": 2 })).await;

        // With its old labels it is adopted again, and two of three stay.
        owner.patch_pod(&pods[0], json!({ "metadata": { "labels": { "app": owner.name } } })).await;
        owner.event("SuccessfulDelete", "Deleted pod: ").await;
        owner.has(2).await;
    }
}

#[tokio::test]
async fn owners_with_the_same_selector_leave_each_others_pods_alone() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let first = create(&managed, kind, 2).await;
        let pods = first.has(2).await;
        let mut manifest = kind.manifest(&first.name, 3);
        manifest["metadata"]["name"] = json!(format!("{}-second", first.name));
        let second = Owner::create_from(&managed.client, kind, manifest).await;
        second.has(3).await;
        second.reports(json!({ "replicas": 3 })).await;
        assert_eq!(first.has(2).await, pods);
        first.reports(json!({ "replicas": 2 })).await;
    }
}

#[tokio::test]
async fn an_owner_that_is_being_deleted_makes_adopts_and_releases_no_pod() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 3);
        manifest["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        let pods = owner.has(3).await;
        owner.reports(json!({ "replicas": 3 })).await;
        owner.delete(PropagationPolicy::Background).await;

        let bare = format!("{}-bare", owner.name);
        owner.create_pod(&bare, json!({})).await;
        owner.patch_pod(&pods[0], json!({ "metadata": { "labels": { "app": "debug" } } })).await;
        owner.pods.delete(&pods[1], &DeleteParams::default()).await.unwrap();
        // The status shows that the controller has seen all three.
        owner.reports(json!({ "replicas": 1, "fullyLabeledReplicas": 1 })).await;
        assert_eq!(owner.labelled().await.len(), 2, "the one that is left, and the bare one");
        assert!(!owner.controls(&owner.pods.get(&bare).await.unwrap()));
        assert!(owner.controls(&owner.pods.get(&pods[0]).await.unwrap()));
        owner.patch(json!({ "metadata": { "finalizers": null } })).await;
    }
}

#[tokio::test]
async fn a_pod_that_is_refused_is_reported_until_it_can_be_made() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 2);
        manifest["spec"]["template"]["spec"]["priorityClassName"] = json!("no-such");
        let owner = Owner::create_from(&managed.client, kind, manifest).await;
        let failure = eventually("the failure is reported", || owner.failure()).await;
        assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
        // kube-apiserver refuses the pod before it generates the name.
        let refusal = "is forbidden: no PriorityClass with name no-such was found";
        let message = failure["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("pods \"{}-", owner.name)), "{message}");
        assert!(message.ends_with(refusal), "{message}");
        assert!(failure["lastTransitionTime"].is_string());
        owner.reports(json!({ "replicas": 0 })).await;
        let event = owner.event("FailedCreate", "Error creating: pods \"").await;
        assert!(event.message.unwrap().contains(refusal));
        assert_eq!(event.type_.as_deref(), Some("Warning"));

        let allowed = json!({ "spec": { "template": { "spec": { "priorityClassName": null } } } });
        owner.patch(allowed).await;
        owner.has(2).await;
        owner.reports(json!({ "replicas": 2, "conditions": 0 })).await;
    }
}

#[tokio::test]
async fn a_quota_lets_as_many_pods_be_made_as_it_has_room_for() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let quotas = Api::<ResourceQuota>::default_namespaced(managed.client.clone());
        let quota_name = name(kind);
        let quota = json!({ "metadata": { "name": quota_name }, "spec": { "hard": { "pods": "2" } } });
        quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
        // No controller for quotas counts here.
        let counted = json!({ "status": { "hard": { "pods": "2" }, "used": { "pods": "0" } } });
        quotas.patch_status(&quota_name, &PatchParams::default(), &Patch::Merge(counted)).await.unwrap();

        let owner = create(&managed, kind, 4).await;
        let failure = eventually("the failure is reported", || owner.failure()).await;
        assert_eq!(failure["reason"], "FailedCreate");
        assert!(failure["message"].as_str().unwrap().contains("exceeded quota"), "{failure}");
        owner.has(2).await;
        owner.reports(json!({ "replicas": 2 })).await;

        quotas.delete(&quota_name, &DeleteParams::default()).await.unwrap();
        owner.has(4).await;
        owner.reports(json!({ "replicas": 4, "conditions": 0 })).await;
        // The second kind's pods count for themselves.
        owner.scale(0).await;
        owner.has(0).await;
    }
}

#[tokio::test]
async fn a_pod_that_can_not_be_deleted_is_reported_until_it_is() {
    let managed = Managed::on(Cluster::start_embedded().await, QUICK);
    let faults = managed.cluster.embedded().faults();
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 2).await;
        owner.has(2).await;
        owner.reports(json!({ "replicas": 2 })).await;
        faults.fail(usize::MAX, Calls::to("pods").verb(Verb::Delete), Failure::InternalError);
        owner.scale(1).await;
        let failure = eventually("the failure is reported", || owner.failure()).await;
        assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedDelete")));
        let event = owner.event("FailedDelete", "Error deleting: ").await;
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        faults.clear();
        owner.has(1).await;
        owner.reports(json!({ "replicas": 1, "conditions": 0 })).await;
    }
}

#[tokio::test]
async fn what_becomes_of_pods_is_recorded_as_events_of_the_owner() {
    let managed = Managed::start(QUICK).await;
    for kind in Kind::ALL {
        let owner = create(&managed, kind, 1).await;
        let pod = owner.has(1).await.remove(0);
        let created = owner.event("SuccessfulCreate", &format!("Created pod: {pod}")).await;
        owner.scale(0).await;
        let deleted = owner.event("SuccessfulDelete", &format!("Deleted pod: {pod}")).await;
        for event in [created, deleted] {
            assert_eq!(event.type_.as_deref(), Some("Normal"));
            assert_eq!(event.source.unwrap().component.as_deref(), Some(kind.component()));
            assert_eq!(event.involved_object.kind.as_deref(), Some(kind.name()));
            assert_eq!(event.involved_object.api_version.as_deref(), Some(kind.api_version()));
        }
    }
}

#[tokio::test]
async fn an_owner_that_has_its_pods_is_not_written_again() {
    let Managed { client, mut manager, cluster } = Managed::start(QUICK).await;
    let mut owners = Vec::new();
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&name(kind), 2);
        manifest["spec"]["minReadySeconds"] = json!(3600);
        let owner = Owner::create_from(&client, kind, manifest).await;
        for pod in owner.has(2).await {
            owner.mark(&pod, "Running", "True").await;
        }
        owner.reports(json!({ "replicas": 2, "readyReplicas": 2 })).await;
        owners.push((owner.clone(), owner.versions().await));
    }
    // A manager that starts looks at every owner; the new ones show that it has.
    manager.stop().await;
    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    for (owner, before) in owners {
        let last = Owner::create(&client, owner.kind, &format!("{}-last", owner.name), 1).await;
        last.has(1).await;
        last.reports(json!({ "replicas": 1 })).await;
        assert_eq!(owner.versions().await, before, "{}", owner.kind.name());
    }
}

#[tokio::test]
async fn a_manager_killed_in_the_middle_of_scaling_makes_no_pod_twice() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let history = PodHistory::start(&client);
    let mut made = 0;
    for kind in Kind::ALL {
        let mut first = Manager::start(&cluster.kubeconfig(), SLOW);
        let owner = Owner::create(&client, kind, &name(kind), 50).await;
        eventually("some pods are made", || async { (owner.active().await.len() >= 8).then_some(()) }).await;
        first.kill();
        assert!(owner.active().await.len() < 50, "it was in the middle");
        let mut second = Manager::start(&cluster.kubeconfig(), QUICK);
        owner.has(50).await;
        owner.reports(json!({ "replicas": 50 })).await;
        made += 50;
        assert_eq!(history.count().await, made);

        // The same on the way down.
        second.kill();
        let mut third = Manager::start(&cluster.kubeconfig(), SLOW);
        owner.scale(20).await;
        eventually("some pods are gone", || async { (owner.active().await.len() <= 45).then_some(()) }).await;
        third.kill();
        assert!(owner.active().await.len() > 20, "it was in the middle");
        let _fourth = Manager::start(&cluster.kubeconfig(), QUICK);
        owner.reports(json!({ "replicas": 20 })).await;
        assert_eq!((owner.active().await.len(), history.count().await), (20, made));
    }
}

#[tokio::test]
async fn a_watch_that_lags_leads_to_no_pod_too_many_and_none_too_few() {
    let managed = Managed::on(Cluster::start_embedded().await, QUICK);
    let history = PodHistory::start(&managed.client);
    managed.cluster.embedded().faults().delay_watches(Calls::to("pods"), Duration::from_secs(2));
    let mut owners = Vec::new();
    for kind in Kind::ALL {
        owners.push(create(&managed, kind, 20).await);
    }
    for owner in &owners {
        // Each change comes before the manager's cache shows what came of the one before.
        owner.has(20).await;
        owner.scale(5).await;
        let left = owner.has(5).await;
        owner.pods.delete(&left[0], &DeleteParams::default().grace_period(0)).await.unwrap();
        eventually("the pod is replaced", || async {
            let now: Vec<_> = owner.active().await.iter().map(name_of).collect();
            (now.len() == 5 && !now.contains(&left[0])).then_some(())
        })
        .await;
    }
    managed.cluster.embedded().faults().clear();
    for owner in &owners {
        owner.reports(json!({ "replicas": 5 })).await;
    }
    assert_eq!(history.count().await, 2 * 21);
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let history = PodHistory::start(&client);
    let mut managers = Candidates::start(&cluster, SLOW).await;
    let mut owners = Vec::new();
    for kind in Kind::ALL {
        owners.push(Owner::create(&client, kind, &name(kind), 30).await);
    }
    for owner in &owners {
        eventually("some pods are made", || async { (owner.active().await.len() >= 4).then_some(()) }).await;
    }
    managers.kill_leader();
    for owner in &owners {
        owner.has(30).await;
        owner.reports(json!({ "replicas": 30 })).await;
    }
    assert!(managers.has_changed().await);
    assert_eq!(history.count().await, 60);
}
