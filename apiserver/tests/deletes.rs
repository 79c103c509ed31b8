//! Deletion: grace, finalizers, preconditions, propagation, collections, namespaces.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use common::{Events, MERGE_PATCH, delete, get, names, patch, post, put};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use steersman_testing::pod;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod_on(server: &TestServer, name: &str, node: &str) -> Value {
    post(server, PODS, pod(name).on(node).build()).await.expect(201)
}

#[tokio::test]
async fn pods_go_at_once_unless_they_are_on_a_node_and_still_run() {
    let server = TestServer::start().await;
    pod_on(&server, "unscheduled", "").await;
    pod_on(&server, "finished", "n").await;
    patch(
        &server,
        MERGE_PATCH,
        &format!("{PODS}/finished/status"),
        json!({"status": {"phase": "Succeeded"}}),
    )
    .await
    .expect(200);
    for name in ["unscheduled", "finished"] {
        let gone = delete(&server, &format!("{PODS}/{name}"), Value::Null).await.expect(200);
        assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0, "{name}");
        get(&server, &format!("{PODS}/{name}")).await.expect(404);
    }
    let created = pod_on(&server, "running", "n").await;
    let going = delete(&server, &format!("{PODS}/running"), Value::Null).await.expect(200);
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(going["metadata"]["generation"], created["metadata"]["generation"].as_i64().unwrap() + 1);
    get(&server, &format!("{PODS}/running")).await.expect(200);
    delete(&server, &format!("{PODS}/running?gracePeriodSeconds=0"), Value::Null).await.expect(200);
    get(&server, &format!("{PODS}/running")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_may_be_shortened_but_not_made_longer() {
    let server = TestServer::start().await;
    pod_on(&server, "p", "n").await;
    let path = format!("{PODS}/p");
    let stamp = |pod: &Value| pod["metadata"]["deletionTimestamp"].as_str().unwrap().to_owned();
    let first = delete(&server, &format!("{path}?gracePeriodSeconds=20"), Value::Null).await.expect(200);
    tokio::time::advance(Duration::from_secs(5)).await;
    let longer = delete(&server, &format!("{path}?gracePeriodSeconds=60"), Value::Null).await.expect(200);
    assert_eq!(
        (stamp(&longer), &longer["metadata"]["resourceVersion"]),
        (stamp(&first), &first["metadata"]["resourceVersion"])
    );
    let shorter = delete(&server, &format!("{path}?gracePeriodSeconds=10"), Value::Null).await.expect(200);
    let seconds = |stamp: String| stamp.parse::<jiff::Timestamp>().unwrap().as_second();
    assert_eq!(seconds(stamp(&first)) - seconds(stamp(&shorter)), 10);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 10);
    tokio::time::advance(Duration::from_secs(60)).await;
    let late = delete(&server, &format!("{path}?gracePeriodSeconds=5"), Value::Null).await.expect(200);
    assert_eq!(
        late["metadata"]["deletionGracePeriodSeconds"], 1,
        "it stays graceful, for the node's agent to end"
    );
}

