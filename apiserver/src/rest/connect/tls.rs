//! How this server makes itself known to nodes, and whether it looks at who they are.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::target::Certificates;
use crate::server::Pair;

/// Our certificate for nodes, or the authority for theirs, is not good.
#[derive(Debug, thiserror::Error)]
#[error("connections to nodes: {0}")]
pub struct OutboundError(String);

/// What connections that this server opens are made with.
#[derive(Clone)]
pub(crate) struct Outbound {
    node: Arc<ClientConfig>,
    node_unverified: Arc<ClientConfig>,
    anyone: Arc<ClientConfig>,
}

impl Outbound {
    /// With a certificate to show to nodes, if there is one, and the authority (PEM) that theirs must be of; without one they
    /// are not looked at.
    ///
    /// # Errors
    /// See [`OutboundError`].
    pub(crate) fn new(own: Option<&Pair>, node_authority: Option<&str>) -> Result<Self, OutboundError> {
        let node_unverified = config(own, None)?;
        let node = match node_authority {
            Some(authority) => config(own, Some(authority))?,
            None => Arc::clone(&node_unverified),
        };
        Ok(Self { node, node_unverified, anyone: config(None, None)? })
    }

    /// How to speak TLS; `None` for plain HTTP.
    pub(super) fn tls(&self, certificates: Certificates) -> Option<&Arc<ClientConfig>> {
        match certificates {
            Certificates::None => None,
            Certificates::Anyone => Some(&self.anyone),
            Certificates::Node => Some(&self.node),
            Certificates::NodeUnverified => Some(&self.node_unverified),
        }
    }
}

/// HTTP/1.1, which alone can be upgraded: no protocol is negotiated.
fn config(own: Option<&Pair>, authority: Option<&str>) -> Result<Arc<ClientConfig>, OutboundError> {
    fn wrong(error: impl std::fmt::Display) -> OutboundError {
        OutboundError(error.to_string())
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(wrong)?;
    let builder = match authority {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
                roots.add(certificate.map_err(wrong)?).map_err(wrong)?;
            }
            if roots.is_empty() {
                return Err(wrong("the authority for nodes has no certificate"));
            }
            builder.with_root_certificates(roots)
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    let config = match own {
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes()).collect::<Result<_, _>>();
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).map_err(wrong)?;
            builder.with_client_auth_cert(chain.map_err(wrong)?, key).map_err(wrong)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Accepts any certificate whose key the server has, whatever name it is for.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
