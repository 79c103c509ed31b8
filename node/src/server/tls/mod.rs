//! The server's side of TLS: its certificate, and clients' certificates before they are verified.

mod cipher_suites;
mod clients;
mod self_signed;
mod serving;

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion, version};

pub use cipher_suites::{CipherSuites, UnknownCipherSuite, suite as cipher_suite};
pub use self_signed::serving_certificate_files;
pub use serving::ServingCertificate;

use super::Error;
use clients::AnyClient;

/// The oldest version that clients may speak (`tlsMinVersion`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// `VersionTLS12`, the default.
    #[default]
    Tls12,
    /// `VersionTLS13`.
    Tls13,
}

/// What the server speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spoken {
    /// From which version on.
    pub min_version: MinVersion,
    /// With which cipher suites.
    pub cipher_suites: CipherSuites,
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

/// TLS with that certificate. Clients may show certificates of their own, which are verified after the handshake; HTTP/2 and
/// HTTP/1.1 are offered.
pub(super) fn server_config(
    certificate: Arc<ServingCertificate>,
    spoken: &Spoken,
) -> Result<ServerConfig, Error> {
    let mut provider = default_provider();
    spoken.cipher_suites.restrict(&mut provider);
    let provider = Arc::new(provider);
    let clients: Arc<dyn ClientCertVerifier> = Arc::new(AnyClient::new(provider.clone()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(spoken.min_version.versions())
        .map_err(Error::Tls)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
