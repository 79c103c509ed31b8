//! TLS to containers, whose certificates nobody vouches for.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Takes any certificate: of any version, with any key, even one whose signatures nothing here can check. That the server
/// has the key is not asked either: as every key will do, whoever is in between would show its own.
#[derive(Debug)]
struct AnyCertificate;

/// What Go's client takes. Of these P-521 is known to servers alone.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
];

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

/// A client that believes any certificate, and offers no protocol over TLS by name.
pub(crate) fn client() -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring must have the default versions of TLS")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::sign::any_supported_type;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::server::{ClientHello, ResolvesServerCert};
    use rustls::sign::{CertifiedKey, Signer, SigningKey};
    use rustls::{ServerConfig, SignatureAlgorithm, SupportedProtocolVersion, version};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use steersman_testing::certificates::{V1_CERTIFICATE, V1_KEY};

    /// A server's key of a kind that nothing here has: what it signs is not looked at.
    #[derive(Debug)]
    struct P521;

    impl SigningKey for P521 {
        fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
            offered.contains(&self.scheme()).then(|| Box::new(Self) as Box<dyn Signer>)
        }

        fn algorithm(&self) -> SignatureAlgorithm {
            SignatureAlgorithm::ECDSA
        }
    }

    impl Signer for P521 {
        fn sign(&self, _message: &[u8]) -> Result<Vec<u8>, Error> {
            Ok(vec![1; 139])
        }

        fn scheme(&self) -> SignatureScheme {
            SignatureScheme::ECDSA_NISTP521_SHA512
        }
    }

    #[derive(Debug)]
    struct Shows(Arc<CertifiedKey>);

    impl ResolvesServerCert for Shows {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(Arc::clone(&self.0))
        }
    }

    async fn shakes_hands(
        version: &'static SupportedProtocolVersion,
        key: Arc<dyn SigningKey>,
    ) -> std::io::Result<()> {
        let certificate = CertificateDer::from_pem_slice(V1_CERTIFICATE.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Shows(Arc::new(CertifiedKey::new(vec![certificate], key)))));
        let (here, there) = tokio::io::duplex(1 << 16);
        let name = ServerName::try_from("10.0.0.1").unwrap();
        let connector = TlsConnector::from(Arc::new(client()));
        tokio::try_join!(connector.connect(name, here), TlsAcceptor::from(Arc::new(config)).accept(there))?;
        Ok(())
    }

    #[tokio::test]
    async fn certificates_of_any_version_and_with_any_key_will_do() {
        for version in [&version::TLS12, &version::TLS13] {
            let v1 = any_supported_type(&PrivateKeyDer::from_pem_slice(V1_KEY.as_bytes()).unwrap()).unwrap();
            shakes_hands(version, v1).await.unwrap();
            shakes_hands(version, Arc::new(P521)).await.unwrap();
        }
    }
}
