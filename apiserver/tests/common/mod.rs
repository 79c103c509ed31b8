//! Requests as a test writes them.
#![allow(dead_code, reason = "each test file uses a part")]

use http_body_util::BodyExt;
use serde_json::Value;
use steersman_apiserver::{Reset, ResponseBody, TestServer};
use tower::ServiceExt;

/// The type of a body, by what a patch is.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// An answer that was read to its end.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) bytes: bytes::Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| Value::String(self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.json()
    }

    /// Code, reason and message of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let json = self.json();
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        (self.code, text("reason"), text("message"))
    }
}

pub(crate) async fn begin(
    server: &TestServer,
    request: http::Request<Vec<u8>>,
) -> Result<http::Response<ResponseBody>, Reset> {
    server.in_memory().oneshot(request.map(kube::client::Body::from)).await
}

pub(crate) async fn send(server: &TestServer, request: http::Request<Vec<u8>>) -> Answer {
    let (parts, body) = begin(server, request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status.as_u16(), headers: parts.headers, bytes }
}

pub(crate) fn request(method: &str, path: &str, content_type: &str, body: &Value) -> http::Request<Vec<u8>> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", JSON)
        .body(body)
        .unwrap()
}

pub(crate) async fn get(server: &TestServer, path: &str) -> Answer {
    send(server, request("GET", path, JSON, &Value::Null)).await
}

pub(crate) async fn post(server: &TestServer, path: &str, body: Value) -> Answer {
    send(server, request("POST", path, JSON, &body)).await
}

pub(crate) async fn put(server: &TestServer, path: &str, body: Value) -> Answer {
    send(server, request("PUT", path, JSON, &body)).await
}

pub(crate) async fn patch(server: &TestServer, content_type: &str, path: &str, body: Value) -> Answer {
    send(server, request("PATCH", path, content_type, &body)).await
}

pub(crate) async fn delete(server: &TestServer, path: &str, options: Value) -> Answer {
    send(server, request("DELETE", path, JSON, &options)).await
}

/// The events of a watch, as JSON.
pub(crate) struct Events {
    body: ResponseBody,
    buffer: Vec<u8>,
}

impl Events {
    pub(crate) async fn of(server: &TestServer, path: &str) -> Self {
        Self::asking(server, path, JSON).await
    }

    pub(crate) async fn asking(server: &TestServer, path: &str, accept: &'static str) -> Self {
        let mut request = request("GET", path, JSON, &Value::Null);
        request.headers_mut().insert("accept", http::HeaderValue::from_static(accept));
        let answer = begin(server, request).await.unwrap();
        assert_eq!(answer.status(), 200);
        Self { body: answer.into_body(), buffer: Vec::new() }
    }

    /// The next event; None at a clean end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.try_next().await.unwrap()
    }

    pub(crate) async fn try_next(&mut self) -> Result<Option<Value>, Reset> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            match self.body.frame().await {
                Some(frame) => self.buffer.extend_from_slice(&frame?.into_data().unwrap()),
                None => return Ok(None),
            }
        }
    }

    /// Type, name and version of the next event.
    pub(crate) async fn brief(&mut self) -> String {
        match self.next().await {
            Some(event) => brief(&event),
            None => "end".to_owned(),
        }
    }
}

pub(crate) fn brief(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or_default();
    match event["object"]["metadata"]["name"].as_str() {
        Some(name) => format!("{kind} {name}"),
        None => kind.to_owned(),
    }
}

/// The names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}
