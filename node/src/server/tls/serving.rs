//! The certificate that the server shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::server::Error;

/// A certificate and its key from two files, read again when they change.
#[derive(Debug)]
pub struct ServingCertificate {
    certificate_path: PathBuf,
    key_path: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServingCertificate {
    /// Those in these files, PEM; the certificate's chain follows it. Blocks.
    ///
    /// # Errors
    /// They can't be read, or don't fit each other.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, Error> {
        let (certificate_path, key_path) = (certificate.into(), key.into());
        let current = RwLock::new(Arc::new(read(&certificate_path, &key_path)?));
        Ok(Self { certificate_path, key_path, current })
    }

    /// The two files.
    pub(in crate::server) fn paths(&self) -> [&Path; 2] {
        [&self.certificate_path, &self.key_path]
    }

    /// Reads the files again; such that are no good leave all as it was. Blocks.
    pub(in crate::server) fn reload(&self) -> Result<(), Error> {
        *self.current.write() = Arc::new(read(&self.certificate_path, &self.key_path)?);
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }
}

fn read(certificate_path: &Path, key_path: &Path) -> Result<CertifiedKey, Error> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source });
    let malformed = |path: &Path, message: String| Error::Malformed { path: path.to_owned(), message };
    let chain = CertificateDer::pem_slice_iter(&read(certificate_path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(certificate_path, error.to_string()))?;
    if chain.is_empty() {
        return Err(malformed(certificate_path, "no certificates".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(key_path)?)
        .map_err(|error| malformed(key_path, error.to_string()))?;
    CertifiedKey::from_der(chain, key, &default_provider())
        .map_err(|error| malformed(key_path, error.to_string()))
}
