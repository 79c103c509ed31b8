//! The connections to the API server: a pool of HTTP/2 connections for each class of [`Traffic`].
//!
//! A request takes a free stream on a connection of its class. If none is free, the pool opens another connection.
//! Pings detect half-open connections. The pool of batched watches reads from its connections at intervals, to handle
//! many events per wake-up. A pool retires connections that use an old client certificate after its rotation. The pool
//! of leases also retires a connection on which a caller gave up waiting for a response. For servers that do not
//! support HTTP/2 over TLS, the pools use HTTP/1.1, with one request at a time on each connection.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kube::client::{Body, ConfigExt};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, util::BoxCloneSyncService};

use crate::{
    service::{BaseService, RawBody},
    traffic::Traffic,
};
use pool::Pool;
use tasks::Tasks;
use tls::Tls;
use token::TokenFile;

mod connection;
mod failure;
mod http2;
mod pool;
mod socket;
mod tasks;
mod tls;
mod token;

/// The settings of connections. The defaults are client-go's if it has the same setting.
#[derive(Debug, Clone)]
pub struct Options {
    /// Deadline of one attempt to connect, with its handshakes. Default 30 s.
    pub connect_timeout: Duration,
    /// The client pings an HTTP/2 connection that has received nothing for this time. Default 30 s
    /// (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`).
    pub read_idle: Duration,
    /// The client closes a connection whose ping is not answered within this time. Default 15 s
    /// (`HTTP2_PING_TIMEOUT_SECONDS`).
    pub ping_timeout: Duration,
    /// Time between TCP keep-alive probes. Default 30 s.
    pub tcp_keepalive: Duration,
    /// The client closes a connection without requests after this time. Default 90 s.
    pub idle_timeout: Duration,
    /// Maximum number of streams on one connection. Default 80: the API server allows 100
    /// (`--http2-max-streams-per-connection`). If the server announces a lower limit, that one applies.
    pub streams_per_connection: u32,
    /// The duration of the leases that requests of [`Traffic::Lease`] renew. For this class, `connect_timeout`,
    /// `read_idle` and `ping_timeout` are lowered so that pings detect a half-open HTTP/2 connection within a third
    /// of this duration. A renewal over another connection is then still in time. Default 15 s, the lease of leader
    /// election (`--leader-elect-lease-duration`).
    pub lease_duration: Duration,
    /// How long a write that was handed to the kernel may stay unacknowledged by the server's kernel. The client's kernel then
    /// closes the connection and sends nothing of the write again. A leader whose network is cut sets this to the time from
    /// its renew deadline to the end of its lease, so that no write of its term arrives in the term of a successor. Linux
    /// only. Default 45 s, as on other connections.
    pub write_unacknowledged: Duration,
    /// How often the client checks certificate files for changes. It also reads them for each new connection, and when
    /// the server answers with 401. Default 5 min.
    pub certificate_poll: Duration,
    /// Paths of collections whose watches are [`Traffic::BatchedWatch`]. For collections with many events and consumers that
    /// tolerate a delay, such as `/apis/coordination.k8s.io/v1/leases`. Default: none.
    pub batched_watches: Vec<&'static str>,
    /// Minimum time between two reads from a connection of [`Traffic::BatchedWatch`]: the longest time by which an event is
    /// delayed. An event that arrives after a longer silence is not delayed. Default 200 ms.
    pub batch_interval: Duration,
    /// How long requests may continue on a retired connection. Watches end at once instead, since they lose nothing.
    /// Default 30 s.
    pub retirement: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            read_idle: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            tcp_keepalive: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(90),
            streams_per_connection: 80,
            lease_duration: Duration::from_secs(15),
            write_unacknowledged: Duration::from_secs(45),
            certificate_poll: Duration::from_secs(300),
            batched_watches: Vec::new(),
            batch_interval: Duration::from_millis(200),
            retirement: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// The options for connections of the class `traffic`.
    fn of(&self, traffic: Traffic) -> Self {
        match traffic {
            Traffic::Watch | Traffic::BatchedWatch | Traffic::Read | Traffic::Write => self.clone(),
            // By default a leader renews every 2 s, and a response within 3 s makes a ping unnecessary.
            Traffic::Lease => Self {
                connect_timeout: self.connect_timeout.min(self.lease_duration / 3),
                read_idle: self.read_idle.min(self.lease_duration / 5),
                ping_timeout: self.ping_timeout.min(self.lease_duration * 2 / 15),
                ..self.clone()
            },
        }
    }
}

