//! Probes and hooks that go over the network, answered in containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::pods::{Pods, STAY, condition, container, shell, staying};

/// Answers each request of HTTP at port 8080 with what the script `status` prints, and notes the first line of each in
/// `/host/requests`. A connection without a request is no request.
fn web(status: &str) -> String {
    let answer = format!(
        "first=; while IFS= read -r line && [ ${{#line}} -gt 1 ]; do [ -n \"$first\" ] || first=$line; done; \
         [ -z \"$first\" ] || echo \"$first\" >>/host/requests; \
         printf 'HTTP/1.1 %s\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n' \"$({status})\""
    );
    // Quotes of the answer's script would end here.
    format!("cat >/answer <<'END'\n{answer}\nEND\nexec nc -ll -p 8080 -e sh /answer")
}

fn host(folder: &tempfile::TempDir) -> Value {
    json!([{ "name": "host", "hostPath": { "path": folder.path() } }])
}

fn mounts() -> Value {
    json!([{ "name": "host", "mountPath": "/host" }])
}

pub async fn http_hooks_reach_the_pod(pods: Pods) {
    let folder = tempfile::tempdir().unwrap();
    let requests = || std::fs::read_to_string(folder.path().join("requests")).unwrap_or_default();
    let get = |path: &str| json!({ "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" } });
    // The sidecar listens before the container starts, and until after it has ended.
    let sidecar = json!({
        "name": "web", "restartPolicy": "Always", "command": shell(&web("echo 200 OK")), "volumeMounts": mounts(),
        "startupProbe": { "tcpSocket": { "port": 8080 }, "periodSeconds": 1, "failureThreshold": 60 },
    });
    let main = json!({
        "command": shell(STAY), "lifecycle": { "postStart": get("/started"), "preStop": get("/stopping") },
    });
    let spec = json!({
        "terminationGracePeriodSeconds": 20, "initContainers": [sidecar], "containers": [main], "volumes": host(&folder),
    });
    pods.run("asks", spec).await;
    pods.ready("asks").await;
    let first = requests();
    assert!(first.starts_with("GET /started HTTP/1.1"), "{first}");
    assert!(!first.contains("/stopping"), "{first}");
    pods.delete("asks").await;
    pods.gone("asks").await;
    assert!(requests().contains("GET /stopping HTTP/1.1"), "{}", requests());
}

pub async fn a_sleep_hook_holds_up_the_end(pods: Pods) {
    let lifecycle =
        json!({ "postStart": { "sleep": { "seconds": 1 } }, "preStop": { "sleep": { "seconds": 2 } } });
    let main = json!({ "command": shell(STAY), "lifecycle": lifecycle });
    pods.run("slow", json!({ "terminationGracePeriodSeconds": 60, "containers": [main] })).await;
    pods.ready("slow").await;
    let began = Instant::now();
    pods.delete("slow").await;
    pods.gone("slow").await;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

pub async fn a_tcp_hook_can_not_be_run(pods: Pods) {
    let lifecycle = json!({ "postStart": { "tcpSocket": { "port": 8080 } } });
    pods.run("no-tcp", json!({ "containers": [{ "command": shell(STAY), "lifecycle": lifecycle }] })).await;
    pods.event("no-tcp", "FailedPostStartHook").await;
    pods.phase("no-tcp", &["Failed", "Succeeded"]).await;
}

pub async fn an_http_probe_flips_readiness(pods: Pods) {
    let folder = tempfile::tempdir().unwrap();
    let status = "[ -e /host/well ] && echo 200 OK || echo 503 Service Unavailable";
    let probe = json!({
        "httpGet": { "path": "/healthz", "port": 8080 }, "periodSeconds": 1, "failureThreshold": 1,
    });
    let main = json!({ "command": shell(&web(status)), "volumeMounts": mounts(), "readinessProbe": probe });
    pods.run("web", json!({ "containers": [main], "volumes": host(&folder) })).await;
    let message = pods.event("web", "Unhealthy").await;
    // The first may come before anybody listens.
    assert!(message.starts_with("Readiness probe failed: "), "{message}");
    let running = pods.phase("web", &["Running"]).await;
    assert!(condition(&running, "Ready", "False"));
    std::fs::write(folder.path().join("well"), "").unwrap();
    pods.ready("web").await;
    std::fs::remove_file(folder.path().join("well")).unwrap();
    pods.wait("web", "it is not ready", |pod| condition(pod, "Ready", "False").then_some(())).await;
}

pub async fn a_readiness_gate_keeps_a_pod_from_being_ready(pods: Pods) {
    let gate = "test.steersman.dev/gate";
    let spec = json!({ "readinessGates": [{ "conditionType": gate }], "containers": [staying()] });
    pods.run("gated", spec).await;
    let ready = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().find(|condition| condition.type_ == "Ready").cloned()
    };
    let waits = pods
        .wait("gated", "its containers are ready", |pod| {
            condition(pod, "ContainersReady", "True").then(|| ready(pod)).flatten()
        })
        .await;
    assert_eq!((waits.status.as_str(), waits.reason.as_deref()), ("False", Some("ReadinessGatesNotReady")));
    let message = format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.");
    assert_eq!(waits.message, Some(message));
    let open = json!({ "status": { "conditions": [{ "type": gate, "status": "True" }] } });
    let open = Patch::Strategic(open);
    pods.api::<Pod>().patch_status("gated", &PatchParams::default(), &open).await.unwrap();
    pods.ready("gated").await;
}

pub async fn a_tcp_probe_restarts_a_container_that_does_not_listen(pods: Pods) {
    let script = format!("nc -ll -p 8080 -e true & echo $! >/listener; {STAY}");
    let probe = json!({ "tcpSocket": { "port": 8080 }, "periodSeconds": 1 });
    let startup = json!({ "tcpSocket": { "port": 8080 }, "periodSeconds": 1, "failureThreshold": 60 });
    let main = json!({ "command": shell(&script), "startupProbe": startup, "livenessProbe": probe });
    pods.run("listens", json!({ "restartPolicy": "Always", "containers": [main] })).await;
    pods.ready("listens").await;
    pods.exec("listens", "kill $(cat /listener)").await;
    pods.wait("listens", "it was restarted", |pod| (container(pod, "main")?.restart_count > 0).then_some(()))
        .await;
    assert_eq!(
        pods.event("listens", "Killing").await,
        "Container main failed liveness probe, will be restarted"
    );
    pods.ready("listens").await;
}
