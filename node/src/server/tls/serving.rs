//! The certificate that the server shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::InconsistentKeys;
use rustls::crypto::ring::sign::any_supported_type;
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
    let key = any_supported_type(&key).map_err(|error| malformed(key_path, error.to_string()))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        // What can't be read of it, as one of version 1 can't, may be clear to those who are shown it.
        Err(rustls::Error::InvalidCertificate(_)) if has_public_key(&certified) => Ok(certified),
        Err(error) => Err(malformed(key_path, error.to_string())),
    }
}

/// Whether the certificate has the key's other half somewhere in it.
fn has_public_key(certified: &CertifiedKey) -> bool {
    let (Some(key), Some(certificate)) = (certified.key.public_key(), certified.cert.first()) else {
        return false;
    };
    certificate.windows(key.len()).any(|part| part == &*key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{V1_CERTIFICATE, V1_KEY};

    #[test]
    fn a_certificate_of_version_1_is_shown_as_any_other_with_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let load = |certificate: &str, key: &str| {
            let paths = ["crt", "key"].map(|name| folder.path().join(name));
            std::fs::write(&paths[0], certificate).unwrap();
            std::fs::write(&paths[1], key).unwrap();
            ServingCertificate::load(&paths[0], &paths[1]).map_err(|error| error.to_string())
        };
        load(V1_CERTIFICATE, V1_KEY).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["node-1".to_owned()]).unwrap();
        let (certificate, key) = (other.cert.pem(), other.signing_key.serialize_pem());
        load(&certificate, &key).unwrap();
        for (certificate, key) in [(V1_CERTIFICATE, &*key), (&certificate, V1_KEY)] {
            load(certificate, key).unwrap_err();
        }
    }
}
