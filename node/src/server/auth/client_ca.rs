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
use tokio::sync::Semaphore;

use super::User;
use super::client_certificates::{ClientCertificates, Outcome, Verdict};
use super::subject::subject;
use crate::blocking::blocking;
use crate::server::Error;

/// Names the credential in reviews and audit logs.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Maximum number of verifications at a time: certificates keep no more processors busy, however many clients show some.
const AT_A_TIME: usize = 2;

/// The authorities whose client certificates are trusted: a file of them, which the server reads again when it changes.
#[derive(Debug)]
pub struct ClientCa {
    path: PathBuf,
    verifier: RwLock<Arc<dyn ClientCertVerifier>>,
    under_way: Arc<Semaphore>,
}

impl ClientCa {
    /// Reads the authorities from the file at `path`, PEM. Blocks.
    ///
    /// # Errors
    /// The file can't be read, or has no certificate.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let verifier = RwLock::new(read(&path)?);
        Ok(Self { path, verifier, under_way: Arc::new(Semaphore::new(AT_A_TIME)) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again. An invalid file changes nothing. Blocks.
    pub(in crate::server) fn reload(&self) -> Result<(), Error> {
        *self.verifier.write() = read(&self.path)?;
        Ok(())
    }

    #[cfg(test)]
    pub(in crate::server) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier.read().clone()
    }

    #[cfg(test)]
    pub(in crate::server) fn set_verifier(&self, verifier: Arc<dyn ClientCertVerifier>) {
        *self.verifier.write() = verifier;
    }

    /// Returns the user that the subject of a client's certificate names, or `None` if the subject has no common name.
    /// The client has proved in its handshake that it holds the key.
    ///
    /// Verifies the certificates on the first call for a connection, and again only once the verdict has expired or the
    /// authorities have changed. Verifying a hostile chain takes processor time, so that does not run on the agent's
    /// threads.
    ///
    /// # Errors
    /// Why the certificates do not count.
    pub(super) async fn user(&self, certificates: &ClientCertificates) -> Outcome {
        // Other requests of the connection wait here for the same verdict.
        let mut verdict = certificates.verdict.lock().await;
        // After the wait, during which the authorities may have changed.
        let verifier = self.verifier.read().clone();
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.holds(&verifier, UnixTime::now())) {
            return verdict.outcome.clone();
        }
        let turn = Arc::clone(&self.under_way).acquire_owned().await.expect("the semaphore must stay open");
        let chain = Arc::clone(&certificates.chain);
        let verified = blocking(move || {
            let now = UnixTime::now();
            let verdict = Verdict::new(verify(&*verifier, &chain, now), verifier, &chain, now);
            // Here, since the work goes on when the connection ends.
            drop(turn);
            verdict
        });
        verdict.insert(verified.await).outcome.clone()
    }
}

/// Verifies a chain, the client's own certificate first.
fn verify(verifier: &dyn ClientCertVerifier, chain: &[CertificateDer<'_>], now: UnixTime) -> Outcome {
    let [certificate, intermediates @ ..] = chain else { return Ok(None) };
    verifier.verify_client_cert(certificate, intermediates, now).map_err(|error| error.to_string())?;
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
