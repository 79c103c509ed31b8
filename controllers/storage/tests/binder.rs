//! Tests of the volume binder against the test server.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::time::Duration;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use steersman_api::Status;
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_controllers_storage::binder::construct;

async fn volume(cluster: &Cluster, name: &str, size: &str) {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    });
    cluster.create(&volume).await;
}

async fn claim(cluster: &Cluster, name: &str, size: &str, class: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": class,
        },
    });
    cluster.create(&claim).await;
}

/// Deletes an object as the protection controllers let it go.
async fn delete(cluster: &Cluster, kind: &str, key: &str) {
    cluster.patch(kind, key, json!({"metadata": {"finalizers": null}})).await;
    cluster.delete(kind, key).await;
}

fn peek_claim(cluster: &Cluster, name: &str) -> Value {
    cluster.peek("persistentvolumeclaims", &format!("default/{name}"))
}

fn peek_volume(cluster: &Cluster, name: &str) -> Value {
    cluster.peek("persistentvolumes", name)
}

async fn claim_is(cluster: &Cluster, name: &str, phase: &str) -> Value {
    eventually(&format!("claim {name} is {phase}"), || {
        Some(peek_claim(cluster, name)).filter(|claim| claim["status"]["phase"] == phase)
    })
    .await
}

async fn volume_is(cluster: &Cluster, name: &str, phase: &str) -> Value {
    eventually(&format!("volume {name} is {phase}"), || {
        Some(peek_volume(cluster, name)).filter(|volume| volume["status"]["phase"] == phase)
    })
    .await
}

