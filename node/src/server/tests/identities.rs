//! Certificates.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, SignatureScheme};

/// One who signs clients' certificates.
pub(super) struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(super) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, certificate) = (certificate.pem(), certificate.der().clone());
        Self { certificate, pem, issuer: Issuer::new(params, key) }
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's own certificate, which all authorities of these tests have under the same name.
    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The certificate of a user in one group.
    pub(super) fn client(&self, name: &str, group: &str) -> Identity {
        self.sign(name, group, |_| {})
    }

    /// One that is no good any more.
    pub(super) fn expired(&self, name: &str) -> Identity {
        self.sign(name, "", |params| params.not_after = date_time_ymd(2000, 1, 1))
    }

    /// One for servers.
    pub(super) fn server(&self, name: &str) -> Identity {
        self.sign(name, "", |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    fn sign(&self, name: &str, group: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// A client that believes any server; with a certificate of its own or without.
pub(super) fn client_config(identity: Option<Identity>) -> ClientConfig {
    match identity {
        Some((certificate, key)) => client_config_with_chain(vec![certificate], key),
        None => any_server().with_no_client_auth(),
    }
}

/// A client that believes any server and shows a chain of certificates, its own first.
pub(super) fn client_config_with_chain(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> ClientConfig {
    any_server().with_client_auth_cert(chain, key).unwrap()
}

fn any_server() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
