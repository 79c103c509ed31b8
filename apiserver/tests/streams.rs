//! Logs and streams of containers, as nodes have them.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;
#[path = "common/node.rs"]
mod node;

use std::time::Duration;

use common::{JSON, MERGE_PATCH, begin, get, patch, post, request};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::LogParams;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use node::Node;
use serde_json::{Value, json};
use steersman_apiserver::{Options, Server, Settings, TestServer};
use steersman_testing::pod;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PODS: &str = "/api/v1/namespaces/default/pods";
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a server with that node. For each name in `containers`, it has a pod and a container of that name.
async fn with(node: &Node, containers: &[&str]) -> TestServer {
    let server = TestServer::start().await;
    post(&server, "/api/v1/nodes", node.object("n")).await.expect(201);
    for container in containers {
        post(&server, PODS, pod(container).containers(&[container]).on("n").build()).await.expect(201);
    }
    server
}

#[tokio::test]
async fn a_log_is_what_the_node_says() {
    let node = Node::start().await;
    let server = with(&node, &["a"]).await;
    let answer = get(&server, &format!("{PODS}/a/log?tailLines=3&follow=true")).await;
    assert_eq!(answer.headers["content-type"], "text/plain");
    let line = "GET /containerLogs/default/a/a?follow=true&tailLines=3 HTTP/1.1";
    assert_eq!((answer.code, answer.text().as_str()), (200, line));
    let unplaced = pod("unplaced").containers(&["a"]).build();
    post(&server, PODS, unplaced).await.expect(201);
    assert_eq!(get(&server, &format!("{PODS}/unplaced/log")).await.code, 204);
}

#[tokio::test]
async fn a_log_comes_as_it_is_written() {
    let node = Node::start().await;
    let server = with(&node, &["slow"]).await;
    let path = format!("{PODS}/slow/log?follow=true");
    let answer = begin(&server, request("GET", &path, JSON, &Value::Null)).await.unwrap();
    let mut body = answer.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
    node.go_on();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "two");
    assert!(body.frame().await.is_none());
    // A server that stops breaks off what it passes on.
    let answer = begin(&server, request("GET", &path, JSON, &Value::Null)).await.unwrap();
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    server.stop().await;
    body.frame().await.unwrap().unwrap_err();
}

#[tokio::test]
async fn what_a_node_refuses_is_told_as_upstream_tells_it() {
    let node = Node::start().await;
    let codes = ["code-500", "code-404", "code-400", "code-403", "code-501", "code-302"];
    let server = with(&node, &codes).await;
    let internal = "an error on the server (\"refused\") has prevented the request from succeeding";
    for (pod, code, reason, message) in [
        ("code-500", 500, "InternalError", "Internal error occurred: refused".to_owned()),
        (
            "code-404",
            404,
            "NotFound",
            "the server could not find the requested resource ( pods/log code-404)".to_owned(),
        ),
        ("code-400", 400, "BadRequest", "refused".to_owned()),
        ("code-403", 403, "Forbidden", "refused ( pods/log code-403)".to_owned()),
        ("code-501", 501, "InternalError", format!("{internal} ( pods/log code-501)")),
        ("code-302", 500, "", "Get \"/elsewhere\": redirects forbidden".to_owned()),
    ] {
        let refusal = get(&server, &format!("{PODS}/{pod}/log")).await.refusal();
        assert_eq!(refusal, (code, reason.to_owned(), message), "{pod}");
    }
}

