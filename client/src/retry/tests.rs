use std::io::ErrorKind::{ConnectionRefused, ConnectionReset};

use bytes::Bytes;
use http::Method;
use prometheus::{Encoder, Registry, TextEncoder};

use super::*;
use crate::{
    Clients, Limits,
    clients::Options,
    metrics::Metrics,
    testing::{Reply, Scripted, answer, broken, request},
};

const WAIT_3: &[(&str, &str)] = &[("retry-after", "3")];

fn told_to_wait(status: u16) -> Reply {
    Reply::Answer(status, WAIT_3, "{}".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_only_where_that_can_do_no_harm() {
    const READ: (Method, &str) = (Method::GET, "/api/v1/pods");
    const WATCH: (Method, &str) = (Method::GET, "/api/v1/pods?watch=true");
    const CREATE: (Method, &str) = (Method::POST, "/api/v1/namespaces/a/pods");
    const DELETE: (Method, &str) = (Method::DELETE, "/api/v1/namespaces/a/pods/b");
    /// What happens first, in words; the request; the first reply; the seconds until the request is sent again.
    type Case = (&'static str, (Method, &'static str), fn() -> Reply, Option<u64>);
    let table: [Case; 18] = [
        ("429 that says when", READ, || told_to_wait(429), Some(3)),
        ("429 that says when", CREATE, || told_to_wait(429), Some(3)),
        ("429 that says when", DELETE, || told_to_wait(429), Some(3)),
        ("429 that says when", WATCH, || told_to_wait(429), None),
        ("429 that does not", READ, || answer(429, "{}"), None),
        ("503 that says when", READ, || told_to_wait(503), Some(3)),
        ("503 that says when", CREATE, || told_to_wait(503), None),
        ("503 that does not", READ, || answer(503, "{}"), None),
        ("409 that says when", READ, || told_to_wait(409), None),
        ("404", READ, || answer(404, "{}"), None),
        (
            "a date to wait for",
            READ,
            || Reply::Answer(429, &[("retry-after", "Fri, 31 Dec")], "".into()),
            None,
        ),
        ("reset", READ, || broken(ConnectionReset), Some(1)),
        ("reset", CREATE, || broken(ConnectionReset), None),
        ("reset", WATCH, || broken(ConnectionReset), None),
        ("refused", READ, || broken(ConnectionRefused), Some(1)),
        ("refused", CREATE, || broken(ConnectionRefused), Some(1)),
        ("refused", WATCH, || broken(ConnectionRefused), None),
        ("something else", READ, || Reply::Fail("no such luck".into()), None),
    ];
    for (what, (method, uri), first, expected) in table {
        let service = Scripted::in_turn([first()]);
        let client = Clients::over(service.clone()).component("test");
        let outcome = client.send(request(method.clone(), uri)).await;
        let seen = service.seen();
        let waited = (seen.len() > 1).then(|| (seen[1].at - seen[0].at).as_secs());
        assert_eq!(waited, expected, "{what} of {method} {uri}");
        assert_eq!(
            outcome.is_ok_and(|answer| answer.status() == 200),
            expected.is_some(),
            "{what} of {method} {uri}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_sends_the_same_request() {
    for form in ["sender", "client"] {
        let service = Scripted::in_turn([told_to_wait(429), broken(ConnectionRefused)]);
        let sender = Clients::over(service.clone()).sender("test");
        let body = Bytes::from_static(b"a pod");
        let request = Request::builder()
            .method(Method::POST)
            .uri("/api/v1/namespaces/a/pods")
            .header("content-type", "application/vnd.kubernetes.protobuf")
            .body(body.clone())
            .unwrap();
        let status = match form {
            "sender" => sender.send(request).await.unwrap().status(),
            _ => sender.client().send(request.map(Body::from)).await.unwrap().status(),
        };
        assert_eq!(status, 200);
        let seen = service.seen();
        assert_eq!(seen.len(), 3, "{form}");
        for attempt in seen {
            assert_eq!((attempt.method, &*attempt.path), (Method::POST, "/api/v1/namespaces/a/pods"));
            assert_eq!(attempt.body, body, "{form}");
            assert_eq!(attempt.headers["content-type"], "application/vnd.kubernetes.protobuf");
            assert!(attempt.headers.contains_key("user-agent"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ten_retries_are_enough() {
    let service = Scripted::new(|_| told_to_wait(429));
    let client = Clients::over(service.clone()).component("test");
    let answer = client.send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(service.seen().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn clients_with_rules_of_their_own_see_every_answer() {
    let service = Scripted::new(|_| told_to_wait(429));
    let clients = Clients::over(service.clone());
    for client in [clients.watch_client(), clients.lease_client("leader")] {
        let sent = service.seen().len();
        assert_eq!(client.send(request(Method::GET, "/api/v1/pods")).await.unwrap().status(), 429);
        assert_eq!(service.seen().len(), sent + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_takes_a_token_of_its_own_client() {
    let service = Scripted::in_turn([Reply::Answer(429, &[("retry-after", "0")], String::new())]);
    let clients = Clients::over(service.clone());
    let client = clients.component_with("slow", Limits::new(0.1, 1));
    client.send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    let seen = service.seen();
    assert_eq!((seen[1].at - seen[0].at).as_secs(), 10);

    clients.component("other").send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    assert_eq!(service.seen()[2].at, seen[1].at, "another's limit is its own");
    let agent = service.seen()[2].headers["user-agent"].to_str().unwrap().to_owned();
    assert!(agent.starts_with("steersman/v") && agent.ends_with(" kubernetes/other"), "{agent}");
}

#[tokio::test(start_paused = true)]
async fn a_sender_and_its_client_share_one_limit() {
    let service = Scripted::in_turn([]);
    let sender = Clients::over(service.clone()).sender_with("slow", Limits::new(0.1, 1));
    sender.client().send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    sender.clone().send(Request::get("/api/v1/pods").body(Bytes::new()).unwrap()).await.unwrap();
    sender.client().send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    let seen = service.seen();
    assert_eq!([1, 2].map(|i| (seen[i].at - seen[0].at).as_secs()), [10, 20]);
    assert_eq!(seen[1].headers["user-agent"], seen[0].headers["user-agent"]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_returns_the_errors_of_kubes_client() {
    let failures: [fn() -> BoxError; 3] = [
        || std::io::Error::from(ConnectionReset).into(),
        || kube::Error::LinesCodecMaxLineLengthExceeded.into(),
        || gate::Error::Refused(gate::GateClosed::because("no leader")).into(),
    ];
    for failure in failures {
        let sender = Clients::over(Scripted::new(move |_| Reply::Fail(failure()))).sender("test");
        let post = Request::post("/api/v1/namespaces/a/pods").body(Bytes::new()).unwrap();
        let own = sender.send(post).await.err().unwrap();
        let kubes =
            sender.client().send(request(Method::POST, "/api/v1/namespaces/a/pods")).await.unwrap_err();
        assert_eq!(format!("{own:?}"), format!("{kubes:?}"));
        assert_eq!(crate::fault::surely_not_done(&own), crate::fault::surely_not_done(&kubes));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_attempts_and_measure_requests() {
    let service = Scripted::in_turn([told_to_wait(429), answer(201, "created"), broken(ConnectionReset)]);
    let options = Options { metrics: Metrics::new(), limits: Limits::new(1.0, 2), ..Options::default() };
    let registry = Registry::new();
    options.metrics.register(&registry).unwrap();
    let client = Clients::over_with(service, options).component("test");

    let created = client.send(request(Method::POST, "/api/v1/namespaces/a/pods")).await.unwrap();
    assert_eq!(created.into_body().collect_bytes().await.unwrap(), "created");
    client.send(request(Method::DELETE, "/api/v1/namespaces/a/pods/b")).await.unwrap_err();
    client.send(request(Method::GET, "/api/v1/pods?watch=1")).await.unwrap();

    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        r#"rest_client_requests_total{code="429",host="none",method="POST"} 1"#,
        r#"rest_client_requests_total{code="201",host="none",method="POST"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="none",method="DELETE"} 1"#,
        r#"rest_client_requests_total{code="200",host="none",method="GET"} 1"#,
        r#"rest_client_request_retries_total{code="201",host="none",verb="POST"} 1"#,
        // The 3 s of Retry-After. The rate limiter has a token by then.
        r#"rest_client_request_duration_seconds_sum{host="none",verb="POST"} 3"#,
        r#"rest_client_request_duration_seconds_bucket{host="none",verb="POST",le="4"} 1"#,
        r#"rest_client_request_size_bytes_count{host="none",verb="POST"} 2"#,
        r#"rest_client_response_size_bytes_sum{host="none",verb="POST"} 7"#,
        r#"rest_client_rate_limiter_duration_seconds_count{host="none",verb="DELETE"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let watches = r#"rest_client_request_duration_seconds_count{host="none",verb="GET"}"#;
    assert!(!text.contains(watches), "a watch has no duration");
}

#[tokio::test(start_paused = true)]
async fn what_surely_was_not_done_is_told_from_what_may_have_been() {
    use crate::{fault::surely_not_done, transport};
    let refused = || std::io::Error::from(ConnectionRefused);
    let dial = transport::Error::Dial { server: "a:1".into(), source: Arc::new(refused()) };
    assert_eq!(Fault::of(&dial), Fault::Unreachable);
    let untrusted =
        transport::Error::Dial { server: "a:1".into(), source: Arc::new(std::io::Error::other("TLS")) };
    assert_eq!(Fault::of(&untrusted), Fault::Other);
    let api =
        |code| kube::Error::Api(Box::new(kube::core::Status { code, ..kube::core::Status::failure("", "") }));
    let service = |error: BoxError| kube::Error::Service(error);
    for (error, expected) in [
        (service(dial.into()), true),
        (service(untrusted.into()), true),
        (service(transport::Error::Closed.into()), true),
        (service(gate::Error::Refused(gate::GateClosed::because("no leader")).into()), true),
        (service(gate::Error::Abandoned.into()), false),
        (service(std::io::Error::from(ConnectionReset).into()), false),
        (api(409), true),
        (api(422), true),
        (api(500), false),
        (api(504), false),
    ] {
        assert_eq!(surely_not_done(&error), expected, "{error}");
    }
}
