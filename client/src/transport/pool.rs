//! The connections of one class of traffic.

use std::{
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};
use tower::BoxError;

use super::{
    Error, Options,
    connection::{Connection, Slot},
    failure::Failure,
    tasks::Tasks,
    tls::{Tls, limit_unacknowledged, pause_between_reads},
};
use crate::{service::RawBody, traffic::Traffic};

/// Maximum number of connections that a request tries because the one before had just ended.
const STALE_CONNECTIONS: u32 = 3;

/// Gives each request a stream on a connection, and opens another connection if no stream is free.
///
/// Requests use the oldest connection with a free stream. If the server supports HTTP/2, the pool opens one
/// connection at a time: all requests that need one wait for it, and share its error if it fails.
pub(super) struct Pool {
    traffic: Traffic,
    tls: Arc<Tls>,
    options: Options,
    tasks: Tasks,
    server: Arc<str>,
    state: Mutex<State>,
    next_id: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The connections that take requests. Those that have ended or are retired are removed.
    members: Vec<Member>,
    /// The connection that is being opened for all waiting requests.
    dialling: Option<Dialling>,
    /// Whether the last connection was HTTP/1.1. If so, each request opens its own connection.
    http1: bool,
}

struct Member {
    id: u64,
    generation: u64,
    connection: Connection,
}

type Dialling = Shared<BoxFuture<'static, Result<Connection, Error>>>;

impl Pool {
    pub(super) fn new(traffic: Traffic, tls: Arc<Tls>, options: Options, tasks: Tasks) -> Self {
        let server = tls.server();
        Self { traffic, tls, options, tasks, server, state: Mutex::default(), next_id: AtomicU64::new(0) }
    }

    /// Sends a request whose URI is absolute. If a connection returns the request unsent, uses another one.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Response<RawBody>, Error> {
        let uri = request.uri().clone();
        for _ in 0..STALE_CONNECTIONS {
            let slot = self.slot().await?;
            match slot.send(request).await {
                Ok(response) => {
                    if response.status() == StatusCode::UNAUTHORIZED {
                        self.tls.refused();
                    }
                    return Ok(response);
                }
                Err(Failure::Sent(error)) => return Err(Error::Exchange(error)),
                Err(Failure::Unsent(unsent)) => {
                    request = *unsent;
                    *request.uri_mut() = uri.clone();
                }
            }
        }
        Err(self.short_lived())
    }

    /// The number of connections that take requests.
    pub(super) fn connections(&self) -> usize {
        self.state.lock().members.len()
    }

    /// Closes connections that have been idle for [`Options::idle_timeout`].
    pub(super) fn close_idle(&self) {
        let now = Instant::now();
        let idle = |member: &Member| {
            member.connection.idle_since().is_some_and(|since| now - since >= self.options.idle_timeout)
        };
        self.state.lock().members.retain(|member| !idle(member));
    }

    /// Retires connections with certificates older than `generation`.
    pub(super) fn retire_before(&self, generation: u64) {
        self.retire(|member| member.generation < generation);
    }

    /// Sends no more requests over the members that `is_retired` selects. Ends their watches at once, and other
    /// requests after [`Options::retirement`].
    fn retire(&self, is_retired: impl Fn(&Member) -> bool) {
        let mut retired = Vec::new();
        self.state.lock().members.retain(|member| {
            let retire = is_retired(member);
            if retire {
                retired.push(member.connection.clone());
            }
            !retire
        });
        for connection in retired {
            if matches!(self.traffic, Traffic::Watch | Traffic::BatchedWatch) {
                connection.cut();
                continue;
            }
            let time = self.options.retirement;
            self.tasks.spawn(async move {
                // A timeout does not matter: the connection is cut anyway.
                drop(tokio::time::timeout(time, connection.drained()).await);
                connection.cut();
            });
        }
    }

    /// Waits for a free stream on any connection.
    async fn slot(self: &Arc<Self>) -> Result<Slot, Error> {
        let mut short_lived = 0;
        while short_lived < STALE_CONNECTIONS {
            if self.traffic == Traffic::Lease {
                // A connection on which a request got no response may be half-open: the next request must not hang,
                // too.
                self.retire(|member| member.connection.was_given_up_on());
            }
            let shared = {
                let mut state = self.state.lock();
                if self.tasks.is_cut() {
                    return Err(Error::Closed);
                }
                state.members.retain(|member| !member.connection.is_closed());
                if let Some(slot) = state.members.iter().find_map(|member| member.connection.reserve()) {
                    return Ok(slot);
                }
                let alone = state.http1;
                (!alone).then(|| state.dialling.get_or_insert_with(|| self.dial_for_all()).clone())
            };
            let connection = match shared {
                Some(dialling) => dialling.await?,
                // Boxed, since each request's future has room for it.
                None => Box::pin(self.dial()).await?,
            };
            short_lived += u32::from(connection.is_closed());
        }
        Err(self.short_lived())
    }

    /// Opens a connection in a task of its own, so that dropping one of the waiting requests does not stop it.
    fn dial_for_all(self: &Arc<Self>) -> Dialling {
        let (done, outcome) = oneshot::channel();
        let pool = self.clone();
        self.tasks.spawn(async move {
            let dialled = pool.dial().await;
            pool.state.lock().dialling = None;
            // Fails if no request waits any more.
            drop(done.send(dialled));
        });
        outcome.map(|outcome| outcome.unwrap_or(Err(Error::Closed))).boxed().shared()
    }

    /// Opens a connection and adds it to the members.
    async fn dial(self: &Arc<Self>) -> Result<Connection, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (pool, tasks) = (Arc::downgrade(self), self.tasks.child());
        let attempt = async {
            let (mut stream, generation) = self.tls.dial().await?;
            match self.traffic {
                Traffic::Write => limit_unacknowledged(&stream, self.options.write_unacknowledged)?,
                Traffic::BatchedWatch => pause_between_reads(&mut stream, self.options.batch_interval),
                Traffic::Watch | Traffic::Read | Traffic::Lease => {}
            }
            let ended = move || Self::forget(&pool, id);
            let connection = Connection::establish(stream, &self.options, tasks, ended).await?;
            Ok::<_, BoxError>((connection, generation))
        };
        let timed_out = |_| BoxError::from(io::Error::new(io::ErrorKind::TimedOut, "timed out"));
        let dialled = tokio::time::timeout(self.options.connect_timeout, attempt).await;
        let (connection, generation) =
            dialled.map_err(timed_out).flatten().map_err(|error| self.dial_error(error))?;
        tracing::debug!(server = %self.server, traffic = ?self.traffic, http2 = connection.is_http2(), "Connected");
        let mut state = self.state.lock();
        state.http1 = !connection.is_http2();
        state.members.push(Member { id, generation, connection: connection.clone() });
        Ok(connection)
    }

    fn forget(pool: &Weak<Self>, id: u64) {
        if let Some(pool) = pool.upgrade() {
            pool.state.lock().members.retain(|member| member.id != id);
        }
    }

    fn dial_error(&self, source: BoxError) -> Error {
        Error::Dial { server: self.server.clone(), source: source.into() }
    }

    /// The error for a server that closes connections before they are used.
    fn short_lived(&self) -> Error {
        let error = io::Error::new(
            io::ErrorKind::ConnectionReset,
            "the server closes connections before they are used",
        );
        self.dial_error(error.into())
    }
}
