//! A server of one Lease, in memory, and the links by which candidates reach it.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, channel::mpsc};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::service::{RawBody, box_body};

pub(super) const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The server. A clone is the same server.
#[derive(Clone, Default)]
pub(super) struct LeaseServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    calls: Vec<Call>,
    watches: Vec<Watch>,
}

/// A watch under way.
struct Watch {
    lines: mpsc::UnboundedSender<String>,
    link: Link,
}

/// A call that reached the server.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) at: Instant,
    pub(super) method: Method,
    pub(super) from: String,
}

/// What happens to calls on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Weather {
    #[default]
    Fair,
    /// The server answers 500.
    Fails,
    /// Calls do not reach the server, and the client gets no response.
    Hangs,
    /// The server carries out calls at once and answers after a second.
    Slow,
    /// Calls reach the server, but the client gets no response.
    AnswersLost,
}

/// What happens to watches on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Watches {
    /// They show the Lease and each change, while the link's weather lets answers through.
    #[default]
    Served,
    /// The API server forbids them.
    Forbidden,
    /// They are never answered.
    Hang,
    /// They are answered, but show nothing.
    Silent,
    /// They end after they have shown the Lease.
    End,
}

/// One candidate's link to the server.
#[derive(Clone, Default)]
pub(super) struct Link(Arc<Mutex<(Weather, Watches)>>);

impl Link {
    pub(super) fn set(&self, weather: Weather) {
        self.0.lock().0 = weather;
    }

    pub(super) fn set_watches(&self, watches: Watches) {
        self.0.lock().1 = watches;
    }

    fn weather(&self) -> Weather {
        self.0.lock().0
    }

    fn watches(&self) -> Watches {
        self.0.lock().1
    }

    /// Whether watches show changes now.
    fn shows(&self) -> bool {
        matches!(self.weather(), Weather::Fair | Weather::Slow) && self.watches() == Watches::Served
    }
}

