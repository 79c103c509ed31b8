//! Clients' certificates during the handshake.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

/// Maximum length of the chain that a client shows, its own certificate included. The number of paths that a verifier tries
/// grows with the factorial of that length if all names are the same.
const LONGEST_CHAIN: usize = 4;
/// Maximum size of that chain, in bytes: it stays in memory as long as the connection, and anybody may show one.
const LARGEST_CHAIN: usize = 16 * 1024;

/// Makes clients that show a certificate prove that they hold its key. The server verifies the certificate after the
/// handshake, so that a client with a certificate of another authority gets an answer, and is served if it has a token as
/// well. Only a chain that is too long or too large ends the handshake.
#[derive(Debug)]
pub(super) struct AnyClient {
    provider: Arc<CryptoProvider>,
}

impl AnyClient {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self { provider }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let length = intermediates.len() + 1;
        let size = intermediates.iter().fold(certificate.len(), |size, one| size + one.len());
        if length > LONGEST_CHAIN || size > LARGEST_CHAIN {
            return Err(rustls::Error::General(format!(
                "the client shows a chain of {length} certificates and {size} bytes, more than {LONGEST_CHAIN} or \
                 {LARGEST_CHAIN}"
            )));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
