//! The way to the API server: pools of HTTP/2 connections, one for each class of [`Traffic`].
//!
//! A request takes a free stream on a connection of its class. If none is free, the pool makes another connection.
//! Pings find half-open connections. A pool retires connections that were made with a certificate since rotated; the
//! pool of leases also retires a connection on which a caller gave up waiting for an answer. Servers that do not speak
//! HTTP/2 over TLS get HTTP/1.1, one request at a time on each connection.

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
mod pool;
mod tasks;
mod tls;
mod token;

/// How connections are made and kept. The defaults are client-go's where it has the notion.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long one attempt to connect may take, handshakes included. Default 30 s.
    pub connect_timeout: Duration,
    /// After this time without a byte received, an HTTP/2 connection is pinged. Default 30 s
    /// (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`).
    pub read_idle: Duration,
    /// A ping not answered within this time ends the connection. Default 15 s (`HTTP2_PING_TIMEOUT_SECONDS`).
    pub ping_timeout: Duration,
    /// Time between TCP keep-alive probes. Default 30 s.
    pub tcp_keepalive: Duration,
    /// A connection without a request for this long is closed. Default 90 s.
    pub idle_timeout: Duration,
    /// Streams open on one connection before another is made. Default 80: the API server allows 100
    /// (`--http2-max-streams-per-connection`), and what it announces below this number holds.
    pub streams_per_connection: u32,
    /// The duration of the leases that calls of [`Traffic::Lease`] renew. Pings find a half-open HTTP/2 connection of
    /// that class within a third of it, so that a renewal over another connection is still in time: for this class,
    /// lower limits replace `connect_timeout`, `read_idle` and `ping_timeout` if those are higher. Default 15 s, the
    /// lease of leader election (`--leader-elect-lease-duration`).
    pub lease_duration: Duration,
    /// How often files of certificates are looked at; they are read at each new connection, too. Default 5 min.
    pub certificate_poll: Duration,
    /// How long requests other than watches may go on over a connection that takes no new ones any more. Watches are
    /// cut at once: they lose nothing. Default 30 s.
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
            certificate_poll: Duration::from_secs(300),
            retirement: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// The options of the connections of `traffic`.
    fn of(&self, traffic: Traffic) -> Self {
        match traffic {
            Traffic::Watch | Traffic::Read | Traffic::Write => self.clone(),
            // By default a leader renews every 2 s, and an answer within 3 s makes a ping unnecessary.
            Traffic::Lease => Self {
                connect_timeout: self.connect_timeout.min(self.lease_duration / 3),
                read_idle: self.read_idle.min(self.lease_duration / 5),
                ping_timeout: self.ping_timeout.min(self.lease_duration * 2 / 15),
                ..self.clone()
            },
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Credentials or certificates can't be used. Found when clients are made: the configuration must be mended.
    #[error("credentials can't be used: {0}")]
    Credentials(#[source] Arc<kube::Error>),
    /// The way to the server is of a kind that is not supported. Found when clients are made.
    #[error("can't connect through proxy {0}: only direct connections are supported")]
    Proxy(Uri),
    /// No connection came about, so nothing was sent. Worth another try later.
    #[error("can't connect to {server}: {source}")]
    Dial {
        /// Host and port.
        server: Arc<str>,
        /// What went wrong; shared by all requests that waited for this connection.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The request was sent, at least in part, but no answer came: the server may have acted on it.
    #[error("connection lost before the answer: {0}")]
    Exchange(#[source] Arc<hyper::Error>),
    /// [`Transport::close`] came first. Nothing was sent.
    #[error("the client has been closed")]
    Closed,
}

/// The pools, and what looks after them. Clones share them.
///
/// When the last clone is gone, connections end as soon as the bodies still read from them are dropped.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
}

struct Shared {
    pools: Arc<Pools>,
    tasks: Tasks,
    /// Ends the task that looks after the pools.
    _maintenance: DropGuard,
}

struct Pools {
    watch: Arc<Pool>,
    read: Arc<Pool>,
    write: Arc<Pool>,
    lease: Arc<Pool>,
}

impl Pools {
    fn of(&self, traffic: Traffic) -> &Arc<Pool> {
        match traffic {
            Traffic::Watch => &self.watch,
            Traffic::Read => &self.read,
            Traffic::Write => &self.write,
            Traffic::Lease => &self.lease,
        }
    }

    fn all(&self) -> [&Arc<Pool>; 4] {
        [&self.watch, &self.read, &self.write, &self.lease]
    }
}

impl Transport {
    /// Pools without connections yet.
    fn new(tls: Tls, options: Options) -> Self {
        let tasks = Tasks::new();
        let tls = Arc::new(tls);
        let pool = |traffic| Arc::new(Pool::new(traffic, tls.clone(), options.of(traffic), tasks.clone()));
        let pools = Arc::new(Pools {
            watch: pool(Traffic::Watch),
            read: pool(Traffic::Read),
            write: pool(Traffic::Write),
            lease: pool(Traffic::Lease),
        });
        let maintenance = CancellationToken::new();
        let (stop, looked_after) = (maintenance.clone(), pools.clone());
        tasks.spawn(async move {
            stop.run_until_cancelled(look_after(looked_after, tls, options)).await;
        });
        Self { shared: Arc::new(Shared { pools, tasks, _maintenance: maintenance.drop_guard() }) }
    }

    /// Closes all connections at once and waits until no task is left. Later requests end with [`Error::Closed`].
    pub async fn close(&self) {
        self.shared.tasks.close().await;
    }

    /// How many connections of a class are open.
    pub fn connections(&self, traffic: Traffic) -> usize {
        self.shared.pools.of(traffic).connections()
    }
}

/// Looks at certificate files, retires connections made with old ones, and closes idle ones, for ever.
async fn look_after(pools: Arc<Pools>, tls: Arc<Tls>, options: Options) {
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
        let pool = self.shared.pools.of(Traffic::of(&request)).clone();
        Box::pin(async move { pool.send(request).await })
    }
}

/// The transport for the server of `config`, and over it the service that adds address, credentials and the
/// configuration's headers to requests.
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