impl LeaseServer {
    pub(super) fn client(&self, name: &str, link: &Link) -> kube::Client {
        let (server, name, link) = (self.clone(), name.to_owned(), link.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (server, name, link) = (server.clone(), name.clone(), link.clone());
            async move {
                let weather = link.weather();
                if crate::traffic::is_watch(&request) {
                    let uri = request.uri().clone();
                    drop(request);
                    return server.watch(&name, &uri, &link).await;
                }
                let (code, body) = match weather {
                    Weather::Hangs => pending().await,
                    Weather::Fails => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
                    Weather::Fair => server.answer(&name, request).await,
                    Weather::Slow => {
                        let answer = server.answer(&name, request).await;
                        sleep(Duration::from_secs(1)).await;
                        answer
                    }
                    Weather::AnswersLost => {
                        server.answer(&name, request).await;
                        pending().await
                    }
                };
                respond(code, &body)
            }
        });
        kube::Client::new(service, "default")
    }

    async fn watch(&self, from: &str, uri: &Uri, link: &Link) -> Result<Response<RawBody>, tower::BoxError> {
        assert_eq!(uri.path(), PATH);
        let query = uri.query().unwrap();
        assert!(query.contains("fieldSelector=metadata.name%3Dtest"), "{query}");
        let (lines, events) = mpsc::unbounded();
        self.0.lock().calls.push(Call { at: Instant::now(), method: watch_method(), from: from.to_owned() });
        match (link.weather(), link.watches()) {
            (Weather::Fails, _) => return respond_with(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            (_, Watches::Forbidden) => return respond_with(StatusCode::FORBIDDEN, "Forbidden"),
            (Weather::Hangs | Weather::AnswersLost, _) | (_, Watches::Hang) => return pending().await,
            (_, Watches::Silent) => self.0.lock().watches.push(Watch { lines, link: link.clone() }),
            (_, watches) => {
                let mut state = self.0.lock();
                if let Some(lease) = &state.lease {
                    lines.unbounded_send(line("ADDED", lease)).unwrap();
                }
                if watches == Watches::Served {
                    state.watches.push(Watch { lines, link: link.clone() });
                }
            }
        }
        let frames = events.map(|line| Ok::<_, Infallible>(Frame::data(Bytes::from(line))));
        Ok(box_body(Response::new(StreamBody::new(frames))))
    }

    async fn answer(&self, from: &str, request: Request<Body>) -> (StatusCode, Value) {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let mut state = self.0.lock();
        assert!(parts.uri.path().starts_with(PATH), "unexpected path {}", parts.uri.path());
        let outcome = match parts.method {
            Method::GET => match &state.lease {
                Some(lease) => (StatusCode::OK, lease.clone()),
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::POST if state.lease.is_some() => failure(StatusCode::CONFLICT, "AlreadyExists"),
            Method::POST => {
                let lease: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(lease["metadata"].get("resourceVersion"), None);
                (StatusCode::CREATED, state.store(lease))
            }
            Method::PUT => {
                let lease: Value = serde_json::from_slice(&body).unwrap();
                let current = state.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
                match current {
                    None => failure(StatusCode::NOT_FOUND, "NotFound"),
                    Some(version) if *version == lease["metadata"]["resourceVersion"] => {
                        (StatusCode::OK, state.store(lease))
                    }
                    Some(_) => failure(StatusCode::CONFLICT, "Conflict"),
                }
            }
            method => panic!("unexpected method {method}"),
        };
        let call = Call { at: Instant::now(), method: parts.method, from: from.to_owned() };
        state.calls.push(call);
        outcome
    }

    pub(super) fn lease(&self) -> Option<Value> {
        self.0.lock().lease.clone()
    }

    pub(super) fn holder(&self) -> String {
        self.lease()
            .map_or(String::new(), |lease| lease["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned())
    }

    /// A user changes the Lease.
    pub(super) fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        let mut lease = state.lease.clone().unwrap();
        edit(&mut lease);
        state.store(lease);
    }

    /// A user creates the Lease.
    pub(super) fn put(&self, spec: Value) {
        self.0.lock().store(json!({"metadata": {"name": "test", "namespace": "kube-system"}, "spec": spec}));
    }

    pub(super) fn delete(&self) {
        let mut state = self.0.lock();
        state.version += 1;
        let version = state.version;
        if let Some(mut lease) = state.lease.take() {
            lease["metadata"]["resourceVersion"] = version.to_string().into();
            state.tell("DELETED", &lease);
        }
    }

    /// Ends all watches under way.
    pub(super) fn end_watches(&self) {
        self.0.lock().watches.clear();
    }

    /// The calls since the last call of this.
    pub(super) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().calls)
    }
}

impl State {
    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["apiVersion"] = "coordination.k8s.io/v1".into();
        lease["kind"] = "Lease".into();
        lease["metadata"]["uid"] = "u-1".into();
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.tell(if self.lease.is_some() { "MODIFIED" } else { "ADDED" }, &lease);
        self.lease.insert(lease).clone()
    }

    fn tell(&mut self, kind: &str, lease: &Value) {
        self.watches.retain(|watch| {
            !watch.lines.is_closed()
                && (!watch.link.shows() || watch.lines.unbounded_send(line(kind, lease)).is_ok())
        });
    }
}

/// How calls record a watch, which is a GET.
pub(super) fn watch_method() -> Method {
    Method::from_bytes(b"WATCH").unwrap()
}

fn line(kind: &str, lease: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": lease}))
}

fn respond(code: StatusCode, body: &Value) -> Result<Response<RawBody>, tower::BoxError> {
    let response = Response::builder().status(code).body(Full::from(body.to_string()));
    response.map(box_body).map_err(tower::BoxError::from)
}

fn respond_with(code: StatusCode, reason: &str) -> Result<Response<RawBody>, tower::BoxError> {
    let (code, body) = failure(code, reason);
    respond(code, &body)
}

fn failure(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason,
        "code": code.as_u16(),
    });
    (code, status)
}
