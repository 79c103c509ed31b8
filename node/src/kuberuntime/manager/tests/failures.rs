//! What can't be done is said, and tried again.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::world::{IMAGE, World, app, pod};
use crate::container::ContainerState;
use crate::images::ImageErrorReason;
use crate::kuberuntime::sync_result::{PodSyncResult, SyncAction, SyncError};
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

fn only_failure(result: &PodSyncResult) -> (SyncAction, String, SyncError) {
    let failures: Vec<_> = result.failures().collect();
    let [step] = &failures[..] else { panic!("{result:?}") };
    (step.action, step.target.clone(), step.error.clone().unwrap())
}

fn fails(message: &str) -> Fault {
    Fault::Fails { code: Code::Unknown, message: message.into() }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_is_told_of_and_tried_again() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.simulated.inject(Operation::RunPodSandbox, 1, fails("no network"));
    let (action, target, error) = only_failure(&world.sync(&pod).await);
    assert_eq!((action, target.as_str()), (SyncAction::CreatePodSandbox, "web_shop(uid-web)"));
    let message =
        "Failed to create sandbox for pod \"web_shop(uid-web)\": rpc error: code = Unknown desc = no network";
    assert_eq!(error, SyncError::new("CreatePodSandboxError", message));
    let said = "Failed to create pod sandbox: rpc error: code = Unknown desc = no network";
    assert_eq!(world.said("FailedCreatePodSandBox"), [(String::new(), said.to_owned())]);
    assert_eq!(world.metrics.started_pods_errors.get(), 1);
    assert_eq!(world.synced(&pod).await.running().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_configured_is_not_made() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    *world.node.bad_dns.lock() = Some("no resolver".into());
    let (action, _, error) = only_failure(&world.sync(&pod).await);
    assert_eq!(action, SyncAction::CreatePodSandbox);
    assert_eq!(error.message, "Failed to generate sandbox config for pod \"web_shop(uid-web)\": no resolver");
    assert_eq!(world.said("FailedCreatePodSandBox")[0].1, "Failed to create pod sandbox: no resolver");
    assert_eq!(world.count(Operation::RunPodSandbox), 0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_class_that_is_not_known_is_refused() {
    let world = World::new();
    let pod = pod(&[], json!({"runtimeClassName": "kata", "containers": [app("a", json!({}))]}));
    only_failure(&world.sync(&pod).await);
    let said = &world.said("FailedCreatePodSandBox")[0].1;
    assert!(said.contains("\"kata\" is not supported"), "{said}");
}

/// A pod whose container `a` asks for the claim `gpu` of the pod.
fn claiming(claim: Value, status: Value) -> Pod {
    let containers = json!([app("a", json!({"resources": {"claims": [{"name": "gpu"}]}}))]);
    let mut pod = pod(&[], json!({"resourceClaims": [claim], "containers": containers}));
    pod.status = serde_json::from_value(status).unwrap();
    pod
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_claims_devices_is_refused_before_its_sandbox() {
    let template = json!({"name": "gpu", "resourceClaimTemplateName": "gpus"});
    let created = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu-x7"}]});
    let extended = json!({"extendedResourceClaimStatus": {
        "resourceClaimName": "web-extended",
        "requestMappings": [{"containerName": "a", "resourceName": "example.com/gpu", "requestName": "r"}],
    }});
    let mut extending = pod(&[], json!({"containers": [app("a", json!({}))]}));
    extending.status = serde_json::from_value(extended).unwrap();
    for (pod, claim) in [
        (claiming(json!({"name": "gpu", "resourceClaimName": "shared"}), json!({})), "\"shared\""),
        (claiming(template.clone(), created), "\"web-gpu-x7\""),
        (claiming(template, json!({})), "\"gpu\""),
        (extending, "\"web-extended\""),
    ] {
        let world = World::new();
        let result = world.sync(&pod).await;
        assert_eq!(world.count(Operation::RunPodSandbox), 0, "{claim}");
        let (action, _, error) = only_failure(&result);
        assert_eq!((action, error.reason.as_str()), (SyncAction::CreatePodSandbox, "CreatePodSandboxError"));
        let [(_, said)] = &world.said("FailedPrepareDynamicResources")[..] else { panic!("{claim}") };
        assert!(said.starts_with("Failed to prepare dynamic resources: ") && said.contains(claim), "{said}");
        assert_eq!(world.said("FailedCreatePodSandBox"), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_template_made_no_claim_runs() {
    let none = json!({"resourceClaimStatuses": [{"name": "gpu"}]});
    let pod = claiming(json!({"name": "gpu", "resourceClaimTemplateName": "gpus"}), none);
    let world = World::new();
    assert_eq!(world.synced(&pod).await.running().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_state_is_not_to_be_had_gets_no_containers_yet() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.simulated.inject(Operation::PodSandboxStatus, 1, fails("busy"));
    assert_eq!(only_failure(&world.sync(&pod).await).0, SyncAction::CreatePodSandbox);
    let said = "Unable to get pod sandbox status: rpc error: code = Unknown desc = busy";
    assert_eq!(world.said("FailedPodSandBoxStatus"), [(String::new(), said.to_owned())]);
    assert_eq!(world.count(Operation::CreateContainer), 0);
    assert_eq!(world.synced(&pod).await.running().count(), 1);
    assert_eq!(world.count(Operation::RunPodSandbox), 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_without_image_keeps_no_other_from_starting() {
    for reason in [ImageErrorReason::ErrImagePull, ImageErrorReason::ImagePullBackOff] {
        let world = World::new();
        let pod = pod(&[], json!({"containers": [app("a", json!({"image": "gone"})), app("b", json!({}))]}));
        world.node.missing.lock().insert("gone".into(), reason);
        let (action, target, error) = only_failure(&world.sync(&pod).await);
        assert_eq!((action, target.as_str()), (SyncAction::StartContainer, "a"));
        assert_eq!(error, SyncError::new(reason.as_str(), "no gone"));
        let said = format!("Error: {}", reason.as_str());
        assert_eq!(world.said("Failed"), [("spec.containers{a}".to_owned(), said)]);
        assert_eq!(world.container(&pod, "b").await.state, ContainerState::Running);
        let labels = ["container", reason.as_str()];
        assert_eq!(world.metrics.started_containers_errors.with_label_values(&labels).get(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_start_fails_with_its_own_reason() {
    let options = "secret \"keys\" not found";
    for (annotations, operation, reason, message) in [
        (&[][..], None, "CreateContainerConfigError", options),
        (&[("create-error", "no room")], None, "CreateContainerError", "no room"),
        (&[("start-error", "no such file")], None, "RunContainerError", "no such file"),
        (&[], Some(Operation::ImageStatus), "CreateContainerConfigError", "away"),
        (&[], Some(Operation::CreateContainer), "CreateContainerError", "away"),
        (&[], Some(Operation::StartContainer), "RunContainerError", "away"),
    ] {
        let world = World::new();
        let pod = pod(annotations, json!({"containers": [app("a", json!({}))]}));
        match operation {
            Some(operation) => world.simulated.inject(operation, 1, fails("away")),
            None if annotations.is_empty() => {
                world.node.bad_options.lock().insert("a".into(), options.into());
            }
            None => {}
        }
        let (action, target, error) = only_failure(&world.sync(&pod).await);
        assert_eq!((action, target.as_str()), (SyncAction::StartContainer, "a"));
        assert_eq!(error, SyncError::new(reason, message));
        let said = [("spec.containers{a}".to_owned(), format!("Error: {message}"))];
        assert_eq!(world.said("Failed"), said, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_must_not_be_root_is_not_started_as_root() {
    let world = World::new();
    let spec = json!({"securityContext": {"runAsNonRoot": true}, "terminationMessagePath": "/t"});
    let pod = pod(&[], json!({"containers": [app("a", spec)]}));
    let (_, _, error) = only_failure(&world.sync(&pod).await);
    assert_eq!(error.reason, "CreateContainerConfigError");
    assert!(error.message.starts_with("container has runAsNonRoot and image will run as root"), "{error:?}");
    let files = world.folder.path().join("root/pods/uid-web/containers/a");
    assert!(!files.exists(), "nothing is left of a try");
}

#[tokio::test(start_paused = true)]
async fn events_have_the_containers_name_where_the_runtime_says_its_id() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    let id = world.container(&pod, "a").await.id.id;
    let message = format!("container {id} is stuck");
    world.kuberuntime.killer.event(&pod, "a", &id, crate::events::EventType::Warning, "Failed", &message);
    assert_eq!(world.said("Failed")[0].1, "container a is stuck");
}

#[tokio::test(start_paused = true)]
async fn an_init_container_that_cannot_start_stops_the_pod_there_but_a_sidecar_does_not() {
    for (policy, started) in [(json!({}), 0), (json!({"restartPolicy": "Always"}), 0)] {
        let world = World::new();
        let mut init = app("one", policy);
        init["image"] = "gone".into();
        let pod = pod(&[], json!({"initContainers": [init], "containers": [app("a", json!({}))]}));
        world.node.missing.lock().insert("gone".into(), ImageErrorReason::ErrImagePull);
        only_failure(&world.sync(&pod).await);
        assert_eq!(world.status(&pod).await.running().count(), started);
        world.node.missing.lock().clear();
        world.simulated.add_image("gone");
        world.synced(&pod).await;
        assert_eq!(world.container(&pod, "one").await.state, ContainerState::Running, "{IMAGE}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_before_what_must_go_has_gone() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    world.fails_liveness(&pod, "a").await;
    world.simulated.inject(Operation::StopContainer, 1, fails("busy"));
    let (action, target, error) = only_failure(&world.sync(&pod).await);
    assert_eq!((action, target.as_str()), (SyncAction::KillContainer, "a"));
    assert_eq!(error.reason, "KillContainerError");
    assert_eq!(world.count(Operation::CreateContainer), 1);
    assert_eq!(world.synced(&pod).await.container("a").unwrap().restart_count, 1);
}
