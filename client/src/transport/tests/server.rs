//! A small HTTPS server for tests, with certificates and a breakable network.

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::super::tasks::Tasks;

/// A folder that is removed after the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("steersman-transport-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A certificate authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for 127.0.0.1, and for a client.
    pub(super) fn issue(&self) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(super) fn server_config(&self, protocol: &str) -> Arc<ServerConfig> {
        use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
        let Identity { certificate, key } = self.issue();
        let mut clients = RootCertStore::empty();
        clients.add(self.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(clients.into()).allow_unauthenticated().build().unwrap();
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config =
            ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Arc::new(config)
    }
}

/// A connection as the server sees it.
#[derive(Debug, Default, Clone)]
pub(super) struct Served {
    /// The requested paths, in order.
    pub(super) paths: Vec<String>,
    /// The client's certificate.
    pub(super) client: Option<Vec<u8>>,
    pub(super) ended: bool,
}

/// The server's protocol.
#[derive(Debug, Clone, Copy)]
pub(super) enum Speaks {
    /// HTTP/2 with at most this many streams at once.
    Http2(u32),
    Http1,
}

/// A server that answers `/watch...` with a line and then nothing more, `/slow` when told to, `/refused` with 401, `/count` with
/// the length of the request's body, and all else with `ok`. It reads no other body.
///
/// It ends, with all its connections, when dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    config: Mutex<Arc<ServerConfig>>,
    speaks: Speaks,
    connections: Mutex<Vec<Served>>,
    /// Incremented to make existing connections refuse new requests by GOAWAY.
    goodbye: watch::Sender<u32>,
    /// Whether `/slow` answers.
    hurry: watch::Sender<bool>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    pub(super) async fn start(authority: &Authority, speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let protocol = if matches!(speaks, Speaks::Http1) { "http/1.1" } else { "h2" };
        let shared = Arc::new(Shared {
            config: Mutex::new(authority.server_config(protocol)),
            speaks,
            connections: Mutex::default(),
            goodbye: watch::Sender::new(0),
            hurry: watch::Sender::new(false),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        shared.tasks.spawn(stop.clone().run_until_cancelled_owned(accept(listener, shared.clone())));
        Self { address, shared, _stop: stop.drop_guard() }
    }

    pub(super) fn url(&self) -> http::Uri {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// The connections in the order in which they were opened.
    pub(super) fn connections(&self) -> Vec<Served> {
        self.shared.connections.lock().clone()
    }

    /// Serves new connections with a certificate of another authority.
    pub(super) fn certify(&self, authority: &Authority) {
        *self.shared.config.lock() = authority.server_config("h2");
    }

    /// Sends GOAWAY on all connections. Open streams continue.
    pub(super) fn say_goodbye(&self) {
        self.shared.goodbye.send_modify(|times| *times += 1);
    }

    /// Lets `/slow` answer.
    pub(super) fn hurry(&self) {
        self.shared.hurry.send_replace(true);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let connection = serve(tcp, shared.clone());
        shared.tasks.spawn(shared.stop.clone().run_until_cancelled_owned(connection));
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

async fn serve(tcp: TcpStream, shared: Arc<Shared>) {
    let config = shared.config.lock().clone();
    let Ok(tls) = TlsAcceptor::from(config).accept(tcp).await else { return };
    let client = tls.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec());
    let index = {
        let mut connections = shared.connections.lock();
        connections.push(Served { client, ..Served::default() });
        connections.len() - 1
    };
    let mut goodbye = shared.goodbye.subscribe();
    let answering = shared.clone();
    let service = service_fn(move |request| answer(answering.clone(), index, request));
    // The test ends connections on purpose.
    match shared.speaks {
        Speaks::Http1 => drop(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await,
        ),
        Speaks::Http2(streams) => {
            let tasks = Tasks::new();
            let mut connection = std::pin::pin!(
                hyper::server::conn::http2::Builder::new(tasks.clone())
                    .timer(TokioTimer::new())
                    .max_concurrent_streams(streams)
                    .serve_connection(TokioIo::new(tls), service)
            );
            tokio::select! {
                ended = &mut connection => drop(ended),
                _ = goodbye.changed() => {
                    connection.as_mut().graceful_shutdown();
                    drop(connection.await);
                }
            }
            tasks.close().await;
        }
    }
    shared.connections.lock()[index].ended = true;
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

async fn answer(shared: Arc<Shared>, index: usize, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    shared.connections.lock()[index].paths.push(path.clone());
    if path == "/slow" {
        shared.hurry.subscribe().wait_for(|hurry| *hurry).await.unwrap();
    }
    let line = match path.as_str() {
        "/count" => match request.into_body().collect().await {
            Ok(body) => format!("{}\n", body.to_bytes().len()),
            // The client has reset the stream and ignores the response.
            Err(_) => String::new(),
        },
        _ => "ok\n".to_owned(),
    };
    let line = stream::iter([Ok(http_body::Frame::data(line.into()))]);
    let mut answer = Response::new(if path.starts_with("/watch") {
        StreamBody::new(line.chain(stream::pending())).boxed_unsync()
    } else {
        StreamBody::new(line).boxed_unsync()
    });
    if path == "/refused" {
        *answer.status_mut() = http::StatusCode::UNAUTHORIZED;
    }
    Ok(answer)
}

/// A network link between client and server, which can stop passing bytes without closing connections.
pub(super) struct Wire {
    address: SocketAddr,
    frozen: watch::Sender<bool>,
    _stop: DropGuard,
}

impl Wire {
    pub(super) async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (to, stop, frozen) = (server.address, CancellationToken::new(), watch::Sender::new(false));
        let (tasks, cut, freeze) = (TaskTracker::new(), stop.clone(), frozen.clone());
        tasks.clone().spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut freeze = freeze.subscribe();
                // Only existing connections freeze.
                freeze.mark_unchanged();
                tasks.spawn(cut.clone().run_until_cancelled_owned(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        biased;
                        _ = freeze.changed() => std::future::pending().await,
                        // Either side broke the connection, as the test intends.
                        ended = copy_bidirectional(&mut near, &mut far) => drop(ended),
                    }
                }));
            }
        }));
        Self { address, frozen, _stop: stop.drop_guard() }
    }

    /// The server's address through the link.
    pub(super) fn url(&self) -> http::Uri {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// Stops existing connections from passing bytes. New connections work.
    pub(super) fn freeze(&self) {
        self.frozen.send_replace(true);
    }
}

/// Waits until `condition` holds, at most ten seconds.
pub(super) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "not within ten seconds: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The certificate as the server sees it.
pub(super) fn der(pem: &str) -> Option<Vec<u8>> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|der| der.to_vec())
}
