//! Accepting connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::auth::ClientCa;
use super::connection::serve_connection;
use super::error::Error;
use super::service::{Parts, Server};
use super::strangers::Strangers;
use super::tls::{ServingCertificate, server_config};
use crate::blocking::blocking;

/// How often it is looked whether certificates have changed.
const LOOK: Duration = Duration::from_secs(60);
/// How long to wait when no connection can be accepted, such as for want of file descriptors.
const RETRY: Duration = Duration::from_millis(100);

/// Takes the address: `address` and `port` of the configuration, by default every one of the machine's, and 10250.
///
/// # Errors
/// It is taken, or not the machine's.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })
}

/// Serves until `stop`; then answers that are under way have a second.
///
/// # Errors
/// TLS can't be set up as asked. Nothing was served then.
pub async fn serve(listener: TcpListener, parts: Parts, stop: CancellationToken) -> Result<(), Error> {
    let acceptor = TlsAcceptor::from(Arc::new(server_config(parts.certificate.clone(), &parts.tls)?));
    let files = Files::new(parts.certificate, parts.auth.client_ca().cloned());
    let (slots, strangers) = (Arc::new(Semaphore::new(parts.max_connections)), Strangers::default());
    let server = Arc::new(Server {
        host: parts.host,
        runtime: parts.runtime,
        auth: parts.auth,
        metrics: parts.metrics,
        registry: parts.registry,
        probe_registry: parts.probe_registry,
        handlers: parts.handlers,
    });
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "Failed to accept a connection");
                    sleep(RETRY).await;
                    continue;
                }
            };
            while let Some(ended) = connections.try_join_next() {
                report(ended);
            }
            if slots.available_permits() == 0 {
                strangers.turn_one_away();
            }
            let slot = slots.clone().acquire_owned().await.expect("the semaphore must stay open");
            let activity = Activity::new();
            strangers.add(&activity, address.ip());
            let (server, acceptor) = (server.clone(), acceptor.clone());
            let serving = serve_connection(server, acceptor, stream, address, activity, stop.clone());
            connections.spawn(async move {
                serving.await;
                drop(slot);
            });
        }
    };
    let both = async { tokio::join!(accept, files.watch()).0 };
    let _: Option<Infallible> = stop.run_until_cancelled(both).await;
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
    Ok(())
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "A connection's task failed");
    }
}

/// The files that certificates come from, and what they were when they were read last.
struct Files {
    certificate: Arc<ServingCertificate>,
    certificate_seen: Stamps,
    client_ca: Option<Arc<ClientCa>>,
    client_ca_seen: Stamps,
}

/// What changes with a file: its inode, its length, and when it was written. `None` for one that is not there.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

impl Files {
    /// Both are read once more at the first look, since they may have changed since they were read.
    fn new(certificate: Arc<ServingCertificate>, client_ca: Option<Arc<ClientCa>>) -> Self {
        Self { certificate, certificate_seen: Vec::new(), client_ca, client_ca_seen: Vec::new() }
    }

    /// Looks now and then, for ever.
    async fn watch(mut self) -> Infallible {
        let mut ticks = interval(LOOK);
        loop {
            ticks.tick().await;
            let looking = blocking(move || {
                self.look();
                self
            });
            self = looking.await;
        }
    }

    /// Reads again what has changed. What is no good is read again until it is. Blocks.
    fn look(&mut self) {
        let [certificate, key] = self.certificate.paths();
        let now = vec![stamp(certificate), stamp(key)];
        reread("serving certificate", &mut self.certificate_seen, now, || self.certificate.reload());
        if let Some(client_ca) = &self.client_ca {
            let now = vec![stamp(client_ca.path())];
            reread("client CA bundle", &mut self.client_ca_seen, now, || client_ca.reload());
        }
    }
}

fn reread(what: &str, seen: &mut Stamps, now: Stamps, reload: impl FnOnce() -> Result<(), Error>) {
    if *seen == now {
        return;
    }
    match reload() {
        Ok(()) => {
            tracing::debug!(what, "Certificates were read");
            *seen = now;
        }
        Err(error) => {
            tracing::error!(what, %error, "Certificates can't be read again, and stay what they were");
        }
    }
}

fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}
