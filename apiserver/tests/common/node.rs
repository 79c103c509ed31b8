//! A node's server as a test scripts it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Answers over TLS on the loopback until it is dropped.
///
/// An upgrade is agreed to, and from then on every byte comes back in upper case. What is asked of a path with `/code-<number>` in
/// it gets that code and `refused`; of one with `/slow`, first `one` and then, once [`go_on`](Self::go_on) was called, `two`;
/// all else an echo of the request's first line.
pub(crate) struct Node {
    port: u16,
    /// Its certificate, as PEM.
    pub(crate) certificate: String,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<String>>,
    go_on: Notify,
}

impl Node {
    /// One who takes requests from everybody.
    pub(crate) async fn start() -> Self {
        Self::with_authority(None).await
    }

    /// One who takes them only from who has a certificate of that authority (PEM), if one is given.
    pub(crate) async fn with_authority(authority: Option<&str>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match authority {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots
                    .add(rustls::pki_types::pem::PemObject::from_pem_slice(authority.as_bytes()).unwrap())
                    .unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            None => builder.with_no_client_auth(),
        };
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let der: CertificateDer<'static> = own.der().clone();
        let tls = builder
            .with_single_cert(vec![der], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (shared, mut tasks) = (Arc::new(Shared::default()), JoinSet::new());
        tasks.spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), Arc::clone(&shared)));
        Self { port, certificate: own.pem(), shared, _tasks: tasks }
    }

    /// A Node object of that name which says where it is.
    pub(crate) fn object(&self, name: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "Hostname", "address": "nowhere.invalid"}, {"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            },
        })
    }

    /// The heads of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().clone()
    }

    /// See [`Node`].
    pub(crate) fn go_on(&self) {
        self.shared.go_on.notify_one();
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            // One that breaks off is the test's business.
            let _ = serve(stream, tls, &shared).await;
        });
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, shared: &Shared) -> std::io::Result<()> {
    let mut stream = tls.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await?;
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    shared.asked.lock().push(head.clone());
    let line = head.lines().next().unwrap_or_default();
    let code = line.split("/code-").nth(1).and_then(|rest| rest.get(..3));
    let answer = match code {
        Some(code) => {
            format!("HTTP/1.1 {code} No\r\nLocation: /elsewhere\r\nContent-Length: 7\r\n\r\nrefused")
        }
        None if head.to_lowercase().contains("\r\nconnection: upgrade\r\n") => {
            stream
                .write_all(b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello ")
                .await?;
            let mut bytes = [0; 1024];
            loop {
                let read = stream.read(&mut bytes).await?;
                if read == 0 {
                    return stream.shutdown().await;
                }
                stream.write_all(&bytes[..read].to_ascii_uppercase()).await?;
            }
        }
        None if line.contains("/slow") => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").await?;
            shared.go_on.notified().await;
            "3\r\ntwo\r\n0\r\n\r\n".to_owned()
        }
        None => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}", line.len()),
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
