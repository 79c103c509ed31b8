//! The agent goes away and comes back.

use serde_json::json;

use crate::pods::{Pods, container, phase_of, shell, staying};
use support::until;

pub async fn containers_go_on_while_the_agent_is_away(pods: Pods) {
    let mut names = Vec::new();
    for number in 0..3 {
        let name = format!("stays-{number}");
        pods.run(&name, json!({ "restartPolicy": "Always", "containers": [staying()] })).await;
        names.push(name);
    }
    let mut before = Vec::new();
    for name in &names {
        before.push(container(&pods.ready(name).await, "main").unwrap());
    }
    let agent = &pods.world.agent;
    agent.stop().await;
    agent.start();
    // It is at work when something new runs; by then it has looked at all that is old.
    pods.run("new", json!({ "containers": [staying()] })).await;
    pods.ready("new").await;
    for (name, before) in names.iter().zip(before) {
        let after = container(&pods.ready(name).await, "main").unwrap();
        assert_eq!((after.container_id, after.restart_count), (before.container_id, before.restart_count));
        assert_eq!(after.state, before.state);
    }
}

pub async fn a_result_that_came_meanwhile_is_told(pods: Pods) {
    let folder = tempfile::tempdir().unwrap();
    pods.run(
        "works",
        json!({
            "containers": [{
                "command": shell("while [ ! -e /host/go ]; do sleep 0.1; done; touch /host/gone; exit 9"),
                "volumeMounts": [{ "name": "host", "mountPath": "/host" }],
            }],
            "volumes": [{ "name": "host", "hostPath": { "path": folder.path() } }],
        }),
    )
    .await;
    pods.ready("works").await;
    let agent = &pods.world.agent;
    agent.stop().await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    until("the work is done", || folder.path().join("gone").exists()).await;
    assert_eq!(phase_of(&pods.get("works").await.unwrap()), "Running", "nobody has told yet");
    agent.start();
    let ended = pods.phase("works", &["Failed"]).await;
    let main = container(&ended, "main").unwrap();
    assert_eq!((main.state.unwrap().terminated.unwrap().exit_code, main.restart_count), (9, 0));
}
