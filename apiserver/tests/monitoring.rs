//! What the server tells of its requests: metrics, and the audit log; and how many it takes at a time.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::path::Path;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::WatchParams;
use kube::client::Body;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use steersman_apiserver::{AuditOptions, Identity, Options, Server, Settings};
use tokio::time::Instant;
use tower::ServiceExt;

fn options(folder: &Path) -> Options {
    Options { audit: Some(AuditOptions::at(folder.join("audit.log"))), ..Options::new(folder.join("data")) }
}

async fn admin(server: &Server) -> Client {
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(server.kubeconfig(), &options).await.unwrap()).unwrap()
}

fn in_memory(server: &Server, who: Identity) -> Client {
    Client::new(server.in_memory(who), "default")
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": "kept-secret"}})).unwrap()
}

async fn text(client: &Client, path: &str) -> kube::Result<String> {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
}

fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        error => panic!("{error:?}"),
    }
}

/// The value of a series in Prometheus's text format, whatever the order of its labels.
fn value(metrics: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let line = metrics.lines().find(|line| {
        let of_name = line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        of_name && labels.iter().all(|label| line.contains(label))
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

/// Events of the audit log, once there is one for which `is_last` holds.
async fn events(folder: &Path, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
        assert!(!text.contains("kept-secret"), "the log must not have contents");
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if events.iter().any(&is_last) {
            return events;
        }
        assert!(Instant::now() < until, "{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_audit_log_tells_who_asked_for_what() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(options(folder.path())).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(admin(&server).await, "default");
    maps.create(&Default::default(), &map("a")).await.unwrap();
    assert_eq!(code(maps.create(&Default::default(), &map("a")).await), 409);
    let watch = maps.watch(&WatchParams::default().fields("metadata.name=a"), "0").await.unwrap();
    watch.boxed().try_next().await.unwrap();
    let stranger = in_memory(&server, Identity::authenticated("jane", []));
    let secrets = Api::<Secret>::namespaced(stranger, "default");
    assert_eq!(code(secrets.get("a").await), 403);

    let has_ended = |event: &Value| event["verb"] == "watch" && event["stage"] == "ResponseComplete";
    let events =
        events(folder.path(), |event| has_ended(event) && event["user"]["username"] == "admin").await;
    let of = |resource: &str, verb: &str, code: u16, stage: &str| -> &Value {
        let found = events.iter().find(|event| {
            event["objectRef"]["resource"] == resource
                && event["verb"] == verb
                && event["responseStatus"]["code"] == code
                && event["stage"] == stage
                && ["jane", "admin"].iter().any(|user| event["user"]["username"] == **user)
        });
        found.unwrap_or_else(|| panic!("{resource} {verb} {code} {stage}: {events:#?}"))
    };
    let made = of("configmaps", "create", 201, "ResponseComplete");
    assert_eq!((&made["user"]["username"], &made["sourceIPs"]), (&json!("admin"), &json!(["127.0.0.1"])));
    assert_eq!(
        made["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "apiVersion": "v1"})
    );
    assert_eq!(made["annotations"]["authorization.k8s.io/decision"], "allow");
    let conflict = of("configmaps", "create", 409, "ResponseComplete");
    assert_eq!(conflict["responseStatus"]["reason"], "AlreadyExists");
    let begun = of("configmaps", "watch", 200, "ResponseStarted");
    let ended = of("configmaps", "watch", 200, "ResponseComplete");
    assert_eq!(begun["auditID"], ended["auditID"]);
    let refused = of("secrets", "get", 403, "ResponseComplete");
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(refused["objectRef"]["name"], "a");
    server.stop().await;
}

#[tokio::test]
async fn metrics_count_requests_and_objects_for_those_who_may_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(options(folder.path())).await.unwrap();
    let client = admin(&server).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "play");
    let before =
        value(&text(&client, "/metrics").await.unwrap(), "apiserver_resource_objects", &["\"configmaps\""]);
    let default: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    default.create(&Default::default(), &map("a")).await.unwrap();
    assert_eq!(code(maps.create(&Default::default(), &map("a")).await), 404, "there is no such namespace");
    let watch = default.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let metrics = text(&client, "/metrics").await.unwrap();
    let made = ["verb=\"POST\"", "resource=\"configmaps\"", "scope=\"resource\"", "component=\"apiserver\""];
    for (name, labels, expected) in [
        ("apiserver_request_total", [&made[..], &["code=\"201\""]].concat(), Some(1.0)),
        ("apiserver_request_total", [&made[..], &["code=\"404\""]].concat(), Some(1.0)),
        ("apiserver_request_duration_seconds_count", made.to_vec(), Some(2.0)),
        ("apiserver_longrunning_requests", vec!["verb=\"WATCH\"", "resource=\"configmaps\""], Some(1.0)),
        ("apiserver_current_inflight_requests", vec!["request_kind=\"readOnly\""], Some(1.0)),
        ("apiserver_current_inflight_requests", vec!["request_kind=\"mutating\""], Some(0.0)),
        ("apiserver_resource_objects", vec!["resource=\"configmaps\""], before.map(|before| before + 1.0)),
    ] {
        assert_eq!(value(&metrics, name, &labels), expected, "{name} {labels:?}: {metrics}");
    }
    assert!(value(&metrics, "apiserver_storage_size_bytes", &[]).unwrap() > 0.0);
    drop(watch);
    let until = Instant::now() + Duration::from_secs(60);
    while value(
        &text(&client, "/metrics").await.unwrap(),
        "apiserver_longrunning_requests",
        &["\"configmaps\""],
    ) != Some(0.0)
    {
        assert!(Instant::now() < until, "the watch must end");
    }

    let jane = in_memory(&server, Identity::authenticated("jane", []));
    assert_eq!(code(text(&jane, "/metrics").await), 403);
    server.stop().await;
}

#[tokio::test]
async fn a_user_with_too_many_requests_is_told_to_come_again_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { max_requests_in_flight: 4, ..Settings::default() };
    let server = Server::start(Options { settings, ..options(folder.path()) }).await.unwrap();
    let rules = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "users"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]});
    let bindings: Api<ClusterRoleBinding> = Api::all(admin(&server).await);
    bindings.create(&Default::default(), &serde_json::from_value(rules).unwrap()).await.unwrap();

    // A request counts until its answer has been read.
    let user = |name: &str| Identity::authenticated(name, []);
    let mut unread = Vec::new();
    for _ in 0..2 {
        let list = http::Request::get("/api/v1/namespaces/default/configmaps").body(Body::empty()).unwrap();
        let answer = server.in_memory(user("hog")).oneshot(list).await.unwrap();
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    let maps = |name: &str| Api::<ConfigMap>::namespaced(in_memory(&server, user(name)), "default");
    let refused = maps("hog").list(&Default::default()).await;
    assert_eq!(code(refused), 429);
    maps("other").list(&Default::default()).await.unwrap();
    Api::<ConfigMap>::all(admin(&server).await).list(&Default::default()).await.unwrap();
    maps("hog").create(&Default::default(), &map("a")).await.expect("writes are counted apart");
    let watch = maps("hog").watch(&WatchParams::default(), "0").await.unwrap();
    watch.boxed().try_next().await.expect("watches are not counted");
    drop(unread);
    maps("hog").list(&Default::default()).await.unwrap();
    server.stop().await;
}
