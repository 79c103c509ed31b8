//! Several containers, one after the other and again.

use serde_json::json;

use crate::pods::{Pods, container, phase_of, shell, staying, waiting};
use support::eventually;

pub async fn init_containers_run_one_by_one_and_sidecars_stay(pods: Pods) {
    let mounts = json!([{ "name": "scratch", "mountPath": "/scratch" }]);
    let step =
        |name: &str, script: &str| json!({ "name": name, "command": shell(script), "volumeMounts": mounts });
    let mut sidecar = step(
        "sidecar",
        "echo sidecar >>/scratch/order; touch /scratch/up; \
        trap 'exit 0' TERM; while true; do sleep 0.1; done",
    );
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] =
        json!({ "exec": { "command": ["test", "-e", "/scratch/up"] }, "periodSeconds": 1 });
    pods.run(
        "steps",
        json!({
            "initContainers": [
                step("one", "sleep 0.3; echo one >>/scratch/order"),
                sidecar,
                step("two", "echo two >>/scratch/order"),
            ],
            "containers": [step("main", "echo main >>/scratch/order; cat /scratch/order")],
            "volumes": [{ "name": "scratch", "emptyDir": {} }],
        }),
    )
    .await;
    let ended = pods.phase("steps", &["Succeeded", "Failed"]).await;
    assert_eq!(phase_of(&ended), "Succeeded", "{:?}", ended.status);
    let said = pods.kubectl_ok(&["logs", "steps", "-c", "main"]).await;
    assert_eq!(said, "one\nsidecar\ntwo\nmain\n");
    assert!(container(&ended, "sidecar").unwrap().state.unwrap().terminated.is_some());
}

pub async fn a_failed_pod_that_never_restarts_says_how_it_ended(pods: Pods) {
    pods.run("fails", json!({ "containers": [{ "command": shell("exit 7") }] })).await;
    let failed = pods.phase("fails", &["Failed"]).await;
    let main = container(&failed, "main").unwrap();
    let ended = main.state.unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref(), main.restart_count), (7, Some("Error"), 0));
}

pub async fn a_pod_that_restarts_on_failure_ends_in_success(pods: Pods) {
    pods.run(
        "again",
        json!({
            "restartPolicy": "OnFailure",
            "containers": [{
                "command": shell("test -e /scratch/seen && exit 0; touch /scratch/seen; exit 1"),
                "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
            }],
            "volumes": [{ "name": "scratch", "emptyDir": {} }],
        }),
    )
    .await;
    let ended = pods.phase("again", &["Succeeded", "Failed"]).await;
    assert_eq!(phase_of(&ended), "Succeeded");
    let main = container(&ended, "main").unwrap();
    assert_eq!(main.restart_count, 1);
    assert_eq!(main.last_state.unwrap().terminated.unwrap().exit_code, 1);
}

pub async fn a_container_that_keeps_failing_waits_longer_and_longer(pods: Pods) {
    let pod = pods
        .run(
            "loop",
            json!({
                "restartPolicy": "Always", "containers": [{ "command": shell("exit 1") }],
            }),
        )
        .await;
    let message = pods
        .wait("loop", "it waits", |pod| {
            waiting(pod, "main")
                .filter(|(reason, _)| reason == "CrashLoopBackOff")
                .map(|(_, message)| message)
        })
        .await;
    let (uid, namespace) = (pod.metadata.uid.unwrap(), &pods.namespace);
    let expected = format!("back-off 10s restarting failed container=main pod=loop_{namespace}({uid})");
    assert_eq!(message, expected);
    assert!(pods.event("loop", "BackOff").await.contains("Back-off restarting failed container main"));
}

pub async fn a_long_log_is_rotated(pods: Pods) {
    let lines = "i=0; while [ $i -lt 1000 ]; do echo a line of some thirty bytes $i; i=$((i+1)); done";
    let pod = pods
        .run(
            "talks",
            json!({ "containers": [{
        "command": shell(&format!("{lines}; trap 'exit 0' TERM; while true; do sleep 0.1; done")),
    }] }),
        )
        .await;
    let folder = format!("{}_talks_{}", pods.namespace, pod.metadata.uid.unwrap());
    let folder = pods.world.agent.logs().join(folder).join("main");
    eventually("the log is rotated", || async {
        let files: Vec<_> = std::fs::read_dir(&folder).ok()?.flatten().collect();
        let current = std::fs::metadata(folder.join("0.log")).ok()?.len();
        (files.len() > 1 && current < 4096).then_some(())
    })
    .await;
}

pub async fn commands_and_variables_are_as_the_spec_has_them(pods: Pods) {
    let said = pods
        .output(
            "pwd; echo \"$1|$2|$3\"; echo $CPU $MEMORY $KUBERNETES_SERVICE_PORT_HTTPS",
            json!({
                "workingDir": "/etc",
                "args": ["sh", "$(GREETING)", "$$(GREETING)", "two words"],
                "env": [
                    { "name": "GREETING", "value": "hello" },
                    { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } } },
                    { "name": "MEMORY", "valueFrom": { "resourceFieldRef": { "resource": "requests.memory" } } },
                ],
                "resources": { "limits": { "cpu": "250m" }, "requests": { "memory": "16Mi" } },
            }),
            json!({}),
        )
        .await;
    assert_eq!(said, "/etc\nhello|$(GREETING)|two words\n250 16777216 443\n");
}

pub async fn a_containers_end_may_restart_all(pods: Pods) {
    let again = "[ -e /data/second ] && exec sleep 3600; touch /data/second; sleep 1; exit 42";
    let asking = |policy: &str| {
        json!({
            "name": "asking", "restartPolicy": policy, "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            "command": shell(again),
            "restartPolicyRules": [
                { "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } },
            ],
        })
    };
    let beside = json!({ "name": "beside", "command": staying()["command"] });
    // A container of the pod's own, and a sidecar: of the pod itself nothing restarts.
    for (name, init, containers) in [
        ("together", json!([]), json!([asking("Never"), beside])),
        ("sidecar", json!([asking("Always")]), json!([beside])),
    ] {
        let spec = json!({
            "volumes": [{ "name": "data", "emptyDir": {} }], "initContainers": init, "containers": containers,
        });
        pods.run(name, spec).await;
        pods.wait(name, "both were restarted", |pod| {
            let (asking, beside) = (container(pod, "asking")?, container(pod, "beside")?);
            let runs =
                [&asking, &beside].iter().all(|of| of.state.as_ref().is_some_and(|of| of.running.is_some()));
            let last = beside.last_state.as_ref()?.terminated.as_ref()?.reason.as_deref()?;
            (runs
                && asking.restart_count == 1
                && beside.restart_count == 1
                && last == "RestartingAllContainers")
                .then_some(())
        })
        .await;
    }
}
