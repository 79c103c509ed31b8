//! A certificate that the server shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::InconsistentKeys;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::GeneralName;

use crate::error::Error;
use crate::files::FromFiles;

/// A certificate with its key: from two files, which the server reads again when they change, or generated.
#[derive(Debug)]
pub struct ServingCertificate {
    files: Option<Pair>,
    current: RwLock<Arc<CertifiedKey>>,
}

/// The files of a certificate and its key.
#[derive(Debug)]
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl ServingCertificate {
    /// Reads the certificate and its key from these files, PEM. The certificate's chain follows it. Blocks.
    ///
    /// # Errors
    /// If a file can't be read, or the two don't belong together.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, Error> {
        let pair = Pair { certificate: certificate.into(), key: key.into() };
        let current = RwLock::new(Arc::new(pair.read()?));
        Ok(Self { files: Some(pair), current })
    }

    /// A certificate that is in no file, followed by its chain, and its key.
    ///
    /// # Errors
    /// If the key is of no supported kind.
    pub fn from_der(chain: Vec<CertificateDer<'static>>, key: &PrivateKeyDer<'_>) -> Result<Self, Error> {
        let key = any_supported_type(key).map_err(Error::Tls)?;
        Ok(Self { files: None, current: RwLock::new(Arc::new(CertifiedKey::new(chain, key))) })
    }

    /// The certificate and key as they are now.
    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().clone()
    }

    /// The names of hosts in the certificate: its common name if that is one, and its alternative names.
    pub(crate) fn names(&self) -> Vec<String> {
        let current = self.current();
        let parsed = current.cert.first().and_then(|one| x509_parser::parse_x509_certificate(one).ok());
        let Some((_, parsed)) = parsed else { return Vec::new() };
        let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let common = common.filter(|name| is_host_name(name)).map(str::to_owned);
        let alternative = parsed.subject_alternative_name().ok().flatten();
        let alternative = alternative.map(|names| names.value.general_names.clone()).unwrap_or_default();
        let alternative = alternative.into_iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_owned()),
            _ => None,
        });
        common.chain(alternative).collect()
    }
}

/// Whether a common name is the name of a host, possibly with a `*` for its first label, and no address.
fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let (Some(first), Some(last)) = (label.bytes().next(), label.bytes().last()) else { return false };
        inner(first) && inner(last) && label.bytes().all(|byte| inner(byte) || byte == b'-')
    };
    let host = name.strip_prefix("*.").unwrap_or(name);
    name == "*" || (host.parse::<std::net::IpAddr>().is_err() && host.split('.').all(label))
}

impl FromFiles for ServingCertificate {
    fn what(&self) -> &'static str {
        "serving certificate"
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().flat_map(|pair| [pair.certificate.clone(), pair.key.clone()]).collect()
    }

    fn reload(&self) -> Result<(), Error> {
        if let Some(pair) = &self.files {
            *self.current.write() = Arc::new(pair.read()?);
        }
        Ok(())
    }
}

impl Pair {
    fn read(&self) -> Result<CertifiedKey, Error> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source });
        let malformed = |path: &Path, message: String| Error::Malformed { path: path.to_owned(), message };
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let chain = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| malformed(&self.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(malformed(&self.certificate, "no certificates".to_owned()));
        }
        let key =
            PrivateKeyDer::from_pem_slice(&key).map_err(|error| malformed(&self.key, error.to_string()))?;
        let key = any_supported_type(&key).map_err(|error| malformed(&self.key, error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
            // rustls can't parse some certificates, such as those of version 1, which clients may accept.
            Err(rustls::Error::InvalidCertificate(_)) if has_public_key(&certified) => Ok(certified),
            Err(error) => Err(malformed(&self.key, error.to_string())),
        }
    }
}

/// Whether the certificate contains the public key that belongs to its key.
fn has_public_key(certified: &CertifiedKey) -> bool {
    let (Some(key), Some(certificate)) = (certified.key.public_key(), certified.cert.first()) else {
        return false;
    };
    certificate.windows(key.len()).any(|part| part == &*key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use steersman_testing::certificates::{V1_CERTIFICATE, V1_KEY};

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
        let loaded = load(&certificate, &key).unwrap();
        assert!(loaded.names().contains(&"node-1".to_owned()), "{:?}", loaded.names());
        for (certificate, key) in [(V1_CERTIFICATE, &*key), (&certificate, V1_KEY)] {
            load(certificate, key).unwrap_err();
        }
    }
}
