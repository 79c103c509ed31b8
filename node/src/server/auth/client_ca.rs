//! Users by their client certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::User;
use super::subject::subject;
use crate::server::Error;

/// Names the credential in reviews and audit logs.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The authorities whose client certificates are believed: a file of them, read again when it changes.
#[derive(Debug)]
pub struct ClientCa {
    path: PathBuf,
    verifier: RwLock<Arc<dyn ClientCertVerifier>>,
}

impl ClientCa {
    /// Those in the file at `path`, PEM. Blocks.
    ///
    /// # Errors
    /// The file can't be read, or has no certificate.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let verifier = RwLock::new(read(&path)?);
        Ok(Self { path, verifier })
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again; one that is no good leaves all as it was. Blocks.
    pub(in crate::server) fn reload(&self) -> Result<(), Error> {
        *self.verifier.write() = read(&self.path)?;
        Ok(())
    }

    /// Whose certificate it is, by its common name and organizations; `None` where it names nobody. The connection has
    /// shown that its key is there.
    pub(super) fn user(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<Option<User>, String> {
        // With each request, since certificates run out while connections last.
        let verifier = self.verifier.read().clone();
        verifier
            .verify_client_cert(certificate, intermediates, UnixTime::now())
            .map_err(|error| error.to_string())?;
        let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
        let subject = subject(parsed.subject()).ok_or("the subject can't be read")?;
        let Some(name) = subject.common_name else { return Ok(None) };
        let digest = digest(&SHA256, certificate);
        let id: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(User {
            name,
            uid: subject.uid.unwrap_or_default(),
            groups: subject.organizations,
            extra: vec![(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={id}")])],
        }))
    }
}

fn read(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let malformed = |message: String| Error::Malformed { path: path.to_owned(), message };
    let pem = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| malformed(error.to_string()))?;
        roots.add(certificate).map_err(|error| malformed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(malformed("no certificates".to_owned()));
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .build()
        .map_err(|error| malformed(error.to_string()))
}
