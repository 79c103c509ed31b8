//! `metrics.k8s.io`: what nodes and pods use.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{Answer, JSON, MERGE_PATCH, post, request, send};
use http::HeaderValue;
use serde_json::{Value, json};
use steersman_apiserver::{Amounts, RunningContainer, TestServer, Usage};

/// Each container of the runtime `known` uses as much as the annotation with its name says.
#[derive(Debug)]
struct ByName;

impl Usage for ByName {
    fn of_container(&self, container: &RunningContainer<'_>) -> Option<Amounts> {
        let cpu_millis = container.annotations.get(container.name)?.parse().ok()?;
        let is_known = container.id.starts_with("known://");
        is_known.then_some(Amounts { cpu_millis, memory_bytes: 1 << 20 })
    }

    fn covers_node(&self, runtime: &str) -> bool {
        runtime.starts_with("known://")
    }
}

const BASE: &str = "/apis/metrics.k8s.io/v1beta1";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn get(server: &TestServer, path: &str) -> Answer {
    send(server, request("GET", path, JSON, &Value::Null)).await
}

async fn status(server: &TestServer, path: &str, status: Value) {
    let path = format!("{path}/status");
    send(server, request("PATCH", &path, MERGE_PATCH, &json!({"status": status}))).await.expect(200);
}

/// A pod on the node `n1` with these containers, which run.
async fn pod(server: &TestServer, name: &str, runtime: &str, containers: Value, annotations: Value) {
    let spec: Vec<Value> =
        containers.as_array().unwrap().iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": spec},
    });
    post(server, PODS, pod).await.expect(201);
    let running = |name: &Value| {
        json!({
            "name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "containerID": format!("{runtime}://1"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        })
    };
    let statuses: Vec<Value> = containers.as_array().unwrap().iter().map(running).collect();
    status(server, &format!("{PODS}/{name}"), json!({"phase": "Running", "containerStatuses": statuses}))
        .await;
}

async fn world() -> TestServer {
    let server = TestServer::builder().usage(ByName).start().await;
    for (name, runtime) in [("n1", "known://1"), ("n2", "known://1"), ("n3", "other://1")] {
        post(&server, "/api/v1/nodes", json!({"metadata": {"name": name, "labels": {"zone": name}}}))
            .await
            .expect(201);
        let info = json!({"nodeInfo": {
            "containerRuntimeVersion": runtime, "architecture": "", "bootID": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
            "systemUUID": "",
        }});
        status(&server, &format!("/api/v1/nodes/{name}"), info).await;
    }
    pod(&server, "two", "known", json!(["a", "b"]), json!({"a": "250", "b": "1750"})).await;
    pod(&server, "one", "known", json!(["a"]), json!({"a": "5"})).await;
    pod(&server, "silent", "known", json!(["a"]), json!({})).await;
    pod(&server, "foreign", "other", json!(["a"]), json!({"a": "7"})).await;
    let pending =
        json!({"metadata": {"name": "pending"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    post(&server, PODS, pending).await.expect(201);
    server
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_and_nodes_have_a_usage_where_it_is_known() {
    let server = world().await;
    let list = get(&server, &format!("{BASE}/namespaces/default/pods")).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PodMetricsList"), &json!("metrics.k8s.io/v1beta1"))
    );
    assert_eq!(names(&list), ["one", "two"]);
    let two = &list["items"][1];
    assert_eq!(two["metadata"]["labels"], json!({"app": "two"}));
    assert_eq!(two["window"], "0s");
    assert!(two["timestamp"].is_string() && two["timestamp"] == two["metadata"]["creationTimestamp"]);
    let usage = |name: &str, cpu: &str| json!({"name": name, "usage": {"cpu": cpu, "memory": "1Mi"}});
    assert_eq!(two["containers"], json!([usage("a", "250m"), usage("b", "1750m")]));

    let nodes = get(&server, &format!("{BASE}/nodes")).await.expect(200);
    assert_eq!(names(&nodes), ["n1", "n2"]);
    assert_eq!(nodes["items"][0]["usage"], json!({"cpu": "2005m", "memory": "3Mi"}));
    assert_eq!(nodes["items"][1]["usage"], json!({"cpu": "0", "memory": "0"}));
}

#[tokio::test(start_paused = true)]
async fn selectors_names_and_namespaces_choose() {
    let server = world().await;
    for (path, expected) in [
        ("pods", vec!["one", "two"]),
        ("pods?labelSelector=app%3Dtwo", vec!["two"]),
        ("pods?fieldSelector=metadata.name%3Done", vec!["one"]),
        ("namespaces/default/pods?labelSelector=app%20in%20(one,silent)", vec!["one"]),
        ("namespaces/kube-system/pods", vec![]),
        ("nodes?labelSelector=zone%3Dn2", vec!["n2"]),
    ] {
        let list = get(&server, &format!("{BASE}/{path}")).await.expect(200);
        assert_eq!(names(&list), expected, "{path}");
    }
    let one = get(&server, &format!("{BASE}/namespaces/default/pods/one")).await.expect(200);
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("PodMetrics"), &json!("one")));
    for (path, message) in [
        ("namespaces/default/pods/silent", "pods.metrics.k8s.io \"default/silent\" not found"),
        ("namespaces/default/pods/none", "pods.metrics.k8s.io \"default/none\" not found"),
        ("nodes/n3", "nodes.metrics.k8s.io \"n3\" not found"),
    ] {
        let refused = get(&server, &format!("{BASE}/{path}")).await.refusal();
        assert_eq!(refused, (404, "NotFound".to_owned(), message.to_owned()));
    }
    let created = post(&server, &format!("{BASE}/nodes"), json!({"metadata": {"name": "n"}})).await;
    assert_eq!(created.code, 405);
    assert_eq!(get(&server, &format!("{BASE}/nodes?watch=true")).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn tables_show_the_sums() {
    let server = world().await;
    let mut asked = request("GET", &format!("{BASE}/namespaces/default/pods"), JSON, &Value::Null);
    let table = HeaderValue::from_static("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    asked.headers_mut().insert("accept", table);
    let table = send(&server, asked).await.expect(200);
    let heads = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]);
    assert_eq!(heads.collect::<Vec<_>>(), ["Name", "cpu", "memory", "Window"]);
    assert_eq!(table["rows"][1]["cells"], json!(["two", "2", "2Mi", "0s"]));
}

#[tokio::test(start_paused = true)]
async fn the_group_is_the_last_one_and_outlives_definitions_of_its_names() {
    let server = world().await;
    let groups = get(&server, "/apis").await.expect(200);
    assert_eq!(groups["groups"].as_array().unwrap().last().unwrap()["name"], "metrics.k8s.io");
    let resources = get(&server, BASE).await.expect(200);
    let all = resources["resources"].as_array().unwrap().iter();
    let told: Vec<_> =
        all.map(|one| (&one["name"], &one["kind"], &one["namespaced"], &one["verbs"])).collect();
    let verbs = json!(["get", "list"]);
    let (nodes, pods, node, pod) = (json!("nodes"), json!("pods"), json!("NodeMetrics"), json!("PodMetrics"));
    let expected = [(&nodes, &node, &json!(false), &verbs), (&pods, &pod, &json!(true), &verbs)];
    assert_eq!(told, expected);
    get(&server, "/openapi/v3/apis/metrics.k8s.io/v1beta1").await.expect(200);

    let plain = TestServer::start().await;
    assert_eq!(get(&plain, BASE).await.code, 404);
    assert_eq!(get(&plain, &format!("{BASE}/nodes")).await.code, 404);
}
