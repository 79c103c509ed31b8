//! What happens to pods on their way in, and what changes of them later.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;

use common::{STRATEGIC_PATCH, delete, get, patch, post, put};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

#[tokio::test]
async fn pods_find_a_token_of_their_account_where_there_is_one() {
    let server = TestServer::builder().service_account_tokens().start().await;
    let bare = post(&server, PODS, pod("bare", json!({}))).await.expect(201);
    assert_eq!(bare["spec"]["serviceAccountName"], "default");
    assert!(bare["spec"]["volumes"].is_null());
    let (code, _, message) =
        post(&server, PODS, pod("named", json!({"serviceAccountName": "x"}))).await.refusal();
    let why = "error looking up service account default/x: serviceaccount \"x\" not found";
    assert_eq!((code, message), (403, format!("pods \"named\" is forbidden: {why}")));

    let account = json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]});
    post(&server, ACCOUNTS, account).await.expect(201);
    let authority = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x"}});
    post(&server, "/api/v1/namespaces/default/configmaps", authority).await.expect(201);
    let made = post(&server, PODS, pod("made", json!({}))).await.expect(201);
    let volume = &made["spec"]["volumes"][0];
    assert!(volume["name"].as_str().unwrap().starts_with("kube-api-access-"), "{volume}");
    assert_eq!(volume["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3607);
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["name"], volume["name"]);
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
    // What came of it may be written back.
    put(&server, &format!("{PODS}/made"), made).await.expect(200);
}

#[tokio::test]
async fn a_test_server_leaves_accounts_to_the_test() {
    let server = TestServer::start().await;
    let made = post(&server, PODS, pod("a", json!({"serviceAccountName": "x"}))).await.expect(201);
    assert!(made["spec"]["volumes"].is_null());
}

#[tokio::test]
async fn a_pods_priority_is_its_classs() {
    let server = TestServer::start().await;
    let class = |name: &str, value: i64, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"});
    post(&server, CLASSES, class("low", 10, false)).await.expect(201);
    let priority = async |name: &str, spec: Value| {
        let answer = post(&server, PODS, pod(name, spec)).await;
        let (code, _, message) = answer.refusal();
        if code == 201 { answer.json()["spec"]["priority"].to_string() } else { message }
    };
    assert_eq!(priority("a", json!({})).await, "0");
    assert_eq!(priority("b", json!({"priorityClassName": "low", "priority": 10})).await, "10");
    assert_eq!(priority("c", json!({"priorityClassName": "system-node-critical"})).await, "2000001000");
    let forbidden = |name: &str| format!("pods \"{name}\" is forbidden: ");
    let computed = "must not be provided in pod spec; priority admission controller computed";
    for (name, spec, why) in [
        ("d", json!({"priorityClassName": "x"}), "no PriorityClass with name x was found".to_owned()),
        (
            "e",
            json!({"priorityClassName": "low", "priority": 11}),
            format!("the integer value of priority (11) {computed} 10 from the given PriorityClass name"),
        ),
        (
            "f",
            json!({"priorityClassName": "low", "preemptionPolicy": "PreemptLowerPriority"}),
            format!(
                "the string value of PreemptionPolicy (PreemptLowerPriority) {computed} Never from the given \
                 PriorityClass name"
            ),
        ),
    ] {
        assert_eq!(priority(name, spec).await, forbidden(name) + &why);
    }
    post(&server, CLASSES, class("usual", 20, true)).await.expect(201);
    assert_eq!(priority("g", json!({})).await, "20");
    let mut kept = get(&server, &format!("{PODS}/g")).await.expect(200);
    kept["spec"].as_object_mut().unwrap().remove("priority");
    let kept = put(&server, &format!("{PODS}/g"), kept).await.expect(200);
    assert_eq!(
        (&kept["spec"]["priority"], &kept["spec"]["priorityClassName"]),
        (&json!(20), &json!("usual"))
    );

    let (code, _, message) = post(&server, CLASSES, class("other", 30, true)).await.refusal();
    assert_eq!(code, 403);
    assert!(
        message.ends_with("PriorityClass usual is already marked as default. Only one default can exist")
    );
    post(&server, CLASSES, class("most", 1_000_000_001, false)).await.expect(422);
    post(&server, CLASSES, class("system-x", 1, false)).await.expect(422);
    get(&server, &format!("{CLASSES}/system-cluster-critical")).await.expect(200);
    delete(&server, &format!("{CLASSES}/system-cluster-critical"), Value::Null).await.expect(403);
}

#[tokio::test]
async fn a_pod_is_resized_within_its_node() {
    let server = TestServer::start().await;
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2", "memory": "1Gi"}}});
    post(&server, "/api/v1/nodes", node).await.expect(201);
    let container = json!([{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}]);
    for (name, node) in [("p", "n"), ("q", "gone")] {
        post(&server, PODS, pod(name, json!({"nodeName": node, "containers": container}))).await.expect(201);
    }
    let resize = async |pod: &str, cpu: &str| {
        let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]});
        let body = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
        patch(&server, STRATEGIC_PATCH, &format!("{PODS}/{pod}/resize"), body).await
    };
    let resized = resize("p", "2").await.expect(200);
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
    assert_eq!(resized["metadata"]["generation"], 2);
    assert!(resized["metadata"]["labels"].is_null());
    let refused = resize("p", "3").await.expect(403);
    assert_eq!(refused["details"]["causes"], json!([{"reason": "NodeCapacity"}]));
    let why = "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000";
    assert_eq!(refused["message"], format!("pods \"p\" is forbidden: {why}"));
    assert_eq!(resize("q", "2").await.refusal().2, "pods \"q\" is forbidden: node \"gone\" not found");
    resize("zip", "2").await.expect(404);
}

#[tokio::test]
async fn containers_are_added_to_look_at_a_pod() {
    let server = TestServer::start().await;
    post(&server, PODS, pod("p", json!({}))).await.expect(201);
    let path = format!("{PODS}/p/ephemeralcontainers");
    let add =
        json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "a"}]}});
    let added = patch(&server, STRATEGIC_PATCH, &path, add).await.expect(200);
    let container = &added["spec"]["ephemeralContainers"][0];
    assert_eq!((&container["name"], &container["imagePullPolicy"]), (&json!("d"), &json!("Always")));
    assert_eq!(added["metadata"]["generation"], 2);
    let change = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "other"}]}});
    patch(&server, STRATEGIC_PATCH, &path, change).await.expect(422);
    let mut none = added;
    none["spec"].as_object_mut().unwrap().remove("ephemeralContainers");
    put(&server, &path, none).await.expect(422);
}

#[tokio::test]
async fn addresses_of_pods_can_be_read_in_one_way_only() {
    let server = TestServer::start().await;
    post(&server, PODS, pod("a", json!({}))).await.expect(201);
    let path = format!("{PODS}/a/status");
    let status = |ip: &str| json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "10.0.0.1"}});
    for (ip, why) in [
        ("::ffff:169.254.169.254", "must not be an IPv4-mapped IPv6 address"),
        ("010.0.0.1", "must not have leading 0s"),
        ("10.0.0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ] {
        let (code, _, message) =
            common::patch(&server, common::MERGE_PATCH, &path, status(ip)).await.refusal();
        assert_eq!(code, 422, "{ip}: {message}");
        assert!(message.contains(&format!("status.podIPs[0]: Invalid value: {ip:?}: {why}")), "{message}");
    }
    for ip in ["10.0.0.1", "FD00:0::1"] {
        patch(&server, common::MERGE_PATCH, &path, status(ip)).await.expect(200);
    }
}
