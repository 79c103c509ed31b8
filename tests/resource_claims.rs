//! Claims of devices made, reserved and released by the manager, as a process. A test plays kube-scheduler and the kubelets.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::BTreeSet;

use kube::api::DeleteParams;
use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use support::devices::{Devices, FINALIZER, consumer, shared, templated};
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::{Cluster, eventually, until};

const FLAGS: &[&str] =
    &["--controllers=resourceclaim-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"];
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

async fn start() -> (Managed, Devices) {
    let managed = Managed::start(FLAGS).await;
    let devices = Devices::of(&managed.client, &managed.cluster.namespace);
    (managed, devices)
}

fn is_allocated(claim: &Value) -> bool {
    claim["status"]["allocation"].is_object()
}

fn reserved_for(claim: &Value) -> Vec<String> {
    let all = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    all.iter().map(|consumer| consumer["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_pod_gets_the_claims_of_its_templates() {
    let (_managed, devices) = start().await;
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"example.com/note": "kept"}});
    devices.template("t", metadata).await;
    let uid = devices.pod("web", "", &[templated("gpu", "t"), templated("nic", "t")]).await;
    let generated = devices.generated("web", 2).await;
    assert_eq!(
        generated.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(),
        ["gpu", "nic"].into()
    );
    for (name, claim) in &generated {
        let claim = devices.get(claim).await;
        let metadata = &claim["metadata"];
        assert_eq!(metadata["generateName"], format!("web-{name}-"));
        assert_eq!(metadata["labels"], json!({"team": "a"}));
        assert_eq!(metadata["annotations"], json!({"example.com/note": "kept", POD_CLAIM_NAME: name}));
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true});
        assert_eq!(metadata["ownerReferences"], json!([owner]));
        assert_eq!(claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"], "gpu.example.com");
    }
    let pod = devices.pods.get("web").await.unwrap();
    let managers = pod.metadata.managed_fields.unwrap();
    let applied = managers.iter().find(|entry| entry.manager.as_deref() == Some("ResourceClaimController"));
    let applied = applied.unwrap();
    assert_eq!(
        (applied.operation.as_deref(), applied.subresource.as_deref()),
        (Some("Apply"), Some("status"))
    );
}

