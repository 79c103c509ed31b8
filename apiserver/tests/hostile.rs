//! What nobody sends who means well: it is refused with few words, and costs little.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use common::{
    APPLY, JSON, JSON_PATCH, MERGE_PATCH, PROTOBUF, STRATEGIC_PATCH, get, patch, post, request, send,
};
use serde_json::{Value, json};
use steersman_api::schema;
use steersman_apiserver::TestServer;
use steersman_testing::pod;
use tokio::time::Instant;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Far longer than any of these takes, far shorter than what they ask for would.
const LITTLE: Duration = Duration::from_secs(20);

async fn with_map() -> TestServer {
    let server = TestServer::start().await;
    post(&server, MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    server
}

/// A body as it stands, whatever it is.
async fn raw(
    server: &TestServer,
    method: &str,
    path: &str,
    media_type: &str,
    body: Vec<u8>,
) -> (u16, String) {
    let mut request = request(method, path, media_type, &Value::Null);
    *request.body_mut() = body;
    let answer = send(server, request).await;
    (answer.code, answer.text())
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

#[tokio::test]
async fn copies_of_copies_end_before_they_fill_the_memory() {
    let server = with_map().await;
    let mut operations =
        vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"x": "x".repeat(1000)}})];
    for at in 0..60 {
        let path = format!("/metadata/annotations/x{at}");
        operations.push(json!({"op": "copy", "from": "/metadata/annotations", "path": path}));
    }
    let began = Instant::now();
    let answer = patch(&server, JSON_PATCH, &format!("{MAPS}/a"), Value::Array(operations)).await;
    assert_eq!(answer.code, 422, "{}", answer.text());
    assert!(began.elapsed() < LITTLE);
}

#[tokio::test]
async fn a_patch_can_t_nest_what_no_body_may() {
    let server = with_map().await;
    let value: Value = serde_json::from_str(&nested("[", "]", 100)).unwrap();
    let deeper = "/0".repeat(60);
    // Each operation is harmless; one within the other is not.
    let operations = json!([
        {"op": "add", "path": "/x", "value": value},
        {"op": "copy", "from": "/x", "path": format!("/x{deeper}")},
    ]);
    let answer = patch(&server, JSON_PATCH, &format!("{MAPS}/a"), operations).await;
    assert_eq!(answer.code, 400, "{}", answer.text());
    assert!(answer.text().contains("exceeded max depth"), "{}", answer.text());
}

#[tokio::test]
async fn absurd_nesting_is_refused_in_every_encoding() {
    let server = with_map().await;
    let one = format!("{MAPS}/a?fieldManager=m");
    for depth in [125, 1000, 200_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = nested(open, close, depth);
            let body = format!("{{\"metadata\": {{\"name\": \"b\"}}, \"x\": {deep}}}");
            let applied = format!("{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"x\": {deep}}}");
            for (method, path, media_type, body) in [
                ("POST", MAPS, JSON, body.clone()),
                ("POST", MAPS, JSON, deep.clone()),
                ("PUT", &one, JSON, body.clone()),
                ("PATCH", &one, MERGE_PATCH, body.clone()),
                ("PATCH", &one, STRATEGIC_PATCH, body.clone()),
                ("PATCH", &one, APPLY, applied),
                (
                    "PATCH",
                    &one,
                    JSON_PATCH,
                    format!("[{{\"op\": \"add\", \"path\": \"/x\", \"value\": {deep}}}]"),
                ),
                ("DELETE", &one, JSON, body),
            ] {
                let (code, text) = raw(&server, method, path, media_type, body.into_bytes()).await;
                assert_eq!(code, 400, "{method} {media_type} {depth}: {text}");
            }
        }
    }
    // Within the limit, an unknown member does no harm.
    let body = format!("{{\"metadata\": {{\"name\": \"b\"}}, \"x\": {}}}", nested("[", "]", 100));
    assert_eq!(raw(&server, "POST", MAPS, JSON, body.into_bytes()).await.0, 201);
}

