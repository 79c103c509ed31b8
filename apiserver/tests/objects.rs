//! Objects are created, updated and read as upstream does it.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{delete, get, post, put};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use steersman_testing::pod;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn what_the_server_decides_is_not_taken_from_the_client() {
    let server = TestServer::start().await;
    let mut sent = pod("a").build();
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z".into();
    sent["metadata"]["deletionTimestamp"] = "2000-01-01T00:00:00Z".into();
    sent["metadata"]["generation"] = 7.into();
    sent["status"] = json!({"phase": "Running"});
    let created = post(&server, PODS, sent).await.expect(201);
    let metadata = &created["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2000-01-01T00:00:00Z");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "default");
    assert!(metadata.get("deletionTimestamp").is_none());
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(created, get(&server, &format!("{PODS}/a")).await.expect(200));
}

#[tokio::test]
async fn refusals_have_upstreams_code_reason_and_message() {
    let server = TestServer::start().await;
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let name_message =
        "metadata.name: Invalid value: \"A_\": a lowercase RFC 1123 subdomain must consist of lower case";
    for (path, body, code, reason, message) in [
        (
            MAPS,
            json!({}),
            422,
            "Invalid",
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName",
        ),
        (MAPS, json!({"metadata": {"name": "a"}}), 409, "AlreadyExists", "configmaps \"a\" already exists"),
        (MAPS, json!({"metadata": {"name": "A_"}}), 422, "Invalid", name_message),
        (
            MAPS,
            json!({"metadata": {"name": "b", "namespace": "x"}}),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "b", "resourceVersion": "1"}}),
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
        (
            MAPS,
            json!({"kind": "Pod", "metadata": {"name": "b"}}),
            400,
            "BadRequest",
            "Pod in version \"v1\" cannot be",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "b"}, "data": {"x": 1}}),
            400,
            "BadRequest",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: data.x",
        ),
        (
            "/api/v1/namespaces/nope/configmaps",
            json!({"metadata": {"name": "a"}}),
            404,
            "NotFound",
            "namespaces \"nope\" not found",
        ),
        ("/api/v1/configmaps", json!({}), 405, "MethodNotAllowed", "the server does not allow this method"),
        ("/api/v1/nope", json!({}), 404, "NotFound", "the server could not find the requested resource"),
        (
            &format!("{MAPS}?fieldValidation=Strict"),
            json!({"metadata": {"name": "b"}, "dat": {}}),
            400,
            "BadRequest",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dat\"",
        ),
    ] {
        let answer = post(&server, path, body.clone()).await;
        let (found_code, found_reason, found_message) = answer.refusal();
        assert_eq!((found_code, found_reason.as_str()), (code, reason), "{path} {body}");
        assert!(found_message.contains(message), "{path} {body}: {found_message}");
    }
    let (code, reason, message) = get(&server, &format!("{MAPS}/b")).await.refusal();
    assert_eq!((code, reason.as_str(), message.as_str()), (404, "NotFound", "configmaps \"b\" not found"));
    let answer = get(&server, "/apis/nope/v1/x").await;
    assert_eq!((answer.code, answer.text().as_str()), (404, "404 page not found\n"));
}

#[tokio::test]
async fn an_unknown_field_is_dropped_with_a_warning() {
    let server = TestServer::start().await;
    let answer = post(&server, MAPS, json!({"metadata": {"name": "a"}, "dat": {}})).await;
    assert_eq!(answer.headers["warning"], "299 - \"unknown field \\\"dat\\\"\"");
    assert!(answer.expect(201).get("dat").is_none());
}