#[tokio::test]
async fn who_can_not_be_asked_is_named() {
    let server = TestServer::start().await;
    let nowhere = json!({
        "metadata": {"name": "nowhere"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        },
    });
    post(&server, "/api/v1/nodes", nowhere).await.expect(201);
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "mute"}})).await.expect(201);
    for (name, node) in [("p", "nowhere"), ("q", "mute"), ("r", "gone"), ("s", "")] {
        post(&server, PODS, pod(name).containers(&["a"]).on(node).build()).await.expect(201);
    }
    post(&server, PODS, pod("two").containers(&["a", "b"]).on("gone").build()).await.expect(201);
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    for (path, code, message) in [
        ("p/log", 500, format!("Get \"https://127.0.0.1:1/containerLogs/default/p/a\": {refused}")),
        ("q/log", 500, "no preferred addresses found; known addresses: []".to_owned()),
        ("q/exec?command=x", 500, "no preferred addresses found; known addresses: []".to_owned()),
        ("r/log", 404, "pods \"gone\" not found".to_owned()),
        ("r/exec", 404, "pods \"gone\" not found".to_owned()),
        ("s/exec", 400, "pod s does not have a host assigned".to_owned()),
        ("s/portforward", 400, "pod s does not have a host assigned".to_owned()),
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [a b]".to_owned()),
        ("two/attach?container=c", 400, "container c is not valid for pod two".to_owned()),
        ("zip/log", 404, "pods \"zip\" not found".to_owned()),
        ("p/exec", 400, "Upgrade request required".to_owned()),
        ("p/exec?dryRun=All", 400, "dryRun is not supported".to_owned()),
        ("p/proxy/x", 400, "address not allowed".to_owned()),
        ("a:b:c:d/proxy/x", 400, "invalid pod request \"a:b:c:d\"".to_owned()),
    ] {
        let (found, _, said) = get(&server, &format!("{PODS}/{path}")).await.refusal();
        assert_eq!((found, said), (code, message), "{path}");
    }
    let (code, _, said) = get(&server, "/api/v1/nodes/nowhere/proxy/pods").await.refusal();
    assert_eq!((code, said.as_str()), (400, "address not allowed"));
}

/// Asks for an upgrade; the head of the answer and what follows it so far.
async fn upgrade(server: &TestServer, path: &str) -> (TcpStream, String, String) {
    let address = server.url();
    let mut stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: api\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "{}", String::from_utf8_lossy(&bytes));
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    (stream, head.to_owned(), rest.to_owned())
}

#[tokio::test]
async fn an_upgraded_connection_is_carried_byte_for_byte_to_its_end() {
    let node = Node::start().await;
    let server = with(&node, &["a"]).await;
    let path = format!("{PODS}/a/exec?command=ls&command=-l+x&stdout=true&stderr=true");
    let (mut stream, head, mut rest) = timeout(PATIENCE, upgrade(&server, &path)).await.unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("\r\nupgrade: spdy/3.1"), "{head}");
    let long = "x".repeat(100_000);
    let (mut from, mut to) = stream.split();
    let sent = async {
        to.write_all(long.as_bytes()).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let (read, ()) = tokio::join!(timeout(PATIENCE, from.read_to_string(&mut rest)), sent);
    read.unwrap().unwrap();
    assert_eq!(rest.len(), "hello ".len() + long.len());
    assert!(rest.starts_with("hello XXX"), "{}", &rest[..20]);
    let asked = node.asked().join("").to_lowercase();
    let line = "post /exec/default/a/a?command=ls&command=-l+x&error=1&output=1 http/1.1\r\n";
    assert!(asked.starts_with(line), "{asked}");
    for kept in ["\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n", "\r\nx-forwarded-for: 127.0.0.1\r\n"]
    {
        assert!(asked.contains(kept), "{asked}");
    }
    assert!(!asked.contains("secret"), "{asked}");
}

#[tokio::test]
async fn a_stopped_server_carries_nothing_more() {
    let node = Node::start().await;
    let server = with(&node, &["a"]).await;
    let (mut stream, head, _) = upgrade(&server, &format!("{PODS}/a/portforward")).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    timeout(PATIENCE, server.stop()).await.unwrap();
    let mut rest = Vec::new();
    // At its end, or broken off: it does not stay open.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn an_upgrade_that_the_node_refuses_is_refused_in_its_words() {
    let node = Node::start().await;
    let server = with(&node, &["code-403", "code-302"]).await;
    let (mut stream, head, mut rest) = upgrade(&server, &format!("{PODS}/code-403/attach?stdin=1")).await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    timeout(PATIENCE, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, "refused");
    let (mut stream, head, rest) = upgrade(&server, &format!("{PODS}/code-302/attach?stdin=1")).await;
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    let mut body = rest.into_bytes();
    while !body.ends_with(b"}") {
        assert_ne!(timeout(PATIENCE, stream.read_buf(&mut body)).await.unwrap().unwrap(), 0);
    }
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status["message"], "invalid upgrade response: status code 302");
}

async fn start(folder: &std::path::Path, settings: Settings) -> (Server, Client) {
    let options = Options { settings, ..Options::new(folder) };
    let server = Server::start(options).await.unwrap();
    let config = Config::from_custom_kubeconfig(server.kubeconfig(), &KubeConfigOptions::default()).await;
    (server, Client::try_from(config.unwrap()).unwrap())
}