#[tokio::test]
async fn a_schema_that_nests_absurdly_is_refused_in_protobuf_too() {
    let server = TestServer::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = |depth: usize| {
        let deep = nested("{\"type\": \"object\", \"not\": ", "}", depth).replace('1', "{}");
        let deep: Value = serde_json::from_str(&deep).unwrap();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": deep}}],
            },
        })
    };
    // As deep as it can be written at all.
    let body = schema::encode(&definition(118)).unwrap();
    let (code, text) = raw(&server, "POST", definitions, PROTOBUF, body).await;
    assert_eq!(code, 400, "{text}");
    let body = schema::encode(&definition(50)).unwrap();
    assert_eq!(raw(&server, "POST", definitions, PROTOBUF, body).await.0, 201);
}

#[tokio::test]
async fn nothing_is_stored_that_could_not_be_read_again() {
    let server = TestServer::start().await;
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let things = "/apis/example.com/v1/namespaces/default/things?fieldManager=m";
    let head = "{\"apiVersion\": \"example.com/v1\", \"kind\": \"Thing\", \"metadata\": {\"name\": \"a\"}";
    for (depth, code) in [(110, 201), (125, 400), (200, 400)] {
        let body = format!("{head}, \"spec\": {}}}", nested("{\"a\": ", "}", depth));
        let (found, text) = raw(&server, "POST", things, JSON, body.into_bytes()).await;
        assert_eq!(found, code, "{depth}: {text}");
    }
    // In a list, with the managers of all those fields.
    let list = get(&server, "/apis/example.com/v1/things").await.expect(200);
    assert!(list["items"][0]["metadata"]["managedFields"].is_array());
}

