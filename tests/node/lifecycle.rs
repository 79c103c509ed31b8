//! How containers begin and end, and how that is told.

use serde_json::json;
use tokio::time::Instant;

use crate::pods::{Pods, STAY, condition, container, phase_of, shell, staying};
use support::patience;

pub async fn hooks_run_after_the_start_and_before_the_end(pods: Pods) {
    let folder = tempfile::tempdir().unwrap();
    pods.run(
        "hooked",
        json!({
            "terminationGracePeriodSeconds": 20,
            "containers": [{
                "command": shell(STAY),
                "volumeMounts": [{ "name": "host", "mountPath": "/host" }],
                "lifecycle": {
                    "postStart": { "exec": { "command": shell("echo started >/host/start") } },
                    "preStop": { "exec": { "command": shell("echo stopping >/host/stop") } },
                },
            }],
            "volumes": [{ "name": "host", "hostPath": { "path": folder.path() } }],
        }),
    )
    .await;
    pods.ready("hooked").await;
    assert_eq!(std::fs::read_to_string(folder.path().join("start")).unwrap(), "started\n");
    assert!(!folder.path().join("stop").exists());
    pods.delete("hooked").await;
    pods.gone("hooked").await;
    assert_eq!(std::fs::read_to_string(folder.path().join("stop")).unwrap(), "stopping\n");
}

async fn message(pods: &Pods, script: &str, policy: &str) -> (i32, String) {
    pods.run(
        "last-words",
        json!({ "containers": [{
        "command": shell(script), "terminationMessagePolicy": policy,
    }] }),
    )
    .await;
    let ended = pods.phase("last-words", &["Failed"]).await;
    let ended = container(&ended, "main").unwrap().state.unwrap().terminated.unwrap();
    (ended.exit_code, ended.message.unwrap_or_default())
}

pub async fn a_termination_message_comes_from_its_file(pods: Pods) {
    let said = message(&pods, "echo noise; echo because >/dev/termination-log; exit 3", "File").await;
    assert_eq!(said, (3, "because\n".to_owned()));
}

pub async fn a_termination_message_falls_back_to_the_log(pods: Pods) {
    let said = message(&pods, "echo the end; exit 4", "FallbackToLogsOnError").await;
    assert_eq!(said, (4, "the end\n".to_owned()));
}

pub async fn a_readiness_probe_flips_the_condition(pods: Pods) {
    pods.run("moody", json!({ "containers": [{
        "command": shell(STAY),
        "readinessProbe": { "exec": { "command": ["test", "-e", "/ready"] }, "periodSeconds": 1, "failureThreshold": 1 },
    }] }))
    .await;
    let running = pods.phase("moody", &["Running"]).await;
    assert!(condition(&running, "Ready", "False"));
    pods.exec("moody", "touch /ready").await;
    pods.ready("moody").await;
    pods.exec("moody", "rm /ready").await;
    pods.wait("moody", "it is not ready", |pod| condition(pod, "Ready", "False").then_some(())).await;
}

pub async fn a_failing_liveness_probe_restarts_the_container(pods: Pods) {
    pods.run("ill", json!({ "restartPolicy": "Always", "containers": [{
        "command": shell(&format!("touch /well; {STAY}")),
        "livenessProbe": { "exec": { "command": ["test", "-e", "/well"] }, "periodSeconds": 1, "failureThreshold": 1,
            "initialDelaySeconds": 1 },
    }] }))
    .await;
    pods.ready("ill").await;
    pods.exec("ill", "rm /well").await;
    pods.wait("ill", "it was restarted", |pod| (container(pod, "main")?.restart_count > 0).then_some(()))
        .await;
    let message = pods.event("ill", "Killing").await;
    assert_eq!(message, "Container main failed liveness probe, will be restarted");
}

pub async fn a_deleted_pod_is_gone_after_its_grace(pods: Pods) {
    pods.run("deaf", json!({ "containers": [{ "command": ["sleep", "3600"] }] })).await;
    pods.run("polite", json!({ "terminationGracePeriodSeconds": 600, "containers": [staying()] })).await;
    pods.ready("deaf").await;
    assert_eq!(phase_of(&pods.ready("polite").await), "Running");
    let began = Instant::now();
    pods.delete("deaf").await;
    pods.delete("polite").await;
    pods.gone("deaf").await;
    pods.gone("polite").await;
    // It takes about a second; a machine with much else to do gets more.
    assert!(began.elapsed() < patience() / 3, "{:?}", began.elapsed());
}
