//! Objects are described.

use serde_json::json;

use crate::kubectl::Kubectl;

/// Whether each of these lines is somewhere in the text, whatever the blanks between words are.
#[track_caller]
fn assert_has(text: &str, lines: &[&str]) {
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let all: Vec<String> = text.lines().map(plain).collect();
    for line in lines {
        assert!(all.iter().any(|found| found == line), "{line:?} is not in:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_described_with_their_pods_and_events() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.good("create deployment web --image=nginx --replicas=2");
    assert_has(
        &kubectl.good("describe deploy web"),
        &[
            "Name: web",
            "Selector: app=web",
            "Replicas: 2 desired | 0 updated | 0 total | 0 available | 0 unavailable",
        ],
    );
    kubectl.good("create job sum --image=busybox -- true");
    let uid = kubectl.good("get job sum -o jsonpath={.metadata.uid}");
    kubectl.set_status("job sum", &json!({"active": 1, "startTime": "2026-01-02T03:04:05Z"}));
    kubectl.create(&json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "sum.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "sum", "uid": uid},
        "type": "Normal",
        "reason": "SuccessfulCreate",
        "message": "Created pod: sum-x",
        "source": {"component": "job-controller"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }));
    let job = kubectl.good("describe job sum");
    assert_has(&job, &["Name: sum", "Parallelism: 1", "Pods Statuses: 1 Active / 0 Succeeded / 0 Failed"]);
    assert!(job.contains("SuccessfulCreate") && job.contains("Created pod: sum-x"), "{job}");
    assert!(kubectl.good("events --for job/sum").contains("Created pod: sum-x"));
    assert!(kubectl.good("get events").contains("job/sum"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_nodes_and_services_are_described() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.create(&json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.1", "osImage": "Debian",
                "containerRuntimeVersion": "containerd://1.6", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    }));
    kubectl.create(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": {"app": "p"}},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}],
        },
    }));
    let running = json!({"name": "c", "image": "busybox", "imageID": "", "ready": true, "restartCount": 0,
                         "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}});
    let status = json!({
        "phase": "Running",
        "podIP": "10.1.0.9",
        "podIPs": [{"ip": "10.1.0.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [running],
    });
    kubectl.set_status("pod p", &status);
    assert_has(
        &kubectl.good("describe pod p"),
        &["Status: Running", "IP: 10.1.0.9", "Image: busybox", "Ready: True"],
    );
    assert_eq!(
        kubectl.table("get pod p -o wide")[1][..7],
        ["p", "1/1", "Running", "0", "AGE", "10.1.0.9", "n1"]
    );
    assert_has(
        &kubectl.good("describe node n1"),
        &[
            "Name: n1",
            "Kubelet Version: v1.36.3",
            "cpu 100m (5%) 0 (0%)",
            "Non-terminated Pods: (1 in total)",
        ],
    );
    assert_eq!(kubectl.table("get node")[1], ["n1", "Ready", "<none>", "AGE", "v1.36.3"]);
    kubectl.good("cordon n1");
    kubectl.good("taint node n1 a=b:NoSchedule");
    assert_eq!(kubectl.table("get node")[1][1], "Ready,SchedulingDisabled");
    kubectl.good("expose pod p --port=80 --name=s");
    assert_has(&kubectl.good("describe svc s"), &["Selector: app=p", "IP: 10.0.0.2", "Port: <unset> 80/TCP"]);
}
