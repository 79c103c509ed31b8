//! A pod that a kubelet started, with a volume of a kind that this agent does not support.

use std::time::Duration;

use serde_json::json;

use super::{Rig, SOON, is_ready};
use crate::cri::v1;
use crate::runtime::RuntimeService;

/// A static pod with one volume and a uid of its own, which stays when the volume's source changes.
fn manifest(source: serde_json::Value) -> String {
    let mut volume = source;
    volume["name"] = json!("data");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "taken-over"},
        "spec": {
            "containers": [{
                "name": "app", "image": "busybox:1.36",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [volume],
        },
    });
    pod.to_string()
}

/// The container that runs: its id, how many came before it, and where its volume is on the node.
async fn running(rig: &Rig) -> Option<(String, u32, String)> {
    let all = rig.runtime.list_containers(&v1::ContainerFilter::default()).await.unwrap();
    let state = i32::from(v1::ContainerState::ContainerRunning);
    let container = all.into_iter().find(|container| container.state == state)?;
    let status = rig.runtime.container_status(&container.id).await.unwrap().status.unwrap();
    let mount = status.mounts.into_iter().find(|mount| mount.container_path == "/data")?;
    Some((container.id, container.metadata.unwrap().attempt, mount.host_path))
}

async fn until_it_runs(rig: &Rig, attempt: u32) -> (String, String) {
    let runs = async {
        loop {
            match running(rig).await {
                Some((id, found, mount)) if found == attempt => return (id, mount),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let runs = tokio::time::timeout(SOON, runs).await;
    runs.unwrap_or_else(|_| panic!("attempt {attempt} of the container does not run"))
}

#[tokio::test]
async fn a_pod_taken_over_with_a_volume_of_an_unsupported_kind_is_kept_running_and_ends() {
    let mut rig = Rig::start().await;
    rig.node_until("ready", is_ready).await;
    let file = rig.folder.path().join("manifests/web.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, manifest(json!({"emptyDir": {}}))).unwrap();
    let (before, mount) = until_it_runs(&rig, 0).await;
    rig.stop_agent().await;

    std::fs::write(&file, manifest(json!({"nfs": {"server": "s", "path": "/"}}))).unwrap();
    rig.start_agent();
    rig.node_until("ready", is_ready).await;
    assert_eq!(until_it_runs(&rig, 0).await, (before.clone(), mount.clone()));
    rig.runtime.exit_container(&before, 1, None);
    let (after, same_mount) = until_it_runs(&rig, 1).await;
    assert_ne!(after, before);
    assert_eq!(same_mount, mount);
    rig.phase("web-n", "Running").await;

    std::fs::remove_file(&file).unwrap();
    rig.gone("web-n").await;
    assert_eq!(running(&rig).await, None);
    rig.stop_agent().await;
}
