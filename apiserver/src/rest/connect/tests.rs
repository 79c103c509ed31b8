//! Proxies to somebody on this machine, whom no name leads to.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Method, Uri};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::access::Identity;
use crate::rest::route::{Route, route};
use crate::rest::{Query, Settings};

/// Somebody who takes one request, and gives that answer. What was asked comes back.
async fn somebody(answer: &'static str) -> (Target, JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut asked).await.unwrap(), 0);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        stream.read_to_end(&mut asked).await.unwrap();
        String::from_utf8(asked).unwrap()
    });
    let target =
        Target { host: "127.0.0.1".to_owned(), checked: None, port, certificates: Certificates::None };
    (target, task)
}

fn server() -> ApiServer {
    ApiServer::new(Settings::default(), Outbound::new(None, None).unwrap())
}

fn request(
    server: &ApiServer,
    method: Method,
    uri: &str,
    headers: &[(&'static str, &str)],
    body: &str,
) -> Request {
    let uri: Uri = uri.parse().unwrap();
    let query = Query::parse(uri.query().unwrap_or_default());
    let Ok(Route::Resource(call)) = route(&server.resources(), &method, uri.path(), &query) else {
        panic!("{uri} must be about a resource")
    };
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    Request {
        call,
        method,
        uri,
        query,
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
        who: Identity::anonymous(),
        extensions: Extensions::new(),
    }
}

const ROOT: &str = "/api/v1/namespaces/default/pods/https:a:8/proxy";

#[tokio::test]
async fn a_request_is_passed_on_without_credentials_and_the_answer_without_what_is_ours_to_say() {
    let (target, asked) = somebody(
        "HTTP/1.1 418 Teapot\r\nX-Own: 1\r\nAccess-Control-Allow-Origin: *\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    .await;
    let server = server();
    let headers = [
        ("host", "api"),
        ("authorization", "Bearer secret"),
        ("impersonate-user", "somebody"),
        ("connection", "keep-alive, x-mine"),
        ("x-mine", "1"),
        ("x-yours", "2"),
        ("content-length", "4"),
    ];
    let request = request(&server, Method::POST, &format!("{ROOT}/x%20y/?q=a+b"), &headers, "body");
    let answer = server.pass_on(&request, &target).await.unwrap();
    assert_eq!(answer.status(), 418);
    let names: Vec<&str> = answer.headers().keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["x-own"]);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "abcde");
    let asked = asked.await.unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines.remove(0), "POST /x%20y/?q=a+b HTTP/1.1");
    lines.sort_unstable();
    let uri = format!("x-forwarded-uri: {ROOT}/x%20y/");
    assert_eq!(lines, ["content-length: 4", "host: api", uri.as_str(), "x-yours: 2"]);
    assert_eq!(body, "body");
}

#[tokio::test]
async fn the_root_ends_in_a_slash_and_redirects_lead_back_through_the_proxy() {
    let (target, asked) =
        somebody("HTTP/1.1 302 Found\r\nLocation: /over/there\r\nContent-Length: 0\r\n\r\n").await;
    let server = server();
    let bare = request(&server, Method::GET, &format!("{ROOT}?a=b"), &[], "");
    let answer = server.pass_on(&bare, &target).await.unwrap();
    assert_eq!(answer.status(), 301);
    assert_eq!(answer.headers()["location"], format!("{ROOT}/?a=b"));
    let rooted = request(&server, Method::GET, &format!("{ROOT}/"), &[], "");
    let answer = server.pass_on(&rooted, &target).await.unwrap();
    assert_eq!(answer.status(), 302);
    assert_eq!(answer.headers()["location"], format!("{ROOT}/over/there"));
    drop(answer);
    assert!(asked.await.unwrap().starts_with("GET / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off() {
    let (target, asked) = somebody("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").await;
    let server = server();
    let request = request(&server, Method::GET, &format!("{ROOT}/x"), &[], "");
    let answer = server.pass_on(&request, &target).await.unwrap();
    answer.into_body().collect().await.unwrap_err();
    asked.await.unwrap();
}

#[tokio::test]
async fn somebody_who_is_not_there_is_unavailable() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let host = "127.0.0.1".to_owned();
    let target = Target { host, checked: None, port, certificates: Certificates::Anyone };
    let server = server();
    let request = request(&server, Method::GET, &format!("{ROOT}/x"), &[], "");
    let refused = server.pass_on(&request, &target).await.unwrap_err().status;
    assert_eq!((refused.code, refused.reason.as_str()), (503, "ServiceUnavailable"));
    let why =
        format!("error trying to reach service: dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(refused.message, why);
}

#[tokio::test]
async fn connections_go_to_the_addresses_that_were_checked_whatever_the_name_resolves_to() {
    let (target, asked) = somebody("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let checked = Some(vec![Ipv4Addr::LOCALHOST.into()]);
    let target = Target { host: "node.invalid".to_owned(), checked, ..target };
    let server = server();
    let request = request(&server, Method::GET, &format!("{ROOT}/x"), &[], "");
    let answer = server.pass_on(&request, &target).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    asked.await.unwrap();
}

#[tokio::test]
async fn a_node_is_proxied_to_at_the_addresses_that_its_name_had_when_they_were_checked() {
    let server = server();
    let made = |name: &str, address: &str| {
        let node = serde_json::json!({
            "metadata": {"name": name}, "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        });
        let request = request(&server, Method::POST, "/api/v1/nodes", &[], &node.to_string());
        server.create(&request).unwrap();
    };
    made("n", "10.0.0.1");
    made("here", "127.0.0.1");
    let target = async |name: &str| {
        let path = format!("/api/v1/nodes/{name}/proxy/x");
        server.proxied_node(&request(&server, Method::GET, &path, &[], "")).await
    };
    for (name, url) in [("n", "https://10.0.0.1:10250/"), ("http:n:81", "http://10.0.0.1:81/")] {
        let target = target(name).await.unwrap();
        assert_eq!(
            (target.url("/").as_str(), target.checked),
            (url, Some(vec!["10.0.0.1".parse().unwrap()]))
        );
    }
    assert_eq!(target("here").await.unwrap_err().status.message, "address not allowed");
}
