//! TLS of the server: its own certificate, and the authority whose client certificates count.

use std::sync::Arc;

use steersman_serving::auth::ClientCa;
use steersman_serving::tls::{ServingCertificate, ServingCertificates, Spoken, server_config};

use super::StartError;
use super::pki::Pki;
use crate::serve::Tls;

/// HTTP/2 and HTTP/1.1 with a certificate for these names. Clients may show certificates, which the server verifies for each
/// request: a client with a certificate of another authority is served if it has a token as well.
pub(super) fn tls(pki: &Pki, names: Vec<String>) -> Result<Tls, StartError> {
    let wrong = |error: steersman_serving::Error| StartError::Tls(error.to_string());
    let (chain, key) = pki.server(names)?;
    let certificate = ServingCertificate::from_der(chain, &key).map_err(wrong)?;
    let certificates = ServingCertificates::one(Arc::new(certificate));
    let config = server_config(Arc::new(certificates), &Spoken::default()).map_err(wrong)?;
    let client_ca = ClientCa::from_pem(pki.ca.as_bytes()).map_err(wrong)?;
    Ok(Tls { config: Arc::new(config), client_ca: Arc::new(client_ca) })
}
