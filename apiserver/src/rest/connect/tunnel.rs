//! Passes upgrades on to nodes and services, and has the upgraded connections carried.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, FutureExt};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use steersman_serving::tunnel::carry;

use super::client::{Asked, DialError};
use super::target::Target;
use crate::refusal::{Refusal, Result};
use crate::rest::body::ResponseBody;
use crate::rest::request::Request;
use crate::rest::server::ApiServer;

/// The connection of a request: an extension of requests from sockets.
#[derive(Clone)]
pub(crate) struct Connection {
    peer: IpAddr,
    tunnel: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
    /// Whether its client has authenticated itself at least once.
    is_known: Arc<AtomicBool>,
}

impl Connection {
    /// A connection from this address.
    pub(crate) fn with(peer: IpAddr) -> Self {
        Self { peer, tunnel: Arc::default(), is_known: Arc::default() }
    }

    /// Records that its client has authenticated itself.
    pub(crate) fn authenticated(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Whether its client has authenticated itself at least once.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Keeps something until the tunnel ends.
    pub(crate) fn keep_with_tunnel(&self, kept: impl Send + 'static) {
        let mut tunnel = self.tunnel.lock();
        if let Some(carried) = tunnel.take() {
            *tunnel = Some(Box::pin(async move {
                carried.await;
                drop(kept);
            }));
        }
    }

    /// Takes the future that carries bytes after an upgrade. The task that serves the connection runs it.
    pub(crate) fn take_tunnel(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.tunnel.lock().take()
    }
}

/// Whether a request asks for an upgrade.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

impl ApiServer {
    /// Passes a client's request for an upgrade on to `target`, and its answer back. After an upgrade, the task that serves the
    /// client's connection carries the bytes.
    pub(super) async fn tunnel(
        &self,
        request: &Request,
        target: &Target,
        asked: Asked,
    ) -> Result<Response<ResponseBody>> {
        let of_client = request.extensions.get::<OnUpgrade>().cloned();
        let connection = request.extensions.get::<Connection>();
        // Over HTTP/2, and without sockets, there is nothing to upgrade.
        let (Some(of_client), Some(connection)) = (of_client, connection) else {
            return Err(Refusal::bad_request("Upgrade request required"));
        };
        let failed = |error: DialError| {
            let doing = match error {
                DialError::Send(_) | DialError::Request(_) => "sending request",
                _ => "dialing backend",
            };
            Refusal::unforeseen(format!("error {doing}: {error}"))
        };
        let answered = self.outbound().ask(target, asked).await.map_err(failed)?;
        let (status, headers) = (answered.status(), answered.headers().clone());
        let mut answer = Response::new(ResponseBody::full(""));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let running = self.streaming();
            let carried = async move {
                let _ = running.run_until_cancelled(carry(of_client, answered.upgraded())).await;
            };
            *connection.tunnel.lock() = Some(carried.boxed());
            return Ok(answer);
        }
        if status.as_u16() < 400 {
            let why = format!("invalid upgrade response: status code {}", status.as_u16());
            return Err(Refusal::unforeseen(why));
        }
        // The refusal of the node or service is passed on unchanged. The connection is closed after it.
        *answer.body_mut() = ResponseBody::full(answered.beginning().await);
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            answer.headers_mut().remove(name);
        }
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(answer)
    }
}
