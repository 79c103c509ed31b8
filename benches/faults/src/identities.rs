//! The proxy's certificates, and those that it issues to its client.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::Error;

/// A certificate authority, the two certificates of the server, and the client's certificate of the day.
pub(crate) struct Identities {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
    client_key: KeyPair,
    /// The client certificate that is accepted, if there is one.
    client: Mutex<Option<CertificateDer<'static>>>,
    valid: Arc<ServerConfig>,
    expired: Arc<ServerConfig>,
}

impl Identities {
    /// Makes all of them, and writes `ca.crt`, `client.key`, `client.crt` and a kubeconfig for `server` into `folder`.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn make(folder: &Path, server: &str) -> Result<Self, Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "faults");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let (valid, expired) = (serving(&authority, 2096)?, serving(&authority, 2001)?);
        let client_key = KeyPair::generate()?;
        let folder = folder.to_owned();
        let identities = Self { folder, authority, client_key, client: Mutex::default(), valid, expired };
        identities.write("ca.crt", &identities.authority.pem())?;
        identities.write("client.key", &identities.client_key.serialize_pem())?;
        identities.issue()?;
        let path = |name: &str| identities.folder.join(name).display().to_string();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "sick",
            "clusters": [{"name": "sick", "cluster": {"server": server, "certificate-authority": path("ca.crt")}}],
            "users": [{
                "name": "sick",
                "user": {"client-certificate": path("client.crt"), "client-key": path("client.key")},
            }],
            "contexts": [{"name": "sick", "context": {"cluster": "sick", "user": "sick"}}],
        });
        identities.write("kubeconfig", &kubeconfig.to_string())?;
        Ok(identities)
    }

    /// Issues a new client certificate. From now on, it is the only one that is accepted.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn issue(&self) -> Result<(), Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "manager");
        let certificate = params.signed_by(&self.client_key, &self.authority)?;
        *self.client.lock() = Some(certificate.der().clone());
        self.write("client.crt", &certificate.pem())
    }

    /// Accepts no client certificate that was issued until now.
    pub(crate) fn expire_client(&self) {
        *self.client.lock() = None;
    }

    /// Whether this client certificate is accepted.
    pub(crate) fn is_valid(&self, certificate: Option<&CertificateDer<'_>>) -> bool {
        certificate.is_some_and(|certificate| self.client.lock().as_ref() == Some(certificate))
    }

    /// How the server presents itself with a valid certificate.
    pub(crate) fn valid(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.valid)
    }

    /// How the server presents itself with an expired certificate.
    pub(crate) fn expired(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.expired)
    }

    /// Replaces a file at once, so that no reader sees half of it.
    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (new, path) = (self.folder.join(format!("{name}.new")), self.folder.join(name));
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| Error::Write { path, source })
    }
}

/// The server's configuration with a certificate for 127.0.0.1 that is valid until this year.
fn serving(authority: &CertifiedIssuer<'static, KeyPair>, until: i32) -> Result<Arc<ServerConfig>, Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    params.not_after = date_time_ymd(until, 1, 1);
    let certificate = params.signed_by(&key, authority)?;
    let mut clients = RootCertStore::empty();
    clients.add(authority.der().clone())?;
    let verifier = WebPkiClientVerifier::builder(clients.into()).allow_unauthenticated().build()?;
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], private.into())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