#[tokio::test]
async fn a_pod_that_goes_at_once_is_first_seen_marked_and_then_gone() {
    let server = TestServer::start().await;
    let pod = pod_on(&server, "p", "n").await;
    let version = pod["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = Events::of(&server, &format!("{PODS}?watch=1&resourceVersion={version}")).await;
    delete(&server, &format!("{PODS}/p?gracePeriodSeconds=0"), Value::Null).await.expect(200);
    assert_eq!([events.brief().await, events.brief().await], ["MODIFIED p", "DELETED p"]);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}/a");
    let created = post(&server, MAPS, json!({"metadata": {"name": "a", "finalizers": ["x.y/1", "x.y/2"]}}))
        .await
        .expect(201);
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let held = delete(&server, &path, Value::Null).await.expect(200);
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = delete(&server, &path, Value::Null).await.expect(200);
    assert_eq!(again, held, "a second delete changes nothing");
    let added = json!({"metadata": {"finalizers": ["x.y/1", "x.y/2", "x.y/3"]}});
    let (code, _, message) = patch(&server, MERGE_PATCH, &path, added).await.refusal();
    assert_eq!(code, 422);
    assert!(message.contains("no new finalizers can be added if the object is being deleted"), "{message}");
    patch(&server, MERGE_PATCH, &path, json!({"metadata": {"finalizers": ["x.y/2"]}})).await.expect(200);
    let answer = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await.refusal();
    assert_eq!(answer.2, "object is being deleted: configmaps \"a\" already exists");
    let last =
        patch(&server, MERGE_PATCH, &path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert!(last["metadata"].get("finalizers").is_none());
    get(&server, &path).await.expect(404);
    let seen = [events.brief().await, events.brief().await, events.brief().await];
    assert_eq!(seen, ["MODIFIED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn preconditions_must_hold() {
    let server = TestServer::start().await;
    let created = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let path = format!("{MAPS}/a");
    for (preconditions, what) in
        [(json!({"uid": "x"}), "UID"), (json!({"resourceVersion": "1"}), "ResourceVersion")]
    {
        let (code, reason, message) =
            delete(&server, &path, json!({"preconditions": preconditions})).await.refusal();
        assert_eq!((code, reason.as_str()), (409, "Conflict"));
        assert!(message.contains(&format!("the {what} in the precondition")), "{message}");
    }
    let metadata = &created["metadata"];
    let right = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let status = delete(&server, &path, json!({"preconditions": right})).await.expect(200);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(status["details"]["uid"], metadata["uid"]);
}

#[tokio::test]
async fn the_propagation_policy_becomes_the_collectors_finalizer() {
    let server = TestServer::start().await;
    let job = |name: &str| {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": {"name": name}, "spec": {"template": {"spec": spec}}})
    };
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for (n, (options, expected)) in [
        (json!({"propagationPolicy": "Foreground"}), Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Orphan"}), Some("orphan")),
        (json!({"propagationPolicy": "Background"}), None),
        (json!({"orphanDependents": true}), Some("orphan")),
        (json!({"orphanDependents": false}), None),
        // As upstream: jobs leave their pods unless told otherwise.
        (Value::Null, Some("orphan")),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("j{n}");
        post(&server, jobs, job(&name)).await.expect(201);
        let answer = delete(&server, &format!("{jobs}/{name}"), options.clone()).await.expect(200);
        let present = get(&server, &format!("{jobs}/{name}")).await;
        match expected {
            Some(finalizer) => assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]), "{options}"),
            None => assert_eq!((present.code, &answer["kind"]), (404, &json!("Status")), "{options}"),
        }
    }
    let (code, _, message) =
        delete(&server, &format!("{jobs}/j0"), json!({"propagationPolicy": "X"})).await.refusal();
    assert_eq!(code, 422);
    assert!(message.contains("propagationPolicy: Unsupported value: \"X\""), "{message}");
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let server = TestServer::start().await;
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        post(&server, MAPS, json!({"metadata": {"name": name, "labels": {"l": label}}})).await.expect(201);
    }
    let gone = delete(&server, &format!("{MAPS}?labelSelector=l=1"), Value::Null).await.expect(200);
    assert_eq!(names(&gone), ["a", "c"]);
    assert_eq!(names(&get(&server, MAPS).await.expect(200)), ["b"]);
}

#[tokio::test]
async fn a_namespace_goes_in_two_steps_and_takes_nothing_new_meanwhile() {
    let server = TestServer::start().await;
    post(&server, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.expect(201);
    let going = delete(&server, "/api/v1/namespaces/n", Value::Null).await.expect(200);
    assert_eq!(going["status"]["phase"], "Terminating");
    let answer = post(&server, "/api/v1/namespaces/n/configmaps", json!({"metadata": {"name": "a"}})).await;
    let cause = &answer.json()["details"]["causes"][0];
    assert_eq!(cause["reason"], "NamespaceTerminating");
    assert_eq!(answer.refusal().0, 403);
    let finalized = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    put(&server, "/api/v1/namespaces/n/finalize", finalized).await.expect(200);
    get(&server, "/api/v1/namespaces/n").await.expect(404);
    delete(&server, "/api/v1/namespaces/default", Value::Null).await.expect(403);
}