#[tokio::test]
async fn a_template_that_is_missing_is_an_event_until_it_is_made() {
    let (_managed, devices) = start().await;
    devices.pod("early", "", &[templated("gpu", "late")]).await;
    let message = "PodResourceClaim gpu: resource claim template \"late\": \
                   resourceclaimtemplate.resource.k8s.io \"late\" not found";
    let event = devices.event("early", message).await;
    assert_eq!(event, ["Warning", "resource_claim", "FailedResourceClaimCreation"]);
    devices.template("late", json!({})).await;
    devices.generated("early", 1).await;
    assert_eq!(devices.names().await.len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_deleted_by_accident_is_made_anew() {
    if Manager::is_upstream() {
        println!("skipped: for an hour, upstream takes a claim that it has made to exist");
        return;
    }
    let (_managed, devices) = start().await;
    devices.template("t", json!({})).await;
    devices.pod("web", "", &[templated("gpu", "t"), templated("nic", "t")]).await;
    let before = devices.generated("web", 2).await;
    devices.claims.delete(&before[0].1, &DeleteParams::default()).await.unwrap();
    let after = eventually("the claim is made anew", || async {
        let after = devices.generated("web", 2).await;
        (after[0] != before[0]).then_some(after)
    })
    .await;
    assert_eq!((&after[0].0, &after[1]), (&before[0].0, &before[1]));
    assert_eq!(devices.names().await.len(), 2);
}

#[tokio::test]
async fn a_claim_is_reserved_for_a_pod_that_the_scheduler_did_not_schedule() {
    let (_managed, devices) = start().await;
    devices.claim("gpu").await;
    devices.template("t", json!({})).await;
    let uid = devices.pod("bound", "n1", &[shared("a", "gpu"), templated("b", "t")]).await;
    devices.pod("unbound", "", &[shared("a", "gpu")]).await;
    devices.allocate("gpu", "gpu-0", Value::Null, &[]).await;
    let claim = devices.claim_is("gpu", "is reserved", |claim| !reserved_for(claim).is_empty()).await;
    assert_eq!(claim["status"]["reservedFor"], json!([consumer("bound", &uid)]));
    assert!(is_allocated(&claim));
    let generated = devices.generated("bound", 1).await;
    devices.allocate(&generated[0].1, "gpu-1", Value::Null, &[]).await;
    devices.claim_is(&generated[0].1, "is reserved", |claim| reserved_for(claim) == ["bound"]).await;
}

#[tokio::test]
async fn a_claim_loses_its_devices_with_its_last_consumer() {
    let (_managed, devices) = start().await;
    devices.claim("gpu").await;
    let mut consumers = Vec::new();
    for pod in ["done", "failed", "deleted"] {
        consumers.push(consumer(pod, &devices.pod(pod, "n1", &[shared("a", "gpu")]).await));
    }
    // A pod that never was is not in the cache either.
    consumers.push(consumer("none", "0c4c2a6e-0c88-4ba6-8f6f-4d2f1a0e9a11"));
    devices.allocate("gpu", "gpu-0", Value::Null, &consumers).await;
    let left = ["done", "failed", "deleted"];
    devices.claim_is("gpu", "is released from no pod", |claim| reserved_for(claim) == left).await;
    // Upstream reserves the claim for a pod that has ended, and releases it again, as long as another pod has it.
    if Manager::is_upstream() {
        devices.set_phase("done", "Succeeded").await;
        devices.set_phase("failed", "Failed").await;
        devices.remove_pod("deleted").await;
    } else {
        devices.set_phase("done", "Succeeded").await;
        devices.claim_is("gpu", "is released", |claim| reserved_for(claim) == left[1..]).await;
        devices.set_phase("failed", "Failed").await;
        let claim = devices.claim_is("gpu", "is released", |claim| reserved_for(claim) == left[2..]).await;
        assert!(is_allocated(&claim) && claim["metadata"]["finalizers"] == json!([FINALIZER]));
        devices.remove_pod("deleted").await;
    }
    let claim = devices
        .claim_is("gpu", "has no devices", |claim| {
            !is_allocated(claim) && claim["metadata"]["finalizers"].is_null()
        })
        .await;
    assert_eq!(reserved_for(&claim), [""; 0]);
}

#[tokio::test]
async fn a_claim_that_was_made_for_a_pod_goes_once_the_pod_has_ended() {
    let (_managed, devices) = start().await;
    devices.template("t", json!({})).await;
    let uid = devices.pod("batch", "n1", &[templated("gpu", "t")]).await;
    let claim = devices.generated("batch", 1).await.remove(0).1;
    devices.allocate(&claim, "gpu-0", Value::Null, &[consumer("batch", &uid)]).await;
    devices.set_phase("batch", "Succeeded").await;
    devices.goes(&claim).await;
    if !Manager::is_upstream() {
        // Upstream makes another claim for the pod, and deletes it again.
        devices.template("u", json!({})).await;
        devices.pod("next", "", &[templated("gpu", "u")]).await;
        devices.generated("next", 1).await;
        assert_eq!(devices.names().await.len(), 1);
    }
}

#[tokio::test]
async fn consumers_that_are_no_pods_keep_their_claims() {
    let (_managed, devices) = start().await;
    devices.claim("gpu").await;
    let uid = devices.pod("web", "n1", &[shared("a", "gpu")]).await;
    let other = json!({"apiGroup": "example.com", "resource": "jobs", "name": "far", "uid": "u"});
    devices.allocate("gpu", "gpu-0", Value::Null, &[consumer("web", &uid), other.clone()]).await;
    devices.remove_pod("web").await;
    let claim = devices.claim_is("gpu", "is released", |claim| reserved_for(claim) == ["far"]).await;
    assert_eq!(claim["status"]["reservedFor"], json!([other]));
    assert!(is_allocated(&claim));
}

#[tokio::test]
async fn a_claim_without_consumers_can_be_deleted() {
    let (_managed, devices) = start().await;
    devices.claim("allocated").await;
    devices.allocate("allocated", "gpu-0", Value::Null, &[]).await;
    devices.claims.delete("allocated", &DeleteParams::default()).await.unwrap();
    devices.goes("allocated").await;
}

#[tokio::test]
async fn no_claim_is_made_twice_though_the_status_can_not_be_written() {
    let cluster = Cluster::start_embedded().await;
    let devices = Devices::of(&cluster.client(), &cluster.namespace);
    let faults = cluster.embedded().faults();
    faults.fail(5, Calls::to("pods").verb(Verb::Patch), Failure::InternalError);
    let manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    devices.template("t", json!({})).await;
    devices.pod("web", "", &[templated("gpu", "t")]).await;
    let generated = devices.generated("web", 1).await;
    assert_eq!(devices.names().await, [generated[0].1.as_str()]);
    assert_eq!(faults.pending(), 0);
    if !manager.is_steersman() {
        return;
    }
    let (_, metrics) = manager.get("/metrics").await.unwrap();
    for line in [
        r#"resourceclaim_controller_creates_total{admin_access="false",status="success"} 1"#,
        r#"resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source="resource_claim_template"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn no_claim_is_made_twice_though_the_answers_get_lost() {
    let cluster = Cluster::start_embedded().await;
    let devices = Devices::of(&cluster.client(), &cluster.namespace);
    let faults = cluster.embedded().faults();
    let creates = Calls::to("resourceclaims").verb(Verb::Create);
    let _manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    devices.template("t", json!({})).await;
    faults.fail(1, creates, Failure::ResetAfterwards);
    devices.pod("web", "", &[templated("gpu", "t")]).await;
    let generated = devices.generated("web", 1).await;
    assert_eq!(devices.names().await, [generated[0].1.as_str()]);
    until("the fault has happened", || faults.pending() == 0).await;
}

#[tokio::test]
async fn each_pod_has_its_claim_once_though_the_leader_is_killed() {
    const PODS: usize = 40;
    let cluster = Cluster::start_alone().await;
    let devices = Devices::of(&cluster.client(), &cluster.namespace);
    let slow = ["--controllers=resourceclaim-controller", "--kube-api-qps=30", "--kube-api-burst=10"];
    let mut candidates = Candidates::start(&cluster, &slow).await;
    devices.template("t", json!({})).await;
    for pod in 0..PODS {
        devices.pod(&format!("web-{pod}"), "", &[templated("gpu", "t")]).await;
    }
    eventually("some claims are made", || async { (devices.names().await.len() > PODS / 4).then_some(()) })
        .await;
    candidates.kill_leader();
    let mut named = BTreeSet::new();
    for pod in 0..PODS {
        named.extend(devices.generated(&format!("web-{pod}"), 1).await.into_iter().map(|(_, claim)| claim));
    }
    assert_eq!(named, devices.names().await.into_iter().collect());
}
