//! Nodes that live, with their scheduler.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::user::{User, items};

/// Nodes that renew their leases and run the pods of all namespaces, but those with the label `unbound`.
///
/// A pod is bound to one of the nodes that are not cordoned, in turn. It becomes ready at once, or reaches the phase that its
/// label `ends` names. A pod that is deleted ends. All that stops when this is dropped.
pub struct LivingNodes {
    _task: JoinSet<()>,
}

impl LivingNodes {
    /// Creates the nodes.
    pub async fn start(user: User, names: &'static [&'static str]) -> Self {
        for name in names {
            // A kubelet writes it, and without it no volume is attached to the node.
            let annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
            user.create("api/v1/nodes", json!({"metadata": {"name": name, "annotations": annotations}}))
                .await;
            user.patch(&format!("api/v1/nodes/{name}/status"), status()).await;
            // The API server taints new nodes.
            user.patch(&format!("api/v1/nodes/{name}"), json!({"spec": {"taints": null}})).await;
            let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40});
            let leases = "apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
            user.create(leases, json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut turn = 0;
            loop {
                for name in names {
                    renew(&user, name).await;
                }
                run(&user, &mut turn).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Self { _task: task }
    }
}

fn status() -> Value {
    let time = "2026-01-01T00:00:00Z";
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time});
    let resources = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
    json!({"status": {
        "conditions": [
            condition("Ready", "True"), condition("MemoryPressure", "False"),
            condition("DiskPressure", "False"), condition("PIDPressure", "False"),
        ],
        "allocatable": resources, "capacity": resources,
    }})
}

async fn renew(user: &User, node: &str) {
    let now = format!("{:.6}", jiff::Timestamp::now());
    let path = format!("apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
    let _ = user.send(Method::PATCH, &path, &json!({"spec": {"renewTime": now}})).await;
}

/// Does what is to be done for each pod. A request that fails is made again in the next turn.
async fn run(user: &User, turn: &mut usize) {
    let nodes = user.get("api/v1/nodes").await.unwrap_or_default();
    let schedulable = |node: &&Value| node["spec"]["unschedulable"] != true;
    let open: Vec<_> =
        items(&nodes).iter().filter(schedulable).map(|node| &node["metadata"]["name"]).collect();
    let pods = user.get("api/v1/pods").await.unwrap_or_default();
    for pod in items(&pods) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let path = format!("api/v1/namespaces/{namespace}/pods/{name}");
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}});
            let _ = user.send(Method::DELETE, &path, &now).await;
            continue;
        }
        if pod["metadata"]["labels"]["unbound"].is_string() || open.is_empty() {
            continue;
        }
        if pod["spec"]["nodeName"].is_null() {
            *turn += 1;
            let target = json!({"kind": "Node", "name": open[*turn % open.len()]});
            let binding = json!({"metadata": {"name": name}, "target": target});
            let _ = user.send(Method::POST, &format!("{path}/binding"), &binding).await;
        }
        if pod["status"]["phase"] == "Pending" {
            *turn += 1;
            let ip = format!("10.9.{}.{}", *turn / 250 % 250, *turn % 250 + 1);
            let status = pod_status(pod["metadata"]["labels"]["ends"].as_str(), &ip);
            let _ = user.send(Method::PATCH, &format!("{path}/status"), &status).await;
        }
    }
}

fn pod_status(ends: Option<&str>, ip: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let state = match ends {
        None => json!({"running": {"startedAt": time}}),
        Some(phase) => {
            let code = i32::from(phase != "Succeeded");
            json!({"terminated": {"exitCode": code, "startedAt": time, "finishedAt": time}})
        }
    };
    let ready = ends.is_none();
    let condition = if ready { "True" } else { "False" };
    json!({"status": {
        "phase": ends.unwrap_or("Running"), "podIP": ip, "podIPs": [{"ip": ip}], "startTime": time,
        "conditions": [{"type": "Ready", "status": condition, "lastTransitionTime": time}],
        "containerStatuses": [{
            "name": "c", "image": "image", "imageID": "i", "ready": ready, "restartCount": 0, "state": state,
        }],
    }})
}