#[tokio::test]
async fn members_that_are_there_twice_are_told_or_refused() {
    let server = TestServer::start().await;
    let body = br#"{"metadata": {"name": "a", "name": "b"}, "data": {"k": "1", "k": "2"}}"#;
    let (code, text) =
        raw(&server, "POST", &format!("{MAPS}?fieldValidation=Strict"), JSON, body.to_vec()).await;
    assert_eq!(code, 400);
    assert!(text.contains(r#"duplicate field \"metadata.name\", duplicate field \"data.k\""#), "{text}");
    let mut sent = request("POST", MAPS, JSON, &Value::Null);
    *sent.body_mut() = body.to_vec();
    let answer = send(&server, sent).await;
    let warnings: Vec<&str> =
        answer.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(answer.expect(201)["metadata"]["name"], "b");
}

#[tokio::test]
async fn a_long_selector_costs_little() {
    let server = with_map().await;
    let values: Vec<String> = (0..5000).map(|at| format!("value{at}")).collect();
    let began = Instant::now();
    let selector = format!("k%20in%20({})", values.join(","));
    assert_eq!(get(&server, &format!("{MAPS}?labelSelector={selector}")).await.code, 200);
    let selector = vec!["a!=b"; 8_000].join(",");
    assert_eq!(get(&server, &format!("{MAPS}?labelSelector={selector}")).await.code, 200);
    for selector in ["(".repeat(50_000), ",".repeat(50_000), "!".repeat(50_000), "a in (".repeat(5_000)] {
        let path = format!("{MAPS}?labelSelector={}", selector.replace(' ', "%20"));
        assert_eq!(get(&server, &path).await.code, 400, "{}", &selector[..10]);
    }
    let selector = vec!["metadata.name!=x"; 3000].join(",");
    assert_eq!(get(&server, &format!("{MAPS}?fieldSelector={selector}")).await.code, 200);
    assert!(began.elapsed() < LITTLE);
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let server = with_map().await;
    let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
    for (token, code) in [
        (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../../secrets/x\u0000"}"#), 400),
        (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"kube-system/x\u0000"}"#), 400),
        (token(r#"{"v":"meta.k8s.io/v1","rv":-7,"start":"a\u0000"}"#), 200),
        (token(r#"{"v":"meta.k8s.io/v1","rv":9223372036854775807,"start":"a\u0000"}"#), 504),
        (token(r#"{"v":"meta.k8s.io/v1","rv":9223372036854775808,"start":"a\u0000"}"#), 400),
        (token(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#), 400),
        (token("[]"), 400),
        (token(&"[".repeat(3000)), 400),
        ("x".repeat(50_000), 400),
        ("%00".to_owned(), 400),
    ] {
        let answer = get(&server, &format!("{MAPS}?limit=1&continue={token}")).await;
        assert_eq!(answer.code, code, "{token}: {}", answer.text());
    }
}

#[tokio::test]
async fn numbers_out_of_range_are_refused_or_harmless() {
    let server = with_map().await;
    for (query, code) in [
        ("limit=99999999999999999999", 400),
        ("limit=-9223372036854775808", 200),
        ("timeoutSeconds=99999999999999999999", 400),
        ("resourceVersion=18446744073709551615", 504),
        ("resourceVersion=18446744073709551616", 400),
        ("resourceVersion=1e3", 400),
        ("resourceVersion=%2B1", 400),
    ] {
        let answer = get(&server, &format!("{MAPS}?{query}")).await;
        assert_eq!(answer.code, code, "{query}: {}", answer.text());
    }
    common::Events::of(&server, &format!("{MAPS}?watch=true&timeoutSeconds=9223372036854775807")).await;
    let watch =
        get(&server, &format!("{MAPS}?watch=true&timeoutSeconds=0&resourceVersion=99999999999999999999"))
            .await;
    assert_eq!(watch.code, 500, "{}", watch.text());
    for grace in [i64::MIN, i64::MAX] {
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
        let pods = "/api/v1/namespaces/default/pods";
        post(&server, pods, json!({"metadata": {"generateName": "p-"}, "spec": spec})).await.expect(201);
        let options = json!({"gracePeriodSeconds": grace});
        assert!(common::delete(&server, pods, options).await.code < 500);
    }
}

#[tokio::test]
async fn what_is_no_request_for_a_token_is_refused() {
    let server = TestServer::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&server, accounts, json!({"metadata": {"name": "a"}})).await.expect(201);
    for body in [json!([]), json!(1), json!("x"), json!({"spec": "x"}), json!({"spec": []})] {
        let (code, reason, _) = post(&server, &format!("{accounts}/a/token"), body.clone()).await.refusal();
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{body}");
    }
}

#[tokio::test]
async fn no_patch_makes_an_object_grow_for_ever() {
    let server = TestServer::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let annotated = |name: &str| json!({"metadata": {"annotations": {name: "x".repeat(200 << 10)}}});
    let labels = json!({"app": "a"});
    let deployment = json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    post(&server, deployments, deployment).await.expect(201);
    let path = format!("{deployments}/a");
    let args = |count: usize| {
        json!({"spec": {"template": {"spec": {
            "containers": [{"name": "c", "image": "i", "args": vec!["x".repeat(1 << 10); count]}],
        }}}})
    };
    assert_eq!(common::patch(&server, common::MERGE_PATCH, &path, annotated("a")).await.code, 200);
    assert_eq!(common::patch(&server, common::MERGE_PATCH, &path, args(1500)).await.code, 200);
    let (code, _, message) = common::patch(&server, common::MERGE_PATCH, &path, args(2000)).await.refusal();
    assert_eq!((code, message.as_str()), (500, "etcdserver: request is too large"));
    assert_eq!(common::delete(&server, &path, Value::Null).await.code, 200);
}

/// Three times as many values as an object may have, within the limit of a body.
const FAR_TOO_MANY: usize = 750_000;

#[tokio::test]
async fn a_protobuf_body_of_another_kind_is_refused_before_it_is_decoded() {
    let server = with_map().await;
    let pods = "/api/v1/namespaces/default/pods";
    post(&server, pods, pod("p").build()).await.expect(201);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&server, accounts, json!({"metadata": {"name": "s"}})).await.expect(201);
    // A decoder that looks into it fails, and says so.
    let body = steersman_api::wire::wrap("v1", "PodList", &[0xff; 8]);
    let registered = "no kind \"PodList\" is registered for version \"v1\"";
    for (method, path) in [
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
        ("POST", MAPS.to_owned()),
        ("PUT", format!("{MAPS}/a")),
        ("DELETE", format!("{MAPS}/a")),
        ("POST", format!("{pods}/p/eviction")),
        ("POST", format!("{pods}/p/binding")),
        ("POST", format!("{accounts}/s/token")),
    ] {
        let (code, text) = raw(&server, method, &path, PROTOBUF, body.clone()).await;
        let message = serde_json::from_str::<Value>(&text).unwrap()["message"].clone();
        let message = message.as_str().unwrap();
        assert_eq!(code, 400, "{method} {path}: {text}");
        assert!(message.contains(registered), "{method} {path}: {message}");
    }
}

#[tokio::test]
async fn an_object_of_too_many_values_is_refused_in_every_encoding() {
    let server = with_map().await;
    let pods = "/api/v1/namespaces/default/pods";
    let one = format!("{MAPS}/a?fieldManager=m");
    // Each container is two bytes long, and becomes an object with defaults.
    let containers = [0x12, 0].repeat(FAR_TOO_MANY);
    let mut pod = steersman_api::wire::Writer::new();
    pod.bytes(2, &containers);
    let pod = steersman_api::wire::wrap("v1", "Pod", &pod.into_bytes());
    let items = |item: &str| vec![item; FAR_TOO_MANY].join(",");
    let head = "\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\"}";
    let unknown = format!("{{{head}, \"x\": [{}]}}", items("0"));
    // A few values in JSON that defaults make many: they are counted in the form that the kind has.
    let few = format!("{{\"spec\": {{\"containers\": [{}]}}}}", vec!["{}"; 100_000].join(","));
    for (method, path, media_type, body) in [
        ("POST", pods, PROTOBUF, pod),
        ("POST", pods, JSON, few.into_bytes()),
        ("POST", MAPS, JSON, unknown.clone().into_bytes()),
        ("POST", MAPS, JSON, format!("[{}]", items("{}")).into_bytes()),
        ("PUT", &one, JSON, unknown.clone().into_bytes()),
        ("PATCH", &one, MERGE_PATCH, unknown.clone().into_bytes()),
        ("PATCH", &one, STRATEGIC_PATCH, unknown.clone().into_bytes()),
        ("PATCH", &one, JSON_PATCH, format!("[{}]", items("{}")).into_bytes()),
        ("PATCH", &one, APPLY, unknown.clone().into_bytes()),
        ("DELETE", &one, JSON, unknown.clone().into_bytes()),
        ("DELETE", MAPS, JSON, unknown.into_bytes()),
    ] {
        let (code, text) = raw(&server, method, path, media_type, body).await;
        let shown: String = text.chars().take(300).collect();
        assert_eq!(code, 413, "{method} {path} {media_type}: {shown}");
    }
    get(&server, &format!("{MAPS}/a")).await.expect(200);
}

#[tokio::test]
async fn copies_within_a_patch_are_counted_by_their_values() {
    let server = with_map().await;
    let value: Vec<Value> = vec![json!({}); 40_000];
    let mut operations = vec![json!({"op": "add", "path": "/x", "value": value})];
    // Of few bytes each; within the limit on those.
    operations.extend((0..20).map(|at| json!({"op": "copy", "from": "/x", "path": format!("/x{at}")})));
    let answer = patch(&server, JSON_PATCH, &format!("{MAPS}/a"), Value::Array(operations)).await;
    assert_eq!(answer.code, 413, "{}", answer.text());
}

#[tokio::test]
async fn large_objects_in_earnest_are_taken() {
    let server = TestServer::start().await;
    let data: serde_json::Map<String, Value> =
        (0..60_000).map(|at| (format!("key-{at}"), "v".into())).collect();
    post(&server, MAPS, json!({"metadata": {"name": "large"}, "data": data})).await.expect(201);
}
