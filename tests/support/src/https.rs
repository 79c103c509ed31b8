//! A client of secure ports.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, NamedGroup, SignatureScheme};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that trusts any server.
#[derive(Clone, Default)]
pub struct Https {
    pub port: u16,
    /// The token that it sends.
    pub token: Option<String>,
    /// The certificate that it shows, and the key, PEM.
    pub identity: Option<(String, String)>,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// Whether its connections speak HTTP/2. Without effect on requests that it sends itself.
    pub http_2: bool,
    /// Whether it only uses TLS 1.2.
    pub old_tls: bool,
    /// The only key exchange that it uses.
    pub key_exchange: Option<NamedGroup>,
}

/// An answer: status, headers, text.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub text: String,
}

impl Https {
    pub fn at(port: u16) -> Self {
        Self { port, ..Self::default() }
    }

    pub fn token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    pub fn identity(&self, identity: &(String, String)) -> Self {
        Self { identity: Some(identity.clone()), ..self.clone() }
    }

    pub fn header(&self, name: &'static str, value: &str) -> Self {
        let mut this = self.clone();
        this.headers.push((name, value.to_owned()));
        this
    }

    /// A connection after its handshake.
    pub async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_as("localhost").await
    }

    /// A connection that asks for a server of this name.
    pub async fn connect_as(&self, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let versions = if self.old_tls { &[&TLS12][..] } else { &[&TLS13, &TLS12] };
        let mut provider = default_provider();
        provider.kx_groups.retain(|group| self.key_exchange.is_none_or(|only| group.name() == only));
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let mut config = match &self.identity {
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap);
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain.collect(), key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        if self.http_2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        self.try_send(method, path, body).await.unwrap_or_else(|| panic!("{method} {path} must be answered"))
    }

    /// The answer; `None` if the server does not listen, or closes the connection.
    pub async fn try_send(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let exchange = async {
            let stream = self.connect().await.ok()?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(connection);
            let mut request = http::Request::builder().method(method).uri(path).header("host", "localhost");
            for (name, value) in &self.headers {
                request = request.header(*name, value);
            }
            if let Some(token) = &self.token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
            let response = sender.send_request(request).await.ok()?;
            let (parts, body) = response.into_parts();
            let text = String::from_utf8(body.collect().await.ok()?.to_bytes().to_vec()).unwrap();
            Some(Answer { status: parts.status.as_u16(), headers: parts.headers, text })
        };
        tokio::time::timeout(PATIENCE, exchange).await.ok()?
    }
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
