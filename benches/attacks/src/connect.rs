//! Connections to the server under attack.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{self, AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Error;

/// Something to read from and write to.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    /// Absent for plain HTTP.
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, plain: bool) -> Result<Self, Error> {
        let tls = if plain { None } else { Some(Arc::new(builder()?.with_no_client_auth())) };
        Ok(Self { address, tls })
    }

    /// The same server, shown a client certificate.
    pub(crate) fn with_certificate(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        Ok(Self { address: self.address, tls: Some(Arc::new(builder()?.with_client_auth_cert(chain, key)?)) })
    }

    /// The same server, spoken to in HTTP/2.
    pub(crate) fn with_http2(&self) -> Self {
        let mut tls = self.tls.as_deref().cloned();
        if let Some(tls) = &mut tls {
            tls.alpn_protocols = vec![b"h2".to_vec()];
        }
        Self { address: self.address, tls: tls.map(Arc::new) }
    }

    /// The value of the header `Host`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// `http` or `https`.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::from(self.address.ip());
        Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?))
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyServer(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier))
}

/// Takes any server's certificate: the server is on loopback, and nothing secret is sent to it.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
