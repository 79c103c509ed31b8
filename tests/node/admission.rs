//! Pods that the node does not take.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::pods::{Pods, container, phase_of, shell, staying};
use support::eventually;
use support::real::free_ports;

pub async fn a_pod_too_big_for_the_node_is_refused(pods: Pods) {
    let mut main = staying();
    main["resources"] = json!({ "requests": { "cpu": "10000" } });
    pods.run("big", json!({ "containers": [main] })).await;
    let status = pods.phase("big", &["Failed"]).await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("OutOfcpu"));
    let message = status.message.unwrap();
    assert!(message.starts_with("Pod was rejected: Node didn't have enough resource: cpu"), "{message}");
}

pub async fn a_pod_for_other_nodes_is_refused(pods: Pods) {
    let selector = json!({ "test.steersman.dev/here": "no" });
    pods.run("elsewhere", json!({ "nodeSelector": selector, "containers": [staying()] })).await;
    let status = pods.phase("elsewhere", &["Failed"]).await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("NodeAffinity"));
    let selector = json!({ "test.steersman.dev/here": "yes" });
    pods.run("here", json!({ "nodeSelector": selector, "containers": [staying()] })).await;
    pods.ready("here").await;
}

/// Sets the node's taints. Pods of other tests bear all.
async fn taint(pods: &Pods, taints: Value) {
    let nodes = Api::<Node>::all(pods.world.client("default"));
    let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
    nodes.patch(&pods.world.agent.node, &PatchParams::default(), &patch).await.unwrap();
}

pub async fn a_pod_that_does_not_bear_the_nodes_taint_is_refused(pods: Pods) {
    let key = "test.steersman.dev/away";
    taint(&pods, json!([{ "key": key, "effect": "NoExecute" }])).await;
    // The agent learns of the taint a little later; pods before that are taken.
    let refused = eventually("a pod is refused", || async {
        let spec = pods.spec(json!({ "tolerations": [], "containers": [staying()] }));
        let pod: Pod = pods.make(json!({ "metadata": { "generateName": "hates-" }, "spec": spec })).await;
        let pod = pods.phase(&pod.metadata.name?, &["Failed", "Running"]).await;
        (phase_of(&pod) == "Failed").then_some(pod)
    })
    .await;
    let status = refused.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("TaintToleration"));
    let message =
        "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    assert_eq!(status.message.as_deref(), Some(message));
    let bears = json!([{ "key": key, "operator": "Exists", "effect": "NoExecute" }]);
    pods.run("bears", json!({ "tolerations": bears, "containers": [staying()] })).await;
    pods.ready("bears").await;
    taint(&pods, json!(null)).await;
}

pub async fn a_host_port_is_given_once(pods: Pods) {
    let [port] = free_ports();
    let with_port = || {
        let mut main = staying();
        main["ports"] = json!([{ "containerPort": 80, "hostPort": port }]);
        json!({ "containers": [main] })
    };
    pods.run("first", with_port()).await;
    pods.ready("first").await;
    pods.run("second", with_port()).await;
    let status = pods.phase("second", &["Failed"]).await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("NodePorts"));
    pods.delete("first").await;
    pods.gone("first").await;
    pods.run("third", with_port()).await;
    pods.ready("third").await;
}

pub async fn a_critical_pod_starts_and_grows_in_the_place_of_others(pods: Pods) {
    let there = pods.world.node().await.status.unwrap().allocatable.unwrap()["cpu"].0.clone();
    let there = there.parse::<steersman_api::Quantity>().unwrap().milli_value();
    let with = |tenths: i64, class: &str| {
        let cpu = format!("{}m", there * tenths / 10);
        // One that ends well when it is told to would have succeeded.
        let command = shell("trap 'exit 3' TERM; while true; do sleep 0.1; done");
        let main = json!({ "command": command, "resources": { "requests": { "cpu": cpu } } });
        json!({ "containers": [main], "priorityClassName": class })
    };
    let gone = async |name: &str| {
        let status = pods.phase(name, &["Failed"]).await.status.unwrap();
        assert_eq!(status.reason.as_deref(), Some("Preempting"));
        assert_eq!(status.message.as_deref(), Some("Preempted in order to admit critical pod"));
        let target = status.conditions.unwrap().into_iter().find(|told| told.type_ == "DisruptionTarget");
        assert_eq!(target.and_then(|target| target.reason).as_deref(), Some("TerminationByKubelet"));
        assert_eq!(pods.event(name, "Preempting").await, "Preempted in order to admit critical pod");
    };
    for (name, tenths) in [("large", 6), ("small", 3)] {
        pods.run(name, with(tenths, "")).await;
        pods.ready(name).await;
    }
    // Three tenths are missing: who has no more than that goes.
    pods.run("critical", with(4, "system-node-critical")).await;
    pods.ready("critical").await;
    gone("small").await;
    let wanted = with(8, "")["containers"][0]["resources"].clone();
    let resize =
        Patch::Strategic(json!({ "spec": { "containers": [{ "name": "main", "resources": wanted }] } }));
    let critical = pods.api::<Pod>();
    critical.patch_subresource("resize", "critical", &PatchParams::default(), &resize).await.unwrap();
    gone("large").await;
    pods.wait("critical", "it has grown", |pod| {
        let has = container(pod, "main")?.resources?.requests?.remove("cpu")?;
        (Some(has.0.as_str()) == wanted["requests"]["cpu"].as_str()).then_some(())
    })
    .await;
}
