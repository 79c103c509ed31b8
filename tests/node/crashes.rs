//! The agent is killed while pods come and go.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::left::Seen;
use crate::pods::{Pods, shell, staying};

const KILLS: u32 = 10;

/// Of several kinds, so that a kill meets each stage: with volumes of memory, with steps before, that end by themselves.
fn kinds() -> [Value; 3] {
    let mut main = staying();
    main["volumeMounts"] = json!([
        { "name": "memory", "mountPath": "/memory" },
        { "name": "memory", "mountPath": "/part", "subPath": "part" },
    ]);
    [
        json!({ "containers": [main], "volumes": [{ "name": "memory", "emptyDir": { "medium": "Memory" } }] }),
        json!({
            "restartPolicy": "Always",
            "initContainers": [{ "name": "before", "command": ["true"] }], "containers": [staying()],
        }),
        json!({ "containers": [{ "command": shell("sleep 0.5") }] }),
    ]
}

/// Some time within two seconds, another each time, and the same in each run.
fn moment(kill: u32) -> Duration {
    Duration::from_millis(u64::from(kill.wrapping_mul(2_654_435_761) % 2000))
}

pub async fn ten_kills_leave_nothing_behind(pods: Pods) {
    let agent = &pods.world.agent;
    let mut seen = Seen::default();
    let mut round = Vec::new();
    for kill in 0..KILLS {
        let new: Vec<_> = (0..kinds().len()).map(|kind| format!("round-{kill}-{kind}")).collect();
        join_all(new.iter().zip(kinds()).map(|(name, spec)| pods.run(name, spec))).await;
        join_all(round.iter().map(|name: &String| pods.delete(name))).await;
        round = new;
        tokio::time::sleep(moment(kill)).await;
        agent.kill();
        seen.look(&pods.world).await;
        agent.start();
    }
    pods.delete_all().await;
    for kill in 0..KILLS {
        for kind in 0..kinds().len() {
            pods.gone(&format!("round-{kill}-{kind}")).await;
        }
    }
    seen.wait_until_gone(&pods.world).await;
}
