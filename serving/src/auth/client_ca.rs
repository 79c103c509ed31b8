//! Users by their client certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::{Mutex, Semaphore};

use super::authorities::Authorities;
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
    authorities: RwLock<Option<Authorities>>,
    under_way: Arc<Semaphore>,
}

impl ClientCa {
    /// Reads the authorities from the file at `path`, PEM. Blocks.
    ///
    /// # Errors
    /// If the file can't be read, or has no certificate.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let authorities = read(&path)?;
        Ok(Self { path: Some(path), ..Self::with(authorities) })
    }

    /// Trusts the authorities in `pem`.
    ///
    /// # Errors
    /// If a certificate is invalid, or there is none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        parse(pem).map(Self::with).map_err(Error::Authorities)
    }

    /// Trusts the certificates that `verifier` accepts.
    pub fn with_verifier(verifier: Arc<dyn ClientCertVerifier>) -> Self {
        Self::with(Authorities::with_verifier(verifier))
    }

    fn with(authorities: Authorities) -> Self {
        Self { authorities: RwLock::new(Some(authorities)), ..Self::unknown() }
    }

    /// No authorities yet.
    pub(super) fn unknown() -> Self {
        Self { path: None, authorities: RwLock::default(), under_way: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Replaces the authorities by those in `pem`.
    ///
    /// # Errors
    /// If a certificate is invalid, or there is none. The authorities stay then.
    pub(super) fn set(&self, pem: &[u8]) -> Result<(), Error> {
        *self.authorities.write() = Some(parse(pem).map_err(Error::Authorities)?);
        Ok(())
    }

    /// Returns the user that the subject of a client's certificate names, without [the group of all
    /// users](User::authenticated), or `None` if the client showed no certificate, the subject has no common name or there are
    /// no authorities. The client has proved in its handshake that it holds the key.
    ///
    /// Call this for each request: the answer changes when a certificate expires, be it the client's or an authority's. It is
    /// remembered until then.
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
    /// authorities have changed, as they do when one of them expires. Verifying a hostile chain takes processor time, so that
    /// does not run on the threads that serve. Returns `None` if there are no authorities.
    async fn verified(
        &self,
        chain: &Arc<[CertificateDer<'static>]>,
        verdict: &Mutex<Option<Verdict>>,
    ) -> Option<Outcome> {
        // Other requests of the connection wait here for the same verdict.
        let mut verdict = verdict.lock().await;
        // After the wait, during which the authorities may have changed.
        let verifier = self.verifier(UnixTime::now())?;
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

    /// Trusts the authorities that are valid at `now`. `None` if there are no authorities.
    fn verifier(&self, now: UnixTime) -> Option<Arc<dyn ClientCertVerifier>> {
        let current = self.authorities.read().as_ref()?.verifier_at(now);
        if current.is_some() {
            return current;
        }
        let mut authorities = self.authorities.write();
        let authorities = authorities.as_mut()?;
        // Another request may have been first.
        if authorities.verifier_at(now).is_none() {
            authorities.renew(now);
        }
        authorities.verifier_at(now)
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
            *self.authorities.write() = Some(read(path)?);
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

fn read(path: &Path) -> Result<Authorities, Error> {
    let pem = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    parse(&pem).map_err(|message| Error::Malformed { path: path.to_owned(), message })
}

fn parse(pem: &[u8]) -> Result<Authorities, String> {
    Authorities::parse(pem, UnixTime::now())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, Issuer, KeyPair, date_time_ymd};

    use super::*;

    #[tokio::test]
    async fn certificates_of_an_authority_that_has_expired_do_not_count() {
        for (year, counts) in [(2020, false), (2090, true)] {
            let mut params = CertificateParams::default();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.not_after = date_time_ymd(year, 1, 1);
            let key = KeyPair::generate().unwrap();
            let client_ca = ClientCa::from_pem(params.self_signed(&key).unwrap().pem().as_bytes()).unwrap();
            let issuer = Issuer::new(params, key);
            let mut params = CertificateParams::default();
            params.distinguished_name.push(rcgen::DnType::CommonName, "alice");
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            let client = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
            let shown = ClientCertificates::new(&[client.der().clone()]);
            assert_eq!(client_ca.user(&shown).await.is_ok(), counts, "{year}");
        }
    }
}
