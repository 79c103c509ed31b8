//! What the PLEG is shown.

use futures::FutureExt;
use serde_json::json;

use super::world::{World, app, named, pass, pod, seconds};
use crate::container::ContainerState;
use crate::cri::v1;
use crate::pleg::PodLister;
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation, RuntimeService};

fn gone() -> Fault {
    Fault::Fails { code: Code::NotFound, message: "gone".into() }
}

#[tokio::test(start_paused = true)]
async fn all_pods_are_listed_and_one_by_itself() {
    let world = World::new();
    let one = named("one", &[], json!({"containers": [app("a", json!({}))]}));
    let two = named("two", &[], json!({"containers": [app("a", json!({})), app("b", json!({}))]}));
    for pod in [&one, &two] {
        world.synced(pod).await;
    }
    let foreign = v1::PodSandboxConfig::default();
    world.simulated.run_pod_sandbox(&foreign, "").await.unwrap();
    let pods = world.kuberuntime.pods().await.unwrap();
    let names: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.containers.len())).collect();
    assert_eq!(names, [("one", 1), ("two", 2)]);
    let listed = world.listed(&two).await.unwrap();
    assert_eq!(listed, pods[1]);
    assert!(listed.containers.iter().all(|container| container.state == ContainerState::Running));
    assert!(listed.containers.iter().all(|container| container.id.to_string().starts_with("test://")));
    let missing = named("missing", &[], json!({"containers": []}));
    assert_eq!(world.listed(&missing).await, None);
}

#[tokio::test(start_paused = true)]
async fn of_many_containers_only_some_are_inspected_at_a_time() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    let mut listed = world.listed(&pod).await.unwrap();
    listed.containers = vec![listed.containers[0].clone(); 40];
    let before = world.count(Operation::ContainerStatus);
    world.simulated.inject(Operation::ContainerStatus, u32::MAX, Fault::Hangs);
    assert!(world.kuberuntime.pod_status(&listed).now_or_never().is_none());
    assert_eq!(world.count(Operation::ContainerStatus) - before, 16);
    world.simulated.clear_faults();
    assert_eq!(world.kuberuntime.pod_status(&listed).await.unwrap().containers.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn containers_are_inspected_side_by_side_and_those_that_went_left_out() {
    let world = World::new();
    let pod =
        pod(&[], json!({"containers": [app("a", json!({})), app("b", json!({})), app("c", json!({}))]}));
    world.synced(&pod).await;
    let listed = world.listed(&pod).await.unwrap();
    world.simulated.inject_for("a", Operation::ContainerStatus, 1, gone());
    world.simulated.inject_for("b", Operation::ContainerStatus, 1, Fault::Slow(seconds(5)));
    world.simulated.inject_for("c", Operation::ContainerStatus, 1, Fault::Slow(seconds(5)));
    let began = tokio::time::Instant::now();
    let status = world.kuberuntime.pod_status(&listed).await.unwrap();
    assert_eq!(began.elapsed(), seconds(5));
    let mut names: Vec<_> = status.containers.iter().map(|container| container.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "c"]);
    world.simulated.inject(Operation::PodSandboxStatus, 1, gone());
    let status = world.kuberuntime.pod_status(&listed).await.unwrap();
    assert_eq!((status.sandboxes.len(), status.ips.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_fails_the_inspection() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    let listed = world.listed(&pod).await.unwrap();
    for operation in [Operation::ContainerStatus, Operation::PodSandboxStatus] {
        let away = Fault::Fails { code: Code::Unavailable, message: "away".into() };
        world.simulated.inject(operation, 1, away);
        let error = world.kuberuntime.pod_status(&listed).await.unwrap_err();
        assert_eq!(error.to_string(), "rpc error: code = Unavailable desc = away");
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_incarnation_of_a_container_comes_first() {
    let world = World::new();
    let pod = pod(&[("exit-after", "1s,never")], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    pass(2).await;
    let status = world.synced(&pod).await;
    let counts: Vec<_> =
        status.containers.iter().map(|container| (container.restart_count, container.state)).collect();
    assert_eq!(counts, [(1, ContainerState::Running), (0, ContainerState::Exited)]);
}
