//! The server's side of TLS: its certificates, and clients' certificates before they are verified.

mod certificate;
mod cipher_suites;
mod clients;
mod key_exchanges;
mod self_signed;
mod server_names;

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion, version};

pub use certificate::ServingCertificate;
pub use cipher_suites::{CipherSuites, UnknownCipherSuite, suite as cipher_suite};
pub use key_exchanges::{InvalidKeyExchanges, KeyExchanges};
pub use self_signed::{SelfSigned, serving_certificate_files};
pub use server_names::{NamedCertificate, ServingCertificates};

use crate::error::Error;
use clients::AnyClient;

/// The oldest version of TLS that clients may use (`tlsMinVersion`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// `VersionTLS12`, the default.
    #[default]
    Tls12,
    /// `VersionTLS13`.
    Tls13,
}

/// The versions of HTTP that clients may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersions {
    /// HTTP/2 and HTTP/1.1, the default.
    #[default]
    All,
    /// HTTP/1.1 only (`--disable-http2-serving`).
    Http1,
}

/// The protocols that the server uses with its clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spoken {
    /// The oldest version of TLS.
    pub min_version: MinVersion,
    /// The cipher suites of TLS 1.2.
    pub cipher_suites: CipherSuites,
    /// The key exchange groups.
    pub key_exchanges: KeyExchanges,
    /// The versions of HTTP.
    pub http: HttpVersions,
}

static TLS12_AND_LATER: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
static TLS13_AND_LATER: [&SupportedProtocolVersion; 1] = [&version::TLS13];

impl MinVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls12 => &TLS12_AND_LATER,
            Self::Tls13 => &TLS13_AND_LATER,
        }
    }
}

impl HttpVersions {
    /// The versions as ALPN names them, the preferred one first.
    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Self::All => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Self::Http1 => vec![b"http/1.1".to_vec()],
        }
    }
}

/// The configuration of TLS with these certificates. Clients may show certificates of their own, which the server verifies
/// after the handshake.
///
/// # Errors
/// If the cipher suites do not suit the versions of TLS.
pub fn server_config(certificates: Arc<ServingCertificates>, spoken: &Spoken) -> Result<ServerConfig, Error> {
    let mut provider = default_provider();
    spoken.cipher_suites.restrict(&mut provider);
    spoken.key_exchanges.restrict(&mut provider);
    let provider = Arc::new(provider);
    let clients: Arc<dyn ClientCertVerifier> = Arc::new(AnyClient::new(provider.clone()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(spoken.min_version.versions())
        .map_err(Error::Tls)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(certificates);
    config.alpn_protocols = spoken.http.protocols();
    Ok(config)
}