/// Why there is no response.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The credentials or certificates are invalid. Found when clients are made: the user must fix the configuration.
    #[error("credentials can't be used: {0}")]
    Credentials(#[source] Arc<kube::Error>),
    /// The configuration names a proxy, which is not supported. Found when clients are made.
    #[error("can't connect through proxy {0}: only direct connections are supported")]
    Proxy(Uri),
    /// The connection could not be made, so nothing was sent. Try again later.
    #[error("can't connect to {server}: {}", with_causes(&**source))]
    Dial {
        /// Host and port.
        server: Arc<str>,
        /// The cause, shared by all requests that waited for this connection.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke after the request, or part of it, was sent. The server may have acted on it.
    #[error("connection lost before the answer: {0}")]
    Exchange(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The client was closed by [`Transport::close`]. Nothing was sent.
    #[error("the client has been closed")]
    Closed,
}

/// The error's text and those of its causes: the connector's own text does not say why it failed.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The pools and their maintenance task. Clones share them.
///
/// After the last clone is dropped, each connection ends when the last response body that reads from it is dropped.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
}

struct Shared {
    pools: Arc<Pools>,
    tasks: Tasks,
    batched_watches: Vec<&'static str>,
    /// Stops the maintenance task when dropped.
    _maintenance: DropGuard,
}

struct Pools {
    watch: Arc<Pool>,
    batched_watch: Arc<Pool>,
    read: Arc<Pool>,
    write: Arc<Pool>,
    lease: Arc<Pool>,
}

impl Shared {
    fn traffic(&self, request: &Request<Body>) -> Traffic {
        let path = request.uri().path();
        match Traffic::of(request) {
            // A kubeconfig's server URL may have a path prefix.
            Traffic::Watch if self.batched_watches.iter().any(|collection| path.ends_with(collection)) => {
                Traffic::BatchedWatch
            }
            traffic => traffic,
        }
    }
}

impl Pools {
    fn of(&self, traffic: Traffic) -> &Arc<Pool> {
        match traffic {
            Traffic::Watch => &self.watch,
            Traffic::BatchedWatch => &self.batched_watch,
            Traffic::Read => &self.read,
            Traffic::Write => &self.write,
            Traffic::Lease => &self.lease,
        }
    }

    fn all(&self) -> [&Arc<Pool>; 5] {
        [&self.watch, &self.batched_watch, &self.read, &self.write, &self.lease]
    }
}

impl Transport {
    /// Creates pools without connections.
    fn new(tls: Tls, options: Options) -> Self {
        let tasks = Tasks::new();
        let tls = Arc::new(tls);
        let pool = |traffic| Arc::new(Pool::new(traffic, tls.clone(), options.of(traffic), tasks.clone()));
        let pools = Arc::new(Pools {
            watch: pool(Traffic::Watch),
            batched_watch: pool(Traffic::BatchedWatch),
            read: pool(Traffic::Read),
            write: pool(Traffic::Write),
            lease: pool(Traffic::Lease),
        });
        let maintenance = CancellationToken::new();
        let (stop, maintained) = (maintenance.clone(), pools.clone());
        let batched_watches = options.batched_watches.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(maintain(maintained, tls, options)).await;
        });
        let shared = Shared { pools, tasks, batched_watches, _maintenance: maintenance.drop_guard() };
        Self { shared: Arc::new(shared) }
    }

    /// Closes all connections at once and waits until all tasks have ended. Later requests fail with
    /// [`Error::Closed`].
    pub async fn close(&self) {
        self.shared.tasks.close().await;
    }

    /// The number of open connections of a class.
    pub fn connections(&self, traffic: Traffic) -> usize {
        self.shared.pools.of(traffic).connections()
    }
}

/// Checks certificate files, retires connections with old certificates, and closes idle connections. Never ends.
async fn maintain(pools: Arc<Pools>, tls: Arc<Tls>, options: Options) {
    let mut generation = tls.generation();
    let mut poll = tokio::time::interval(options.certificate_poll);
    let mut sweep = tokio::time::interval(options.idle_timeout / 3);
    loop {
        tokio::select! {
            _ = poll.tick() => tls.refresh(),
            _ = sweep.tick() => pools.all().into_iter().for_each(|pool| pool.close_idle()),
            changed = generation.changed() => {
                if changed.is_err() {
                    return;
                }
                let current = *generation.borrow_and_update();
                pools.all().into_iter().for_each(|pool| pool.retire_before(current));
            }
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<RawBody>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<RawBody>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let pool = self.shared.pools.of(self.shared.traffic(&request)).clone();
        Box::pin(async move { pool.send(request).await })
    }
}

/// Creates the transport for the server of `config`, and the service over it that adds the address, the credentials
/// and the headers of the configuration to requests.
pub(crate) fn connect(config: kube::Config, options: Options) -> Result<(Transport, BaseService), Error> {
    if let Some(proxy) = &config.proxy_url {
        return Err(Error::Proxy(proxy.clone()));
    }
    let credentials = |error| Error::Credentials(Arc::new(error));
    let token = TokenFile::of(&config.auth_info).map_err(credentials)?;
    let mut others = config.clone();
    if token.is_some() {
        (others.auth_info.token, others.auth_info.token_file) = (None, None);
    }
    let headers = config.extra_headers_layer().map_err(credentials)?;
    let auth = others.auth_layer().map_err(credentials)?;
    let base = config.base_uri_layer();
    let transport = Transport::new(Tls::new(config, &options).map_err(credentials)?, options);

    let service = ServiceBuilder::new()
        .layer(base)
        .layer(headers)
        .option_layer(token.map(token::Layer::new))
        .service(transport.clone().map_err(BoxError::from));
    let service = match auth {
        Some(auth) => {
            BoxCloneSyncService::new(ServiceBuilder::new().layer(auth).service(service).map_err(Into::into))
        }
        None => BoxCloneSyncService::new(service),
    };
    Ok((transport, service))
}

#[cfg(test)]
mod tests;
