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
use tokio::sync::{Mutex, Semaphore};

use super::client_certificates::{ClientCertificates, Outcome, Verdict};
use super::subject::subject;
use super::user::User;
use crate::blocking::blocking;
use crate::error::Error;
use crate::files::FromFiles;

/// Names the credential in reviews and audit logs.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Maximum number of concurrent verifications: the most processors that hostile certificates keep busy.
const AT_A_TIME: usize = 2;

/// Authorities whose client certificates are trusted: those in a file, which the server reads again when it changes, or those
/// that the cluster's settings name.
#[derive(Debug)]
pub struct ClientCa {
    path: Option<PathBuf>,
    /// `None` as long as there are no authorities.
    verifier: RwLock<Option<Arc<dyn ClientCertVerifier>>>,
    under_way: Arc<Semaphore>,
}

impl ClientCa {
    /// Reads the authorities from the file at `path`, PEM. Blocks.
    ///
    /// # Errors
    /// If the file can't be read, or has no certificate.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let verifier = read(&path)?;
        Ok(Self { path: Some(path), ..Self::with_verifier(verifier) })
    }

    /// Trusts the authorities in `pem`.
    ///
    /// # Errors
    /// If a certificate is invalid, or there is none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        parse(pem).map(Self::with_verifier).map_err(Error::Authorities)
    }

    /// Trusts the certificates that `verifier` accepts.
    pub fn with_verifier(verifier: Arc<dyn ClientCertVerifier>) -> Self {
        Self {
            path: None,
            verifier: RwLock::new(Some(verifier)),
            under_way: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// No authorities yet.
    pub(super) fn unknown() -> Self {
        Self { path: None, verifier: RwLock::default(), under_way: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Replaces the authorities by those in `pem`.
    ///
    /// # Errors
    /// If a certificate is invalid, or there is none. The authorities stay then.
    pub(super) fn set(&self, pem: &[u8]) -> Result<(), Error> {
        *self.verifier.write() = Some(parse(pem).map_err(Error::Authorities)?);
        Ok(())
    }

    /// Returns the user that the subject of a client's certificate names, without [the group of all
    /// users](User::authenticated), or `None` if the client showed no certificate, the subject has no common name or there are
    /// no authorities. The client has proved in its handshake that it holds the key.
    ///
    /// Call this for each request: the answer changes when a certificate expires. It is remembered until then.
    ///
    /// # Errors
    /// Why the certificates do not count.
    pub async fn user(&self, certificates: &ClientCertificates) -> Result<Option<User>, String> {
        let outcome = self.verified(&certificates.chain, &certificates.as_user).await;
        outcome.unwrap_or(Ok(None))
    }

    /// Returns the common name of a proxy's certificate, possibly empty, or `None` if there are no authorities.
    ///
    /// # Errors
    /// Why the certificates do not count.
    pub(super) async fn proxy(&self, certificates: &ClientCertificates) -> Result<Option<String>, String> {
        let outcome = self.verified(&certificates.chain, &certificates.as_proxy).await.transpose()?;
        Ok(outcome.map(|user| user.map_or_else(String::new, |user| user.name)))
    }

    /// Verifies the certificates of a connection on the first call, and again only once the verdict has expired or the
    /// authorities have changed. Verifying a hostile chain takes processor time, so that does not run on the threads that
    /// serve. Returns `None` if there are no authorities.
    async fn verified(
        &self,
        chain: &Arc<[CertificateDer<'static>]>,
        verdict: &Mutex<Option<Verdict>>,
    ) -> Option<Outcome> {
        // Other requests of the connection wait here for the same verdict.
        let mut verdict = verdict.lock().await;
        // After the wait, during which the authorities may have changed.
        let verifier = self.verifier.read().clone()?;
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.holds(&verifier, UnixTime::now())) {
            return Some(verdict.outcome.clone());
        }
        let turn = Arc::clone(&self.under_way).acquire_owned().await.expect("the semaphore must stay open");
        let chain = Arc::clone(chain);
        let verified = blocking(move || {
            let now = UnixTime::now();
            let verdict = Verdict::new(verify(&*verifier, &chain, now), verifier, &chain, now);
            // Here, since the work goes on when the connection ends.
            drop(turn);
            verdict
        });
        Some(verdict.insert(verified.await).outcome.clone())
    }
}

impl FromFiles for ClientCa {
    fn what(&self) -> &'static str {
        "client CA bundle"
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.path.iter().cloned().collect()
    }

    fn reload(&self) -> Result<(), Error> {
        if let Some(path) = &self.path {
            *self.verifier.write() = Some(read(path)?);
        }
        Ok(())
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
    let pem = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    parse(&pem).map_err(|message| Error::Malformed { path: path.to_owned(), message })
}

fn parse(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("no certificates".to_owned());
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .build()
        .map_err(|error| error.to_string())
}
