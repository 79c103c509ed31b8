//! A scripted service, for tests.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// What the service does with a request.
pub(crate) enum Reply {
    /// Answers with this status, these headers and this body.
    Answer(u16, &'static [(&'static str, &'static str)], String),
    /// Fails with this error.
    Fail(BoxError),
    /// Never ends.
    Hang,
}

/// An answer without headers.
pub(crate) fn answer(status: u16, body: impl Into<String>) -> Reply {
    Reply::Answer(status, &[], body.into())
}

/// Fails with an error of the kernel, as a broken connection does.
pub(crate) fn broken(kind: std::io::ErrorKind) -> Reply {
    Reply::Fail(std::io::Error::from(kind).into())
}

type Script = Box<dyn FnMut(&Request<Body>) -> Reply + Send>;

/// Answers requests by a function, and records them.
#[derive(Clone)]
pub(crate) struct Scripted {
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request that the service got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) method: http::Method,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    /// Empty if the body can be read only once.
    pub(crate) body: Bytes,
}

impl Scripted {
    pub(crate) fn new(script: impl FnMut(&Request<Body>) -> Reply + Send + 'static) -> Self {
        Self { script: Arc::new(Mutex::new(Box::new(script))), seen: Arc::default() }
    }

    /// Replies with these in turn, then with 200 for ever.
    pub(crate) fn in_turn(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        Self::new(move |_| replies.pop_front().unwrap_or_else(|| answer(200, "{}")))
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }
}

impl Service<Request<Body>> for Scripted {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Full<Bytes>>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let copy = request.body().try_clone().and_then(|body| body.collect().now_or_never()?.ok());
        self.seen.lock().push(Seen {
            at: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            headers: request.headers().clone(),
            body: copy.map(Collected::to_bytes).unwrap_or_default(),
        });
        let reply = (self.script.lock())(&request);
        Box::pin(async move {
            match reply {
                Reply::Answer(status, headers, body) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(*name, *value);
                    }
                    Ok(response.body(Full::from(body)).expect("a scripted answer must be valid"))
                }
                Reply::Fail(error) => Err(error),
                Reply::Hang => match std::future::pending::<Infallible>().await {},
            }
        })
    }
}

/// A request as kube builds it.
pub(crate) fn request(method: http::Method, uri: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(uri)
        .body(Body::from(b"{}".to_vec()))
        .expect("a scripted request must be valid")
}