/// The writes to claims and volumes, in their order.
fn writes(recording: &steersman_apiserver::Recording) -> Vec<String> {
    let calls = recording.matching(&Calls::all());
    let lines = calls.iter().map(|call| format!("{call:?}"));
    lines
        .filter(|line| {
            line.contains("persistentvolume") && (line.starts_with("patch") || line.starts_with("update"))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_bound_by_four_writes_and_released() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    volume(&cluster, "v", "5Gi").await;
    volume(&cluster, "big", "50Gi").await;
    volume_is(&cluster, "v", "Available").await;
    volume_is(&cluster, "big", "Available").await;
    settle().await;
    let recording = cluster.server.record();
    claim(&cluster, "c", "1Gi", "").await;
    let bound = claim_is(&cluster, "c", "Bound").await;
    settle().await;
    assert_eq!(
        writes(&recording),
        [
            "patch persistentvolumes/v -> 200",
            "patch persistentvolumes/status/v -> 200",
            "patch persistentvolumeclaims/default/c -> 200",
            "patch persistentvolumeclaims/status/default/c -> 200",
        ]
    );
    assert_eq!(bound["spec"]["volumeName"], "v");
    assert_eq!(bound["status"]["capacity"]["storage"], "5Gi");
    assert_eq!(peek_volume(&cluster, "v")["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    delete(&cluster, "PersistentVolumeClaim", "default/c").await;
    volume_is(&cluster, "v", "Released").await;
    cluster
        .patch(
            "PersistentVolume",
            "v",
            json!({"metadata": {"annotations": {"steersman.io/reuse-when-released": "true"}}}),
        )
        .await;
    let volume = volume_is(&cluster, "v", "Available").await;
    assert!(volume["spec"]["claimRef"].is_null(), "{volume}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_claim_has_no_namespace_is_never_released() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    let volume = |name: &str, namespace: Value| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": namespace, "name": "data", "uid": "u"},
            },
        })
    };
    cluster.create(&volume("without", Value::Null)).await;
    cluster.create(&volume("odd", json!("a/b"))).await;
    cluster.create(&volume("gone", json!("default"))).await;
    volume_is(&cluster, "gone", "Released").await;
    settle().await;
    for name in ["without", "odd"] {
        assert_ne!(
            peek_volume(&cluster, name)["status"]["phase"],
            "Released",
            "{name}: nobody knows of its claim"
        );
    }
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_role_without_patch_binds_by_updates() {
    let cluster = Cluster::start().await;
    let refusal = || Failure::Status(Box::new(Status::failure(403, "Forbidden", "no reviews here")));
    cluster.server.faults().fail(usize::MAX, Calls::to("selfsubjectaccessreviews"), refusal());
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        cluster.server.faults().fail(usize::MAX, Calls::to(resource).verb(Verb::Patch), refusal());
    }
    let controller = cluster.run(construct);
    volume(&cluster, "v", "5Gi").await;
    volume_is(&cluster, "v", "Available").await;
    settle().await;
    let recording = cluster.server.record();
    claim(&cluster, "c", "1Gi", "").await;
    let bound = claim_is(&cluster, "c", "Bound").await;
    assert_eq!(bound["spec"]["volumeName"], "v");
    volume_is(&cluster, "v", "Bound").await;
    settle().await;
    let calls = recording.matching(&Calls::all());
    let calls = calls.iter().map(|call| format!("{call:?}"));
    let is_of_storage = |call: &String| {
        call.contains("persistentvolume") && (call.starts_with("get") || call.starts_with("update"))
    };
    assert_eq!(
        calls.filter(is_of_storage).collect::<Vec<_>>(),
        [
            // The answer to the phase `Available` shows the volume.
            "update persistentvolumes/v -> 200",
            "update persistentvolumes/status/v -> 200",
            "get persistentvolumeclaims/default/c -> 200",
            "update persistentvolumeclaims/default/c -> 200",
            "update persistentvolumeclaims/status/default/c -> 200",
        ],
        "the answer to an update serves the next one"
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lagging_caches_and_lost_answers_bind_no_volume_twice() {
    let cluster = Cluster::start().await;
    for number in 0..6 {
        volume(&cluster, &format!("v{number}"), &format!("{}Gi", number + 1)).await;
    }
    for number in 0..6 {
        claim(&cluster, &format!("c{number}"), &format!("{}Gi", number + 1), "").await;
    }
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        cluster.server.faults().delay_watches(Calls::to(resource), Duration::from_millis(700));
        for failure in [Failure::InternalError, Failure::ResetAfterwards, Failure::TimeoutAfterwards] {
            cluster.server.faults().fail(2, Calls::to(resource).verb(Verb::Patch), failure);
        }
    }
    let controller = cluster.run(construct);
    let mut taken = std::collections::BTreeSet::new();
    for number in 0..6 {
        let claim = claim_is(&cluster, &format!("c{number}"), "Bound").await;
        let name = claim["spec"]["volumeName"].as_str().unwrap().to_owned();
        assert_eq!(peek_volume(&cluster, &name)["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
        assert!(taken.insert(name));
    }
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_provisioner_is_asked_and_a_lost_claim_is_told() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"},
        "provisioner": "example.com/disks",
    });
    let classes = Api::<StorageClass>::all(cluster.server.in_memory_client());
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    claim(&cluster, "c", "1Gi", "disks").await;
    eventually("the provisioner is asked", || {
        let annotations = peek_claim(&cluster, "c")["metadata"]["annotations"].clone();
        (annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/disks").then_some(())
    })
    .await;
    let uid = peek_claim(&cluster, "c")["metadata"]["uid"].clone();
    let made = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "made", "annotations": {"pv.kubernetes.io/provisioned-by": "example.com/disks"}},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
            "csi": {"driver": "example.com", "volumeHandle": "h"}, "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": uid},
        },
    });
    cluster.create(&made).await;
    claim_is(&cluster, "c", "Bound").await;
    volume_is(&cluster, "made", "Bound").await;
    delete(&cluster, "PersistentVolume", "made").await;
    claim_is(&cluster, "c", "Lost").await;
    let samples = controller.metrics.gather();
    let names: Vec<_> = samples.iter().map(|family| family.name().to_owned()).collect();
    for name in ["pv_collector_unbound_pvc_count", "volume_operation_total_seconds"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    controller.stop().await;
}