#[tokio::test]
async fn generated_names_differ_and_keep_their_base() {
    let server = TestServer::start().await;
    let body = json!({"metadata": {"generateName": "job-"}});
    let mut names = Vec::new();
    for _ in 0..20 {
        let created = post(&server, MAPS, body.clone()).await.expect(201);
        let name = created["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("job-") && name.len() == 9, "{name}");
        names.push(name);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
}

#[tokio::test]
async fn an_update_of_an_old_version_conflicts_and_one_without_a_version_overwrites() {
    let server = TestServer::start().await;
    let created = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let path = format!("{MAPS}/a");
    let mut newer = created.clone();
    newer["data"] = json!({"k": "1"});
    put(&server, &path, newer).await.expect(200);
    let (code, reason, message) = put(&server, &path, created.clone()).await.refusal();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    let unconditional =
        put(&server, &path, json!({"metadata": {"name": "a"}, "data": {"k": "2"}})).await.expect(200);
    assert_eq!(unconditional["data"]["k"], "2");
    assert_eq!(unconditional["metadata"]["uid"], created["metadata"]["uid"]);
    let (code, reason, _) =
        put(&server, &path, json!({"metadata": {"name": "a", "uid": "other"}})).await.refusal();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
}

#[tokio::test]
async fn kinds_that_want_a_version_on_update_refuse_to_do_without() {
    let server = TestServer::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    post(&server, leases, json!({"metadata": {"name": "l"}})).await.expect(201);
    let (code, _, message) =
        put(&server, &format!("{leases}/l"), json!({"metadata": {"name": "l"}})).await.refusal();
    assert_eq!(code, 422);
    assert!(
        message.contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        "{message}"
    );
}

#[tokio::test]
async fn a_put_to_a_free_name_creates_where_the_kind_allows_it() {
    let server = TestServer::start().await;
    let endpoints = "/api/v1/namespaces/default/endpoints/e";
    put(&server, endpoints, json!({"metadata": {"name": "e"}})).await.expect(201);
    put(&server, &format!("{MAPS}/e"), json!({"metadata": {"name": "e"}})).await.expect(404);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let server = TestServer::start().await;
    let created = post(&server, PODS, pod("a").build()).await.expect(201);
    let version = server.resource_version();
    let same = put(&server, &format!("{PODS}/a"), created.clone()).await.expect(200);
    assert_eq!(same, created);
    assert_eq!(server.resource_version(), version);
}

#[tokio::test]
async fn status_is_written_through_its_own_path_only_and_generation_counts_spec_only() {
    let server = TestServer::start().await;
    let path = format!("{PODS}/a");
    let mut pod = post(&server, PODS, pod("a").build()).await.expect(201);
    pod["status"]["phase"] = "Running".into();
    pod["metadata"]["labels"] = json!({"l": "1"});
    pod = put(&server, &path, pod).await.expect(200);
    assert_eq!((&pod["status"]["phase"], &pod["metadata"]["generation"]), (&json!("Pending"), &json!(1)));
    pod["status"]["phase"] = "Running".into();
    pod["spec"]["containers"][0]["image"] = "busybox:2".into();
    pod = put(&server, &format!("{path}/status"), pod).await.expect(200);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["spec"]["containers"][0]["image"], "i");
    assert_eq!(pod["metadata"]["generation"], 1);
    pod["spec"]["containers"][0]["image"] = "busybox:2".into();
    pod = put(&server, &path, pod).await.expect(200);
    assert_eq!(pod["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_dry_run_answers_as_if_and_changes_nothing() {
    let server = TestServer::start().await;
    let version = server.resource_version();
    let created =
        post(&server, &format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "a"}})).await.expect(201);
    assert!(created["metadata"]["uid"].is_string());
    get(&server, &format!("{MAPS}/a")).await.expect(404);
    assert_eq!(server.resource_version(), version);
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let version = server.resource_version();
    put(&server, &format!("{MAPS}/a?dryRun=All"), json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))
        .await
        .expect(200);
    delete(&server, &format!("{MAPS}/a?dryRun=All"), Value::Null).await.expect(200);
    assert_eq!(server.resource_version(), version);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = TestServer::start().await;
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(4 * 1024 * 1024)}});
    assert_eq!(post(&server, MAPS, body).await.code, 413);
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_objects() {
    let server = TestServer::start().await;
    let core = "/api/v1/namespaces/default/events";
    let other = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "m",
        "reason": "R",
        "source": {"component": "c"},
    });
    post(&server, core, event).await.expect(201);
    let shown = get(&server, &format!("{other}/e")).await.expect(200);
    assert_eq!(shown["apiVersion"], "events.k8s.io/v1");
    assert_eq!((&shown["regarding"]["name"], &shown["note"]), (&json!("p"), &json!("m")));
    let mut changed = shown;
    changed["metadata"]["labels"] = json!({"l": "v"});
    let mut changed = put(&server, &format!("{other}/e"), changed).await.expect(200);
    assert_eq!(get(&server, &format!("{core}/e")).await.expect(200)["metadata"]["labels"]["l"], "v");
    // The newer group takes no other word on what happened.
    changed["note"] = "n".into();
    put(&server, &format!("{other}/e"), changed).await.expect(422);
}
