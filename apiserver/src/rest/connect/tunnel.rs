//! Upgraded connections, carried byte for byte whatever their protocol is.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::time::timeout;

use super::client::{Asked, DialError};
use super::target::Target;
use crate::refusal::{Refusal, Result};
use crate::rest::body::ResponseBody;
use crate::rest::request::Request;
use crate::rest::server::ApiServer;

/// How long one direction may go on after the other has ended, so that data on their way arrive.
const LINGER: Duration = Duration::from_secs(30);

/// The connection that a request came over: an extension of requests from sockets.
#[derive(Clone)]
pub(crate) struct Connection {
    peer: IpAddr,
    tunnel: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
    /// Whether a request of it was authenticated.
    is_known: Arc<AtomicBool>,
}

impl Connection {
    /// One with somebody at that address.
    pub(crate) fn with(peer: IpAddr) -> Self {
        Self { peer, tunnel: Arc::default(), is_known: Arc::default() }
    }

    /// Notes that its client has authenticated itself.
    pub(crate) fn authenticated(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Whether its client has authenticated itself at least once.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Who is at its other end.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// The work on the connection after the end of HTTP. The task that served the connection waits for it.
    pub(crate) fn take_tunnel(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.tunnel.lock().take()
    }
}

/// Whether a request wants its connection for another protocol.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

impl ApiServer {
    /// Asks for an upgrade on behalf of a client, and has what follows carried.
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
        // A refusal is passed on in the words of the node or service. It is the last answer on its connection.
        *answer.body_mut() = ResponseBody::full(answered.beginning().await);
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            answer.headers_mut().remove(name);
        }
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(answer)
    }
}

/// Waits for both connections to be upgraded, then carries bytes both ways until both directions have ended.
async fn carry(client: OnUpgrade, backend: impl Future<Output = hyper::Result<Upgraded>>) {
    let carried = match tokio::try_join!(client, backend) {
        Ok((client, backend)) => carry_both(TokioIo::new(client), TokioIo::new(backend)).await,
        Err(error) => Err(io::Error::other(error)),
    };
    if let Err(error) = carried {
        tracing::debug!(%error, "a tunnelled connection broke off");
    }
}

/// An end in one direction is passed on; an error ends both.
async fn carry_both<A, B>(a: A, b: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((a_read, a_write), (b_read, b_write)) = (split(a), split(b));
    let forth = pin!(carry_one(a_read, b_write));
    let back = pin!(carry_one(b_read, a_write));
    match select(forth, back).await {
        Either::Left((ended, back)) => ended.and(linger(back).await),
        Either::Right((ended, forth)) => ended.and(linger(forth).await),
    }
}

async fn carry_one(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}

async fn linger(rest: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    timeout(LINGER, rest).await.unwrap_or(Ok(()))
}
