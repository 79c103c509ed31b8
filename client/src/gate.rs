//! The gate before writes: what a leadership fence stands on.

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// Says whether writes may leave this process.
///
/// A gated client asks [`admit`](WriteGate::admit) when a write is made and again just before each attempt is handed to
/// the connection (a wait in the rate limiter or for `Retry-After` lies between), and gives up a write under way as soon
/// as [`closed`](WriteGate::closed) resolves. Reads and watches pass always.
///
/// A gate may open again: `closed` speaks of the present opening only.
pub trait WriteGate: Send + Sync {
    /// Whether a write may be sent now. Must be quick, and must judge by the clock rather than by a timer that may not
    /// have run yet, since a process that was stopped for a while asks here first.
    fn admit(&self) -> Result<(), GateClosed>;

    /// Resolves once the opening that there is at the time of this *call* has ended; at once if there is none. A later
    /// opening does not hold it up, so whoever calls this before [`admit`](WriteGate::admit) misses no end.
    fn closed(&self) -> BoxFuture<'static, ()>;
}

/// Why a gate is closed, in words for a log line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GateClosed(pub Cow<'static, str>);

impl GateClosed {
    /// A closed gate and its reason, for instance `not the leader`.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

/// A write that a gate stopped. The caller should drop its work: whoever holds the gate now will do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was sent.
    #[error("write refused: {0}")]
    Refused(#[source] GateClosed),
    /// The gate closed while the write was under way: the server may have done it or not.
    #[error("write abandoned, its outcome is unknown: the gate closed while it was under way")]
    Abandoned,
}

/// Whether a request can change the cluster: every method but GET, HEAD and OPTIONS.
pub(crate) fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Puts a [`WriteGate`] before a service; without a gate, everything passes.
#[derive(Clone, Default)]
pub(crate) struct GateLayer {
    gate: Option<Arc<dyn WriteGate>>,
}

impl GateLayer {
    pub(crate) fn new(gate: Option<Arc<dyn WriteGate>>) -> Self {
        Self { gate }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.gate.clone() }
    }
}

/// The service of [`GateLayer`].
#[derive(Clone)]
pub(crate) struct Gated<S> {
    inner: S,
    gate: Option<Arc<dyn WriteGate>>,
}

impl<S, R> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = R, Error = BoxError> + Send,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = R;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<R, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(gate) = self.gate.clone().filter(|_| is_write(request.method())) else {
            return Box::pin(self.inner.call(request));
        };
        let closed = gate.closed();
        if let Err(closed) = gate.admit() {
            return Box::pin(async move { Err(Error::Refused(closed).into()) });
        }
        let write = self.inner.call(request);
        Box::pin(async move {
            tokio::select! {
                // The gate first: when both are due after a pause of the process, the write must not win.
                biased;
                () = closed => Err(Error::Abandoned.into()),
                outcome = write => outcome,
            }
        })
    }
}
