//! Resources change while containers run.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::world::{World, app, pod};
use crate::allocation::{PodResources, Store};
use crate::cgroups::PodMemory;
use crate::container::ContainerResources;
use crate::kuberuntime::sync_result::SyncAction;
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

fn resources(cpu: &str, memory: &str) -> Value {
    let both = json!({"cpu": cpu, "memory": memory});
    json!({"limits": both, "requests": both})
}

fn resized(pod: &Pod, container: usize, to: Value) -> Pod {
    let mut pod = pod.clone();
    let resources = serde_json::from_value(to).unwrap();
    pod.spec.as_mut().unwrap().containers[container].resources = Some(resources);
    pod
}

fn amounts(milli: i64, memory: i64) -> Option<ContainerResources> {
    Some(ContainerResources {
        cpu_request_milli: Some(milli),
        cpu_limit_milli: Some(milli),
        memory_request: Some(memory),
        memory_limit: Some(memory),
    })
}

#[tokio::test(start_paused = true)]
async fn a_running_container_is_given_more_or_less() {
    let world = World::new();
    let small = pod(
        &[("memory-bytes", "1000")],
        json!({"containers": [
            app("a", json!({"resources": resources("250m", "4096")})),
            app("b", json!({"resources": resources("500m", "8192")})),
        ]}),
    );
    let before = world.synced(&small).await;
    assert_eq!(before.container("a").unwrap().resources, amounts(250, 4096));
    let both = resized(&resized(&small, 0, resources("1", "2048")), 1, resources("125m", "16384"));
    let result = world.sync(&both).await;
    let actions: Vec<_> = result.steps.iter().map(|step| step.action).collect();
    assert_eq!((actions, result.error_text()), (vec![SyncAction::ResizePodInPlace], None));
    let after = world.status(&both).await;
    assert_eq!(after.container("a").unwrap().resources, amounts(1000, 2048));
    assert_eq!(after.container("b").unwrap().resources, amounts(125, 16384));
    assert_eq!(after.container("a").unwrap().id, before.container("a").unwrap().id);
    // In between the pod had enough for all that its containers had.
    assert_eq!(*world.node.cgroup.lock(), [["1", "500m"], ["1", "125m"]]);
    assert_eq!(world.sync(&both).await.steps, []);
}

