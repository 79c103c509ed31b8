use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::json;

use super::*;
use crate::container::ContainerState;
use crate::kuberuntime::actions::resize::{Amounts, ContainerToUpdate, is_in_progress};
use crate::kuberuntime::actions::testing::{base, id, plain_init};

fn limits(cpu: &str, memory: &str) -> ResourceRequirements {
    serde_json::from_value(json!({"limits": {"cpu": cpu, "memory": memory}})).unwrap()
}

fn amounts(cpu_limit: i64, memory_limit: i64) -> Amounts {
    Amounts { cpu_limit, memory_limit: memory_limit << 20, ..Amounts::default() }
}

/// The container at `index` has `actuated` and is to have `desired`.
fn resized(scene: Scene, index: usize, actuated: (&str, &str), desired: (&str, &str)) -> Scene {
    scene.but(|scene| {
        let container = &mut scene.spec().containers[index];
        container.resources = Some(limits(desired.0, desired.1));
        let name = container.name.clone();
        scene.observed.actuated.containers.insert(name, limits(actuated.0, actuated.1));
    })
}

fn policy(scene: Scene, index: usize, resource: &str, policy: &str) -> Scene {
    let policy = json!([{"resourceName": resource, "restartPolicy": policy}]);
    scene.but(|scene| {
        scene.spec().containers[index].resize_policy = Some(serde_json::from_value(policy).unwrap());
    })
}

fn updated(updates: &[ContainerToUpdate]) -> Vec<&str> {
    updates.iter().map(|update| update.id.id.as_str()).collect()
}

#[test]
fn a_container_whose_resources_change_is_updated_while_it_runs() {
    let scene = resized(base(), 1, ("100m", "100Mi"), ("200m", "200Mi"));
    let actions = scene.actions();
    let update = &actions.containers_to_update;
    assert_eq!((updated(&update.cpu), updated(&update.memory)), (vec!["id2"], vec!["id2"]));
    assert_eq!(update.cpu[0].desired, amounts(200, 200));
    assert_eq!(update.cpu[0].current, amounts(100, 100));
    assert!(actions.containers_to_kill.is_empty() && !actions.kill_pod && !actions.update_pod_resources);

    let cpu_only = resized(base(), 1, ("100m", "100Mi"), ("0.2", "100Mi")).actions().containers_to_update;
    assert_eq!((updated(&cpu_only.cpu), updated(&cpu_only.memory)), (vec!["id2"], vec![]));
    let same = resized(base(), 1, ("100m", "1Gi"), ("0.1", "1024Mi")).actions();
    assert_eq!(same.containers_to_update, Default::default());
}

#[test]
fn those_that_get_less_come_before_those_that_get_more() {
    let scene = resized(base(), 0, ("100m", "100Mi"), ("200m", "50Mi"));
    let scene = resized(scene, 1, ("100m", "100Mi"), ("50m", "200Mi"));
    let scene = resized(scene, 2, ("100m", "100Mi"), ("300m", "300Mi"));
    let update = scene.actions().containers_to_update;
    assert_eq!(updated(&update.cpu), ["id2", "id1", "id3"]);
    assert_eq!(updated(&update.memory), ["id1", "id2", "id3"]);
}

#[test]
fn a_change_that_asks_for_a_restart_restarts_the_container() {
    let change = || resized(base().policy("Never"), 1, ("100m", "100Mi"), ("100m", "200Mi"));
    let actions = policy(change(), 1, "memory", "RestartContainer").actions();
    assert_eq!(actions.containers_to_start, [1]);
    assert_eq!(actions.containers_to_kill[&id("id2")].message, "Container foo2 resize requires restart");
    assert_eq!(actions.containers_to_kill[&id("id2")].reason, KillReason::Resize);
    assert!(actions.update_pod_resources && !actions.kill_pod);
    assert_eq!(actions.containers_to_update, Default::default());

    for kept in [policy(change(), 1, "cpu", "RestartContainer"), policy(change(), 1, "memory", "NotRequired")]
    {
        let actions = kept.actions();
        assert!(actions.containers_to_kill.is_empty() && !actions.update_pod_resources);
        assert_eq!(updated(&actions.containers_to_update.memory), ["id2"]);
    }
}

#[test]
fn what_has_no_record_or_does_not_run_is_left_as_it_is() {
    let unrecorded = resized(base(), 1, ("1", "1Mi"), ("2", "2Mi")).but(|scene| {
        scene.observed.actuated.containers.clear();
    });
    check([("no record", policy(unrecorded, 1, "cpu", "RestartContainer"), Expected::default())]);
    let pod_unrecorded = resized(base(), 1, ("1", "1Mi"), ("2", "2Mi"))
        .but(|scene| scene.spec().resources = Some(limits("3", "3Mi")));
    check([("no record of the pod", pod_unrecorded, Expected::default())]);
    let ended = resized(base().policy("Never").exited(1, 0), 1, ("1", "1Mi"), ("2", "2Mi"));
    check([("it ended", ended, Expected::default())]);
}

#[test]
fn a_running_init_container_is_updated_as_well() {
    let mut init = plain_init();
    init[0].resources = Some(limits("800m", "800Mi"));
    let scene = base().with_init(init).only(..1).state(0, ContainerState::Running).but(|scene| {
        scene.observed.actuated.containers.insert("init1".into(), limits("400m", "400Mi"));
    });
    let actions = scene.actions();
    assert_eq!(updated(&actions.containers_to_update.cpu), ["initid1"]);
    assert_eq!(updated(&actions.containers_to_update.memory), ["initid1"]);
    assert!(actions.init_containers_to_start.is_empty());
}

#[test]
fn a_pods_own_resources_are_compared_and_stand_in_for_limits_its_containers_lack() {
    let scene = base().but(|scene| {
        scene.spec().resources = Some(limits("2", "200Mi"));
        scene.observed.actuated.pod = Some(limits("1", "100Mi"));
        scene.observed.actuated.containers.insert("foo1".into(), ResourceRequirements::default());
    });
    let actions = scene.actions();
    assert!(actions.update_pod_level_resources);
    assert_eq!(actions.containers_to_update.cpu[0].desired, amounts(2000, 200));
    assert_eq!(actions.containers_to_update.cpu[0].current, amounts(1000, 100));
    let same = scene.but(|scene| scene.observed.actuated.pod = scene.spec().resources.clone());
    assert_eq!(same.actions(), PodActions { sandbox_id: Some("sandbox".into()), ..PodActions::default() });
}

#[test]
fn a_resize_is_in_progress_while_something_that_runs_has_not_what_it_is_to_have() {
    let goes_on = |mut scene: Scene| {
        scene.spec();
        is_in_progress(&scene.pod, &scene.status, &scene.observed.actuated)
    };
    let (had, wanted) = (("100m", "100Mi"), ("200m", "100Mi"));
    for (what, scene, expected) in [
        ("nothing is recorded", base(), false),
        ("it is done", resized(base(), 1, wanted, ("0.2", "100Mi")), false),
        ("it is not", resized(base(), 1, had, wanted), true),
        (
            "the container does not run",
            resized(base().state(1, ContainerState::Exited), 1, had, wanted),
            false,
        ),
        (
            "the pod as a whole is not done",
            base().but(|scene| {
                scene.spec().resources = Some(limits("2", "200Mi"));
                scene.observed.actuated.pod = Some(limits("1", "200Mi"));
            }),
            true,
        ),
    ] {
        assert_eq!(goes_on(scene), expected, "{what}");
    }
}
