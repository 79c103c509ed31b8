//! What containers may do.

use serde_json::{Value, json};

use crate::pods::{Pods, waiting};

pub async fn a_container_runs_as_the_user_and_groups_it_is_told(pods: Pods) {
    let said = pods
        .output(
            "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status",
            json!({ "securityContext": { "runAsUser": 1001, "allowPrivilegeEscalation": false } }),
            json!({ "securityContext": {
                "runAsUser": 1000, "runAsGroup": 3000, "supplementalGroups": [4000], "runAsNonRoot": true,
            } }),
        )
        .await;
    assert_eq!(said, "1001\n3000\n3000 4000\nNoNewPrivs:\t1\n");
}

/// The effective capabilities of a container, as a set of bits.
async fn capabilities(pods: &Pods, security: Value) -> u64 {
    let container = json!({ "securityContext": security });
    let said = pods.output("grep CapEff /proc/self/status", container, json!({})).await;
    u64::from_str_radix(said.trim_start_matches("CapEff:").trim(), 16).unwrap()
}

pub async fn capabilities_are_added_and_dropped(pods: Pods) {
    let added =
        capabilities(&pods, json!({ "capabilities": { "drop": ["ALL"], "add": ["CHOWN", "SYS_TIME"] } }));
    assert_eq!(added.await, 1 | 1 << 25);
}

pub async fn a_read_only_root_takes_no_writes(pods: Pods) {
    let said = pods
        .output(
            "touch /file 2>&1; touch /scratch/file && echo but here",
            json!({
                "securityContext": { "readOnlyRootFilesystem": true },
                "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
            }),
            json!({ "volumes": [{ "name": "scratch", "emptyDir": {} }] }),
        )
        .await;
    assert!(said.contains("Read-only file system") && said.ends_with("but here\n"), "{said}");
}

pub async fn a_privileged_container_has_all_capabilities(pods: Pods) {
    let ordinary = capabilities(&pods, json!({})).await;
    let privileged = capabilities(&pods, json!({ "privileged": true })).await;
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let bounds = own.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap();
    let bounds = u64::from_str_radix(bounds.trim(), 16).unwrap();
    // The machine itself may withhold some.
    assert_eq!(privileged & bounds, bounds, "{privileged:x} {bounds:x}");
    assert_ne!(ordinary & bounds, bounds);
}

pub async fn a_container_that_must_not_be_root_is_refused(pods: Pods) {
    pods.run(
        "root",
        json!({
            "containers": [{ "command": ["true"] }], "securityContext": { "runAsNonRoot": true },
        }),
    )
    .await;
    let (reason, message) = pods
        .wait("root", "its container waits", |pod| {
            waiting(pod, "main").filter(|(reason, _)| reason != "ContainerCreating")
        })
        .await;
    assert_eq!(reason, "CreateContainerConfigError");
    assert!(message.contains("container has runAsNonRoot and image will run as root"), "{message}");
}

pub async fn seccomp_sysctls_and_the_oom_score_are_as_the_spec_has_them(pods: Pods) {
    let script =
        "grep Seccomp: /proc/self/status; cat /proc/sys/kernel/shm_rmid_forced /proc/self/oom_score_adj";
    let said = async |resources, security| {
        pods.output(script, json!({ "resources": resources }), json!({ "securityContext": security })).await
    };
    let strict = json!({
        "seccompProfile": { "type": "RuntimeDefault" },
        "sysctls": [{ "name": "kernel/shm_rmid_forced", "value": "1" }],
    });
    let guaranteed = said(json!({ "limits": { "cpu": "100m", "memory": "32Mi" } }), strict).await;
    // A runtime that may not lower the score leaves it at its own.
    assert!(["Seccomp:\t2\n1\n-997\n", "Seccomp:\t2\n1\n0\n"].contains(&guaranteed.as_str()), "{guaranteed}");
    let capacity = pods.world.node().await.status.unwrap().capacity.unwrap()["memory"].0.clone();
    let capacity = capacity.parse::<steersman_api::Quantity>().unwrap().value();
    let asked = capacity / 4;
    let burstable = said(json!({ "requests": { "memory": asked.to_string() } }), json!({})).await;
    assert_eq!(burstable, format!("Seccomp:\t0\n0\n{}\n", 1000 - 1000 * asked / capacity));
    assert_eq!(said(json!({}), json!({})).await, "Seccomp:\t0\n0\n1000\n");
}

pub async fn namespaces_are_the_hosts_or_shared_where_the_spec_says_so(pods: Pods) {
    let own = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    let namespaces =
        |spec| pods.output("readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc", json!({}), spec);
    let host = namespaces(json!({ "hostPID": true, "hostIPC": true })).await;
    assert_eq!(host, format!("{}\n{}\n", own("pid"), own("ipc")));
    let alone = namespaces(json!({})).await;
    assert!(!alone.contains(&own("pid")) && !alone.contains(&own("ipc")), "{alone}");
    let first = |spec| pods.output("cat /proc/1/comm", json!({}), spec);
    assert_eq!(first(json!({ "shareProcessNamespace": true })).await, "pause\n");
    assert_ne!(first(json!({})).await, "pause\n");
}