#[tokio::test(start_paused = true)]
async fn less_memory_than_is_used_is_refused_and_nothing_changed() {
    let world = World::new();
    let pod = pod(
        &[("memory-bytes", "3000")],
        json!({"containers": [app("a", json!({"resources": resources("250m", "4096")}))]}),
    );
    world.synced(&pod).await;
    let result = world.sync(&resized(&pod, 0, resources("500m", "2048"))).await;
    let step = result.failures().next().unwrap();
    let error = step.error.clone().unwrap();
    assert_eq!((step.action, error.reason.as_str()), (SyncAction::ResizePodInPlace, "ResizePodInPlaceError"));
    let message = "cannot decrease memory limits: attempting to set container \"a\" memory limit (2048) below current usage (3000)";
    assert_eq!(error.message, message);
    assert_eq!(world.container(&pod, "a").await.resources, amounts(250, 4096));
    assert_eq!(world.count(Operation::UpdateContainerResources), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_no_less_memory_than_it_uses_and_all_that_is_wrong_is_told() {
    let world = World::new();
    let whole = |memory: &str| json!({"limits": {"memory": memory}, "requests": {"memory": "1024"}});
    let app = app("a", json!({"resources": resources("250m", "4096")}));
    let of = |memory: &str| {
        pod(&[("memory-bytes", "3000")], json!({"resources": whole(memory), "containers": [app]}))
    };
    world.synced(&of("8192")).await;
    let failure = async |pod: &Pod| {
        let result = world.sync(pod).await;
        result.failures().next().map(|step| step.error.clone().unwrap().message)
    };
    // Of the pod alone.
    let of_pod = "attempting to set pod memory limit (5000) below current usage (5000)";
    let memory = PodMemory { used: Some(5000), limit: Some(8192), wanted: Some(5000) };
    *world.node.memory.lock() = memory;
    assert_eq!(failure(&of("5000")).await.unwrap(), format!("cannot decrease memory limits: {of_pod}"));
    // Of both.
    let smaller = resized(&of("5000"), 0, resources("250m", "2048"));
    let of_container = "attempting to set container \"a\" memory limit (2048) below current usage (3000)";
    assert_eq!(
        failure(&smaller).await.unwrap(),
        format!("cannot decrease memory limits: [{of_pod}, {of_container}]")
    );
    *world.node.memory.lock() = PodMemory { used: None, ..memory };
    assert_eq!(
        failure(&of("5000")).await.unwrap(),
        "cannot decrease memory limits: missing pod memory usage"
    );
    assert_eq!(world.count(Operation::UpdateContainerResources), 0);
    assert_eq!(world.count(Operation::UpdatePodSandboxResources), 0);
    assert!(world.node.cgroup.lock().is_empty());
    // It is not taken for done.
    *world.node.memory.lock() = PodMemory { used: Some(4999), ..memory };
    assert_eq!(failure(&of("5000")).await, None);
    assert_eq!(world.sync(&of("5000")).await.steps, []);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_refuses_a_resize_is_told_of() {
    let world = World::new();
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let pod = |policy: &Value| {
        let container = json!({"resources": resources("250m", "4096"), "resizePolicy": policy});
        pod(&[], json!({"containers": [app("a", container)]}))
    };
    let status = world.synced(&pod(&json!([]))).await;
    let sandbox = &status.sandboxes[0].id;
    let refuses = Fault::Fails { code: Code::Internal, message: "no".into() };
    for (cpu, memory, policy, resource) in [
        ("1", "4096", json!([]), "cpu"),
        ("1", "8192", json!([]), "memory"),
        // Whatever of it restarts: of the pod, memory comes first.
        ("1", "4096", policy, "memory"),
    ] {
        world.simulated.inject(Operation::UpdatePodSandboxResources, 1, refuses.clone());
        let result = world.sync(&resized(&pod(&policy), 0, resources(cpu, memory))).await;
        assert_eq!(
            result.failures().next().unwrap().error.clone().unwrap().message,
            format!(
                "failed to notify runtime for UpdatePodSandboxResources (resource={resource}); resize rejected: \
                 updatePodSandboxResources failed for sanboxID \"{sandbox}\": rpc error: code = Internal desc = no"
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_must_restart_to_be_resized_does() {
    let world = World::new();
    let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let spec = json!({"resources": resources("250m", "4096"), "resizePolicy": policy});
    let pod = pod(&[], json!({"containers": [app("a", spec)]}));
    world.synced(&pod).await;
    let status = world.synced(&resized(&pod, 0, resources("250m", "8192"))).await;
    let container = status.container("a").unwrap();
    assert_eq!((container.restart_count, container.resources), (1, amounts(250, 8192)));
    assert_eq!(world.said("Killing")[0].1, "Container a resize requires restart");
}

#[tokio::test(start_paused = true)]
async fn a_change_while_the_agent_was_away_is_met_and_nothing_else_is_touched() {
    let world = World::new();
    let pod = pod(
        &[],
        json!({"containers": [
            app("a", json!({"resources": resources("250m", "4096")})),
            app("b", json!({"resources": resources("500m", "8192")})),
        ]}),
    );
    world.synced(&pod).await;
    let world = world.restarted();
    assert_eq!(world.sync(&pod).await.steps, []);
    let world = world.restarted();
    let status = world.synced(&resized(&pod, 0, resources("1", "4096"))).await;
    assert_eq!(status.container("a").unwrap().resources, amounts(1000, 4096));
    assert_eq!(world.count(Operation::StopContainer), 0);
}

#[tokio::test(start_paused = true)]
async fn what_containers_were_given_is_on_disk_and_counts_more_than_what_the_runtime_tells() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("actuated_pods_state");
    let world = World::new().restarted_with(Store::open(file.clone()).unwrap());
    let small = pod(&[], json!({"containers": [app("a", json!({"resources": resources("250m", "4096")}))]}));
    let status = world.synced(&small).await;
    assert!(!world.kuberuntime.is_resize_in_progress(&small, &status));
    let uid = small.metadata.uid.as_deref().unwrap().into();
    let on_disk = || Store::open(file.clone()).unwrap().get(&uid);
    assert_eq!(on_disk(), Some(PodResources::of(&small)));
    let large = resized(&small, 0, resources("1", "4096"));
    assert!(world.kuberuntime.is_resize_in_progress(&large, &status));
    world.synced(&large).await;
    assert_eq!(on_disk(), Some(PodResources::of(&large)));

    let world = world.restarted_with(Store::open(file.clone()).unwrap());
    assert_eq!(world.sync(&large).await.steps, []);
    // As if the agent had ended between the change and its record.
    let store = Store::in_memory();
    store.set(&uid, PodResources::of(&small));
    let world = world.restarted_with(store);
    let actions: Vec<_> = world.sync(&large).await.steps.iter().map(|step| step.action).collect();
    assert_eq!(actions, [SyncAction::ResizePodInPlace]);
}
