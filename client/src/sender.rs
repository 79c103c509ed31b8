//! The client of one component, in two forms: [`Sender`] and `kube::Client`.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header::USER_AGENT};
use kube::client::Body;
use tower::{BoxError, Service};

use crate::{
    gate::{self, WriteGate, is_write},
    response_body::ResponseBody,
    retry::Retrying,
    traffic::{Traffic, is_watch},
};

/// Sends the requests of one component to the API server. Cheap to clone.
///
/// Clones, and every [`client`](Sender::client) made from them, share one rate limit, gate and user agent. Each
/// request is limited, admitted by the gate, repeated by the table in [`retry`](crate::retry), and counted.
///
/// A `kube::Client` does the same, but hands each request through a channel to a task, and boxes the future and the
/// body. A sender does without: use it where the component itself encodes what it sends, and `kube::Client` where the
/// typed interface of kube is worth that.
#[derive(Clone)]
pub struct Sender {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) user_agent: HeaderValue,
    /// The connections of all requests but watches, where the request alone does not tell.
    pub(crate) traffic: Option<Traffic>,
    /// Refuses and abandons writes.
    pub(crate) gate: Option<Arc<dyn WriteGate>>,
    pub(crate) retrying: Retrying,
    pub(crate) default_namespace: String,
}

impl Sender {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Sends a request, whose URI has a path and a query only, and returns the response, whatever its status is.
    ///
    /// # Errors
    /// No response came. The error is what `kube::Client::send` would return:
    /// [`surely_not_done`](crate::fault::surely_not_done) tells whether the server may have acted on the request.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<ResponseBody>, kube::Error> {
        // On the heap, since the state of a call that waits, retries and connects takes kilobytes, and each caller's future
        // would contain it.
        Box::pin(self.send_body(request.map(Body::from))).await.map_err(into_kube)
    }

    /// A `kube::Client` that shares this sender's rate limit. It keeps a task of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(AsService(self.clone()), self.shared.default_namespace.clone())
    }

    async fn send_body(&self, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let Shared { user_agent, traffic, gate, retrying, .. } = &*self.shared;
        request.headers_mut().insert(USER_AGENT, user_agent.clone());
        if let Some(traffic) = traffic
            && !is_watch(&request)
        {
            request.extensions_mut().insert(*traffic);
        }
        match gate {
            Some(gate) if is_write(request.method()) => gate::guard(&**gate, retrying.send(request)).await,
            _ => retrying.send(request).await,
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("user_agent", &self.shared.user_agent).finish_non_exhaustive()
    }
}

/// The error that `kube::Client::send` makes of an error of its service.
fn into_kube(error: BoxError) -> kube::Error {
    error
        .downcast::<kube::Error>()
        .map(|error| *error)
        .or_else(|error| error.downcast::<hyper::Error>().map(|error| kube::Error::HyperError(*error)))
        .unwrap_or_else(kube::Error::Service)
}

/// A sender as the service that a `kube::Client` stands on.
struct AsService(Sender);

impl Service<Request<Body>> for AsService {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let sender = self.0.clone();
        Box::pin(async move { sender.send_body(request).await })
    }
}
