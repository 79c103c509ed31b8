//! What is left over goes.

use std::fs;

use serde_json::json;
use steersman_api::Uid;

use super::world::{World, app, named, pass, pod};
use crate::container::SandboxState;
use crate::kuberuntime::manager::garbage::{PodStates, Scope};
use crate::pleg::PodLister;
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

/// The pods of these uids are gone, or have ended.
#[derive(Default)]
struct States {
    gone: Vec<&'static str>,
    ended: Vec<&'static str>,
}

impl PodStates for States {
    fn content_should_be_removed(&self, pod: &Uid) -> bool {
        self.gone.iter().any(|gone| *pod == Uid::from(*gone))
    }

    fn runtime_should_be_removed(&self, pod: &Uid) -> bool {
        self.ended.iter().any(|ended| *pod == Uid::from(*ended))
    }
}

const ALL: Scope = Scope { all_sources_ready: true, ended_pods_too: false };

#[tokio::test(start_paused = true)]
async fn of_a_live_pod_the_newest_dead_container_is_kept() {
    let world = World::new();
    let pod = pod(&[("exit-after", "1s,1s,1s,never")], json!({"containers": [app("a", json!({}))]}));
    for wait in [2, 60, 60, 60] {
        world.sync(&pod).await;
        pass(wait).await;
    }
    let restarts = async || -> Vec<u32> {
        world.status(&pod).await.containers.iter().map(|container| container.restart_count).collect()
    };
    assert_eq!(restarts().await, [3, 2, 1, 0]);
    world.kuberuntime.collect_garbage(&States::default(), ALL).await.unwrap();
    assert_eq!(restarts().await, [3, 2]);
    // Their logs and the links to them have gone as well.
    let logs = fs::read_dir(world.folder.path().join("logs/shop_web_uid-web/a")).unwrap();
    let mut logs: Vec<_> = logs.map(|log| log.unwrap().file_name().into_string().unwrap()).collect();
    logs.sort();
    assert_eq!(logs, ["2.log", "3.log"]);
    assert_eq!(fs::read_dir(world.folder.path().join("links")).unwrap().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_pod_that_is_gone() {
    let world = World::new();
    let pods = ["gone", "kept"].map(|name| named(name, &[], json!({"containers": [app("a", json!({}))]})));
    for pod in &pods {
        world.synced(pod).await;
        world.kill(pod).await;
    }
    let states = States { gone: vec!["uid-gone"], ..States::default() };
    world.kuberuntime.collect_garbage(&states, Scope::default()).await.unwrap();
    assert_eq!(world.kuberuntime.pods().await.unwrap().len(), 2);
    world.kuberuntime.collect_garbage(&states, ALL).await.unwrap();
    let left = world.kuberuntime.pods().await.unwrap();
    assert_eq!(left.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!((left[0].containers.len(), left[0].sandboxes.len()), (1, 1));
    assert!(!world.folder.path().join("logs/shop_gone_uid-gone").exists());
    assert!(world.folder.path().join("logs/shop_kept_uid-kept").exists());
    assert_eq!(fs::read_dir(world.folder.path().join("links")).unwrap().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn pods_that_ended_go_where_room_is_needed_but_not_their_logs() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    world.kill(&pod).await;
    let states = States { ended: vec!["uid-web"], ..States::default() };
    world.kuberuntime.collect_garbage(&states, ALL).await.unwrap();
    assert!(world.listed(&pod).await.is_some());
    let scope = Scope { ended_pods_too: true, ..ALL };
    world.kuberuntime.collect_garbage(&states, scope).await.unwrap();
    assert_eq!(world.listed(&pod).await, None);
    assert!(world.folder.path().join("logs/shop_web_uid-web").exists());
}

#[tokio::test(start_paused = true)]
async fn of_a_live_pod_old_sandboxes_go_and_the_newest_stays() {
    let world = World::new();
    let pod = pod(&[("sandbox-exit-after", "1s,1s,1s")], json!({"containers": [app("a", json!({}))]}));
    for _ in 0..3 {
        world.sync(&pod).await;
        pass(60).await;
    }
    // The containers of all but the newest two have gone first.
    for _ in 0..2 {
        world.kuberuntime.collect_garbage(&States::default(), ALL).await.unwrap();
    }
    let sandboxes = world.status(&pod).await.sandboxes;
    assert!(sandboxes.iter().all(|sandbox| sandbox.state == SandboxState::NotReady));
    assert_eq!(sandboxes[0].attempt, 2);
    assert!(sandboxes.len() < 3, "{sandboxes:?}");
}

#[tokio::test(start_paused = true)]
async fn links_to_nothing_go_unless_their_container_runs() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    let links = world.folder.path().join("links");
    std::os::unix::fs::symlink("/nowhere", links.join("old_shop_a-gone.log")).unwrap();
    // As while it is rotated.
    fs::remove_file(world.folder.path().join("logs/shop_web_uid-web/a/0.log")).unwrap();
    world.kuberuntime.collect_garbage(&States::default(), Scope::default()).await.unwrap();
    let id = world.container(&pod, "a").await.id.id;
    let left: Vec<_> = fs::read_dir(&links).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [format!("web_shop_a-{id}.log").as_str()]);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_hangs_or_fails_keeps_no_other_from_it() {
    let world = World::new();
    let pods = ["hung", "failing", "fine"]
        .map(|name| named(name, &[], json!({"containers": [app("a", json!({}))]})));
    for pod in &pods {
        world.synced(pod).await;
        world.kill(pod).await;
    }
    let fails = Fault::Fails { code: Code::Unknown, message: "busy".into() };
    world.simulated.inject_for("uid-hung", Operation::RemoveContainer, 1, Fault::Hangs);
    world.simulated.inject_for("uid-failing", Operation::RemoveContainer, 1, fails);
    let states = States { gone: vec!["uid-hung", "uid-failing", "uid-fine"], ..States::default() };
    let fine = async {
        pass(1).await;
        world.listed(&pods[2]).await.unwrap().containers.len()
    };
    let collect = world.kuberuntime.collect_garbage(&states, ALL);
    let (collected, left) = tokio::join!(collect, fine);
    collected.unwrap();
    assert_eq!(left, 0);
    world.kuberuntime.collect_garbage(&states, ALL).await.unwrap();
    assert_eq!(world.kuberuntime.pods().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_and_the_logs_go_nevertheless() {
    let world = World::new();
    fs::create_dir_all(world.folder.path().join("logs/shop_old_uid-old")).unwrap();
    let away = Fault::Fails { code: Code::Unavailable, message: "away".into() };
    world.simulated.inject(Operation::ListContainers, 2, away);
    let states = States { gone: vec!["uid-old"], ..States::default() };
    let errors = world.kuberuntime.collect_garbage(&states, ALL).await.unwrap_err();
    assert_eq!(errors.len(), 2);
    let text = errors[0].to_string();
    assert_eq!(text, "list the runtime's containers: rpc error: code = Unavailable desc = away");
    assert_eq!(fs::read_dir(world.folder.path().join("logs")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pods_containers_are_deleted_at_its_end() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({})), app("b", json!({}))]}));
    world.synced(&pod).await;
    world.kill(&pod).await;
    for container in world.status(&pod).await.containers {
        for _ in 0..2 {
            // Repeating it is fine.
            world.kuberuntime.delete_container(&container.id).await.unwrap();
        }
    }
    assert_eq!(world.status(&pod).await.containers, []);
}
