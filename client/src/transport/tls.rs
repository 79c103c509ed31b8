//! Opens connections, with the current certificates.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use kube::{
    Config,
    client::{ConfigExt, RustlsTlsError},
};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::{sync::watch, time::Instant};
use tower::{BoxError, ServiceExt};

use super::{
    Options,
    socket::{self, Socket},
};

/// The byte stream of a connection.
pub(super) type Stream = MaybeHttpsStream<TokioIo<Socket>>;

/// Makes the kernel close the connection, and discard what it holds of it, once sent bytes are not acknowledged for `time`.
///
/// # Errors
/// If the kernel refuses the option.
#[cfg(target_os = "linux")]
pub(super) fn limit_unacknowledged(stream: &Stream, time: Duration) -> io::Result<()> {
    let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(socket(stream).tcp(), milliseconds)?)
}

/// Does nothing: only Linux has such an option.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub(super) fn limit_unacknowledged(_: &Stream, _: Duration) -> io::Result<()> {
    Ok(())
}

fn socket(stream: &Stream) -> &Socket {
    match stream {
        MaybeHttpsStream::Http(plain) => plain.inner(),
        MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner(),
    }
}

/// The time of the stream's last read. The socket updates it.
pub(super) fn last_read(stream: &Stream) -> Arc<Mutex<Instant>> {
    socket(stream).last_read()
}

/// Calls [`Socket::pause_between_reads`]. The caller must have finished the TLS handshake, or its messages would be delayed.
pub(super) fn pause_between_reads(stream: &mut Stream, length: Duration) {
    let socket = match stream {
        MaybeHttpsStream::Http(plain) => plain.inner_mut(),
        MaybeHttpsStream::Https(tls) => tls.inner_mut().get_mut().0.inner_mut().inner_mut(),
    };
    socket.pause_between_reads(length);
}

/// Opens connections with the client certificate, key and certificate authorities of the configuration.
///
/// Reads their files again for each new connection, at each [`refresh`](Tls::refresh), and when the server
/// [refuses](Tls::refused) the client. If that fails, for instance
/// because a new certificate's key is not written yet, the last good ones stay in use. A change of the certificate or
/// key starts a new generation. The pools then retire older connections, on which the server still sees the old
/// identity. A change of the authorities starts no generation, since existing connections have been verified.
pub(super) struct Tls {
    config: Config,
    sockets: socket::Connector,
    current: Mutex<Current>,
    generation: watch::Sender<u64>,
    /// When the server's last refusal led to a refresh.
    refused: Mutex<Option<Instant>>,
}

/// Shortest time between two refreshes because of refusals: a server may refuse every request.
const REFUSAL_PERIOD: Duration = Duration::from_secs(1);

struct Current {
    connector: Connector,
    files: Files,
}

#[derive(Clone)]
enum Connector {
    Plain(socket::Connector),
    Tls(HttpsConnector<socket::Connector>),
}

/// The contents of the files that a [`Connector`] is made from. Contents are compared because modification times are
/// unreliable and the files are small.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    authorities: Option<Vec<u8>>,
}

impl Files {
    fn read(config: &Config) -> io::Result<Self> {
        let read = |path: Option<PathBuf>| {
            let named = |path: &PathBuf, error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            path.map(|path| std::fs::read(&path).map_err(|error| named(&path, error))).transpose()
        };
        let file = |data: bool, path: &Option<String>| path.as_ref().filter(|_| !data).map(PathBuf::from);
        let auth = &config.auth_info;
        Ok(Self {
            certificate: read(file(auth.client_certificate_data.is_some(), &auth.client_certificate))?,
            key: read(file(auth.client_key_data.is_some(), &auth.client_key))?,
            authorities: read(config.root_cert_file.clone())?,
        })
    }

    fn same_identity(&self, other: &Self) -> bool {
        self.certificate == other.certificate && self.key == other.key
    }
}

impl Tls {
    pub(super) fn new(config: Config, options: &Options) -> kube::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(options.tcp_keepalive));
        http.set_keepalive_interval(Some(options.tcp_keepalive));
        // HTTP/1.1 has no pings: there, the kernel must notice that what was sent is not acknowledged.
        #[cfg(target_os = "linux")]
        http.set_tcp_user_timeout(Some(options.read_idle + options.ping_timeout));
        let files = Files::read(&config).map_err(|error| kube::Error::Service(error.into()))?;
        let sockets = socket::Connector(http);
        let connector = connector(&config, &sockets)?;
        Ok(Self {
            config,
            sockets,
            current: Mutex::new(Current { connector, files }),
            generation: watch::Sender::new(0),
            refused: Mutex::default(),
        })
    }

    /// Records that the server answered with 401. The client's certificate may have expired, and its renewal may be in
    /// the file already.
    pub(super) fn refused(&self) {
        let Some(mut refused) = self.refused.try_lock() else { return };
        if refused.is_none_or(|last| last.elapsed() >= REFUSAL_PERIOD) {
            *refused = Some(Instant::now());
            self.refresh();
        }
    }

    /// Reads the files again, and uses them if they have changed.
    pub(super) fn refresh(&self) {
        let mut current = self.current.lock();
        let files = match Files::read(&self.config) {
            Ok(files) if files == current.files => return,
            Ok(files) => files,
            Err(error) => {
                return tracing::warn!(%error, "Certificates can't be read, keeping the last good ones");
            }
        };
        match connector(&self.config, &self.sockets) {
            Ok(connector) => {
                let rotated = !files.same_identity(&current.files);
                *current = Current { connector, files };
                if rotated {
                    tracing::info!("Client certificate changed, replacing connections");
                    self.generation.send_modify(|generation| *generation += 1);
                }
            }
            Err(error) => tracing::warn!(%error, "Certificates can't be used, keeping the last good ones"),
        }
    }

    /// The current generation, and notification of the next ones.
    pub(super) fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Connects to the configured server. Also returns the generation of the certificates.
    pub(super) async fn dial(&self) -> Result<(Stream, u64), BoxError> {
        self.refresh();
        let (connector, generation) = {
            let current = self.current.lock();
            (current.connector.clone(), *self.generation.borrow())
        };
        let server = self.config.cluster_url.clone();
        let stream = match connector {
            Connector::Plain(sockets) => MaybeHttpsStream::Http(sockets.oneshot(server).await?),
            Connector::Tls(https) => https.oneshot(server).await?,
        };
        Ok((stream, generation))
    }

    /// Host and port of the server.
    pub(super) fn server(&self) -> Arc<str> {
        self.config.cluster_url.authority().map_or("", |authority| authority.as_str()).into()
    }
}

fn connector(config: &Config, sockets: &socket::Connector) -> kube::Result<Connector> {
    if config.cluster_url.scheme_str() != Some("https") {
        return Ok(Connector::Plain(sockets.clone()));
    }
    // Reads the files, and runs a credential plugin if one is configured.
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|error| kube::Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(Connector::Tls(builder.enable_http1().enable_http2().wrap_connector(sockets.clone())))
}
