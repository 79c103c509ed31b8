//! Pods evicted by the manager, as a process, because of the taints of their devices. A test plays kube-scheduler, the driver
//! and the kubelets.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use serde_json::{Value, json};
use steersman_api::{Status, Time};
use steersman_apiserver::{Calls, Failure, Verb};
use support::devices::{Devices, consumer, shared};
use support::managed::Managed;
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] =
    &["--controllers=device-taint-eviction-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"];
const SOURCE: &str = "device-taint-eviction-controller";
const REASON: &str = "DeviceTaintManagerEviction";

async fn start() -> (Managed, Devices) {
    let managed = Managed::start(FLAGS).await;
    let devices = Devices::of(&managed.client, &managed.cluster.namespace);
    (managed, devices)
}

/// The time some seconds before now.
fn ago(seconds: i64) -> Time {
    Time::from_seconds(Time::now().seconds() - seconds)
}

fn taint(effect: &str, added: Time) -> Value {
    json!([{"key": "example.com/broken", "value": "fan", "effect": effect, "timeAdded": added}])
}

fn tolerated_for(seconds: Value) -> Value {
    let mut toleration = json!({"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"});
    if !seconds.is_null() {
        toleration["tolerationSeconds"] = seconds;
    }
    json!([toleration])
}

/// Creates a pod on a node, and a claim of its name with the device and these tolerations, which is reserved for the pod.
async fn user(devices: &Devices, name: &str, tolerations: Value) {
    devices.claim(name).await;
    let uid = devices.pod(name, "n1", &[shared("gpu", name)]).await;
    devices.allocate(name, "gpu-0", tolerations, &[consumer(name, &uid)]).await;
}

/// Waits until a pod is evicted.
async fn goes(devices: &Devices, pod: &str) {
    let conditions = eventually(&format!("{pod} is evicted"), || async {
        let pod = devices.pods.get(pod).await.unwrap();
        pod.metadata.deletion_timestamp.and(pod.status).and_then(|status| status.conditions)
    })
    .await;
    let target = conditions.iter().find(|condition| condition.type_ == "DisruptionTarget").unwrap();
    let target = serde_json::to_value(target).unwrap();
    assert_eq!(
        (&target["status"], &target["reason"]),
        (&json!("True"), &json!("DeletionByDeviceTaintManager"))
    );
    assert_eq!(target["message"], "Device Taint manager: deleting due to NoExecute taint");
    assert!(target["lastTransitionTime"].is_string(), "{target}");
}

async fn stays(devices: &Devices, pod: &str) {
    let found = devices.pods.get(pod).await.unwrap();
    assert_eq!(found.metadata.deletion_timestamp, None, "{pod}");
    let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(
        conditions.iter().all(|condition| condition.type_ != "DisruptionTarget"),
        "{pod}: {conditions:?}"
    );
}

#[tokio::test]
async fn pods_go_when_a_device_is_tainted_unless_their_claims_tolerate_it() {
    let (managed, devices) = start().await;
    devices.publish("a", 1, Value::Null).await;
    for (name, tolerations) in [
        ("at-once", Value::Null),
        ("no-more", tolerated_for(json!(60))),
        ("soon", tolerated_for(json!(125))),
        ("later", tolerated_for(json!(3600))),
        ("never", tolerated_for(Value::Null)),
    ] {
        user(&devices, name, tolerations).await;
    }
    // This pod is not the one that the claim is reserved for.
    devices.pod("stranger", "n1", &[shared("gpu", "at-once")]).await;
    devices.publish("a", 1, taint("NoExecute", ago(120))).await;
    for name in ["at-once", "no-more", "soon"] {
        goes(&devices, name).await;
        assert_eq!(devices.event(name, "Marking for deletion").await, ["Normal", SOURCE, REASON]);
    }
    for name in ["later", "never", "stranger"] {
        stays(&devices, name).await;
    }
    if managed.manager.is_steersman() {
        // The controller counts a deletion once it has the answer.
        for line in [
            "device_taint_eviction_controller_pod_deletions_total 3",
            "device_taint_eviction_controller_pod_deletion_duration_seconds_count 3",
        ] {
            eventually(line, || async {
                let (_, metrics) = managed.manager.get("/metrics").await?;
                metrics.contains(line).then_some(())
            })
            .await;
        }
    }
    devices.withdraw("a").await;
}

