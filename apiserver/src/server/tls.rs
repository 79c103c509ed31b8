//! TLS: our own certificate, and clients' certificates of our own authority, which none must have.

use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::StartError;
use super::pki::Pki;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// HTTP/2 and HTTP/1.1 with a certificate for these names.
pub(super) fn config(pki: &Pki, names: Vec<String>) -> Result<Arc<ServerConfig>, StartError> {
    let wrong = |error: &dyn std::fmt::Display| StartError::Tls(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(pki.ca.as_bytes()).map_err(|error| wrong(&error))?;
    roots.add(ca).map_err(|error| wrong(&error))?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| wrong(&error))?;
    let (chain, key) = pki.server(names)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