async fn place(client: &Client, node: &Node) -> Api<Pod> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    nodes.create(&Default::default(), &serde_json::from_value(node.object("n")).unwrap()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = serde_json::from_value(pod("a").containers(&["a"]).on("n").build()).unwrap();
    pods.create(&Default::default(), &pod).await.unwrap();
    pods
}

#[tokio::test]
async fn nodes_know_the_server_by_a_certificate_of_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = start(folder.path(), Settings::default()).await;
    let node = Node::with_authority(Some(server.ca())).await;
    let pods = place(&client, &node).await;
    let log = pods.logs("a", &LogParams::default()).await.unwrap();
    assert_eq!(log, "GET /containerLogs/default/a/a HTTP/1.1");
}

#[tokio::test]
async fn nodes_are_verified_where_there_is_an_authority_for_them() {
    let (one, other) = (Node::start().await, Node::start().await);
    let authority = Some(one.certificate.clone());
    for (node, known) in [(&one, true), (&other, false)] {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { kubelet_certificate_authority: authority.clone(), ..Settings::default() };
        let (_server, client) = start(folder.path(), settings).await;
        let pods = place(&client, node).await;
        assert_eq!(pods.logs("a", &LogParams::default()).await.is_ok(), known);
        let trusting = "/api/v1/namespaces/default/pods/a/log?insecureSkipTLSVerifyBackend=true";
        client.request_text(http::Request::get(trusting).body(Vec::new()).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn streams_take_the_right_to_create_however_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, client) = start(folder.path(), Settings::default()).await;
    let node = Node::start().await;
    place(&client, &node).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec", "pods/log"], "verbs": ["get"]}],
    });
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let create = http::Request::post(format!("{rbac}/{plural}")).body(object.to_string().into_bytes());
        client.request::<Value>(create.unwrap()).await.unwrap();
    }
    let as_user = |path: &str| {
        let request = http::Request::get(format!("{PODS}/{path}")).header("impersonate-user", "u");
        client.request_text(request.body(Vec::new()).unwrap())
    };
    as_user("a/log").await.unwrap();
    for path in ["a/exec?command=x", "a/attach", "a/proxy/x"] {
        match as_user(path).await {
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{path}: {}", status.message),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_service_leads_to_no_pods_of_other_namespaces() {
    let server = TestServer::start().await;
    let pods = "/api/v1/namespaces/kube-system/pods";
    post(&server, pods, pod("p").containers(&["a"]).on("n").build()).await.expect(201);
    let status = json!({"status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}});
    patch(&server, MERGE_PATCH, &format!("{pods}/p/status"), status).await.expect(200);
    let target = json!({"kind": "Pod", "namespace": "kube-system", "name": "p"});
    let endpoints = json!({
        "metadata": {"name": "s"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1", "targetRef": target}], "ports": [{"port": 1}]}],
    });
    post(&server, "/api/v1/namespaces/default/endpoints", endpoints).await.expect(201);
    let (code, _, why) = get(&server, "/api/v1/namespaces/default/services/s/proxy/x").await.refusal();
    assert_eq!((code, why.as_str()), (503, "no endpoints available for service \"s\""));
}

#[tokio::test]
async fn a_service_leads_to_no_address_that_a_pod_may_not_be_reached_at() {
    let server = TestServer::start().await;
    post(&server, PODS, pod("p").containers(&["a"]).on("n").build()).await.expect(201);
    // Whatever a node says of its pods, and whoever writes endpoints.
    for ip in ["127.0.0.1", "169.254.169.254", "::1"] {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
        patch(&server, MERGE_PATCH, &format!("{PODS}/p/status"), status).await.expect(200);
        let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let endpoints = json!({
            "metadata": {"generateName": "s-"},
            "subsets": [{"addresses": [{"ip": ip, "targetRef": target}], "ports": [{"port": 1}]}],
        });
        let made = post(&server, "/api/v1/namespaces/default/endpoints", endpoints).await.expect(201);
        let name = made["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/default/services/{name}/proxy/x");
        let (code, _, why) = get(&server, &path).await.refusal();
        assert_eq!((code, why), (400, "address not allowed".to_owned()), "{ip}");
    }
}