#[tokio::test]
async fn a_pod_stays_if_its_device_is_mended_while_the_taint_is_tolerated() {
    let (_managed, devices) = start().await;
    devices.publish("a", 1, taint("NoExecute", ago(0))).await;
    user(&devices, "patient", tolerated_for(json!(3600))).await;
    user(&devices, "witness", Value::Null).await;
    goes(&devices, "witness").await;
    // The controller has planned the eviction by the time that it evicts the other pod, whose claim came later.
    devices.publish("a", 1, Value::Null).await;
    assert_eq!(devices.event("patient", "Cancelling deletion").await, ["Normal", SOURCE, REASON]);
    stays(&devices, "patient").await;
    devices.withdraw("a").await;
}

#[tokio::test]
async fn only_taints_that_end_pods_and_only_slices_of_the_newest_generation_count() {
    let (_managed, mut devices) = start().await;
    devices.publish("a", 1, taint("NoSchedule", ago(9))).await;
    user(&devices, "web", Value::Null).await;
    // The second slice makes the first one outdated, before it is tainted.
    devices.publish("b", 2, Value::Null).await;
    devices.publish("a", 1, taint("NoExecute", ago(9))).await;
    devices.pod("unscheduled", "", &[shared("gpu", "web")]).await;
    // The witness uses a device of another pool.
    let pool = devices.pool.clone();
    devices.pool = format!("{pool}-other");
    devices.publish("c", 1, taint("NoExecute", ago(9))).await;
    user(&devices, "witness", Value::Null).await;
    goes(&devices, "witness").await;
    devices.withdraw("c").await;
    devices.pool = pool;
    stays(&devices, "web").await;
    // Without the newer slice, the older one counts again.
    devices.withdraw("b").await;
    goes(&devices, "web").await;
    stays(&devices, "unscheduled").await;
    devices.withdraw("a").await;
}

#[tokio::test]
async fn a_pod_goes_though_the_api_server_answers_with_conflicts() {
    let cluster = Cluster::start_embedded().await;
    let devices = Devices::of(&cluster.client(), &cluster.namespace);
    let faults = cluster.embedded().faults();
    let _manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    devices.publish("a", 1, Value::Null).await;
    user(&devices, "web", Value::Null).await;
    // The API server gives up a patch after it has lost several races.
    let conflict =
        || Failure::Status(Status::failure(409, "Conflict", "the object has been modified").into());
    faults.fail(2, Calls::to("pods").subresource("status").verb(Verb::Patch), conflict());
    faults.fail(1, Calls::to("pods").verb(Verb::Delete), conflict());
    devices.publish("a", 1, taint("NoExecute", ago(9))).await;
    goes(&devices, "web").await;
    assert_eq!(faults.pending(), 0);
}

#[tokio::test]
async fn a_toleration_ends_at_its_time_though_the_manager_is_killed() {
    if Manager::is_upstream() {
        println!("skipped: it is about restarts of this manager");
        return;
    }
    let cluster = Cluster::start_alone().await;
    let devices = Devices::of(&cluster.client(), &cluster.namespace);
    let mut manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    devices.publish("a", 1, taint("NoExecute", ago(0))).await;
    user(&devices, "web", tolerated_for(json!(6))).await;
    user(&devices, "witness", Value::Null).await;
    goes(&devices, "witness").await;
    manager.kill();
    stays(&devices, "web").await;
    // The toleration does not begin anew, or the pod would not go in time.
    let manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    goes(&devices, "web").await;
    eventually("the deletion is counted", || async {
        let (_, metrics) = manager.get("/metrics").await?;
        metrics.contains("device_taint_eviction_controller_pod_deletions_total 1").then_some(())
    })
    .await;
    devices.withdraw("a").await;
}
