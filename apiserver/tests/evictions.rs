//! Evictions, and the budgets that refuse them.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;

use common::{Answer, MERGE_PATCH, get, patch, post};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn pod(server: &TestServer, name: &str, phase: &str) {
    let pod = steersman_testing::pod(name).label("app", "a").on("n").phase(phase).ready().build();
    let status = json!({"status": pod["status"]});
    post(server, PODS, pod).await.expect(201);
    patch(server, MERGE_PATCH, &format!("{PODS}/{name}/status"), status).await.expect(200);
}

async fn budget(server: &TestServer, name: &str, allowed: i64) {
    let budget = json!({
        "metadata": {"name": name},
        "spec": {
            "minAvailable": 1,
            "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]},
        },
    });
    post(server, BUDGETS, budget).await.expect(201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 2,
    }});
    patch(server, MERGE_PATCH, &format!("{BUDGETS}/{name}/status"), status).await.expect(200);
}

async fn evict(server: &TestServer, name: &str, options: Value) -> Answer {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"}, "deleteOptions": options,
    });
    post(server, &format!("{PODS}/{name}/eviction"), eviction).await
}

#[tokio::test]
async fn a_budget_pays_for_an_eviction_and_refuses_when_it_is_spent() {
    let server = TestServer::start().await;
    budget(&server, "b", 1).await;
    pod(&server, "one", "Running").await;
    pod(&server, "two", "Running").await;
    evict(&server, "one", json!({"dryRun": ["All"]})).await.expect(201);
    let untouched = get(&server, &format!("{BUDGETS}/b")).await.expect(200);
    assert_eq!(untouched["status"]["disruptionsAllowed"], 1);

    let done = evict(&server, "one", json!({"gracePeriodSeconds": 7})).await.expect(201);
    assert_eq!(done["status"], "Success");
    let one = get(&server, &format!("{PODS}/one")).await.expect(200);
    assert_eq!(one["metadata"]["deletionGracePeriodSeconds"], 7);
    let condition = &one["status"]["conditions"][1];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
    let spent = get(&server, &format!("{BUDGETS}/b")).await.expect(200);
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["one"].is_string());
    assert_eq!(spent["metadata"]["generation"], 1);

    let refused = evict(&server, "two", Value::Null).await;
    assert_eq!(refused.headers.get("retry-after"), None);
    let status = refused.expect(429);
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(status["details"]["causes"][0]["reason"], "DisruptionBudget");
    let two = get(&server, &format!("{PODS}/two")).await.expect(200);
    assert!(two["metadata"]["deletionTimestamp"].is_null());
    // What goes already is no disruption any more.
    evict(&server, "one", Value::Null).await.expect(201);
}

#[tokio::test]
async fn a_budget_that_is_behind_asks_to_come_back() {
    let server = TestServer::start().await;
    budget(&server, "b", 1).await;
    pod(&server, "one", "Running").await;
    let changed = json!({"spec": {"minAvailable": 2}});
    patch(&server, MERGE_PATCH, &format!("{BUDGETS}/b"), changed).await.expect(200);
    let refused = evict(&server, "one", Value::Null).await;
    assert_eq!(refused.headers["retry-after"], "10");
    refused.expect(429);
}

#[tokio::test]
async fn pods_that_do_not_run_are_not_guarded_and_two_budgets_are_one_too_many() {
    let server = TestServer::start().await;
    budget(&server, "b", 0).await;
    pod(&server, "pending", "Pending").await;
    pod(&server, "failed", "Failed").await;
    pod(&server, "running", "Running").await;
    evict(&server, "pending", Value::Null).await.expect(201);
    evict(&server, "failed", Value::Null).await.expect(201);
    get(&server, &format!("{PODS}/failed")).await.expect(404);
    budget(&server, "c", 1).await;
    let (code, reason, _) = evict(&server, "running", Value::Null).await.refusal();
    assert_eq!((code, reason.as_str()), (500, ""));
}

#[tokio::test]
async fn an_eviction_is_of_the_pod_in_the_path_as_it_was_seen() {
    let server = TestServer::start().await;
    pod(&server, "one", "Running").await;
    let other = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "two"}});
    post(&server, &format!("{PODS}/one/eviction"), other).await.expect(400);
    for preconditions in [json!({"uid": "x"}), json!({"resourceVersion": "1"})] {
        let refused = evict(&server, "one", json!({"preconditions": preconditions})).await;
        assert_eq!(refused.refusal().1, "Conflict");
    }
    let one = get(&server, &format!("{PODS}/one")).await.expect(200);
    assert_eq!(one["status"]["conditions"].as_array().unwrap().len(), 1);
    let version = one["metadata"]["resourceVersion"].clone();
    evict(&server, "one", json!({"preconditions": {"resourceVersion": version}})).await.expect(201);
    evict(&server, "zip", Value::Null).await.expect(404);
}
