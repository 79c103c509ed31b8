//! A server of one Lease, in memory, and the links by which candidates reach it.

use std::{future::pending, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::service_fn;

pub(super) const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The server. A clone is the same server.
#[derive(Clone, Default)]
pub(super) struct LeaseServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    calls: Vec<Call>,
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

/// One candidate's link to the server.
#[derive(Clone, Default)]
pub(super) struct Link(Arc<Mutex<Weather>>);

impl Link {
    pub(super) fn set(&self, weather: Weather) {
        *self.0.lock() = weather;
    }
}

impl LeaseServer {
    pub(super) fn client(&self, name: &str, link: &Link) -> kube::Client {
        let (server, name, link) = (self.clone(), name.to_owned(), link.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (server, name, link) = (server.clone(), name.clone(), link.clone());
            async move {
                let weather = *link.0.lock();
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
                let response =
                    Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                response.map_err(tower::BoxError::from)
            }
        });
        kube::Client::new(service, "default")
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
        self.0.lock().lease = None;
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
        self.lease.insert(lease).clone()
    }
}

fn failure(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason,
        "code": code.as_u16(),
    });
    (code, status)
}
