//! Serving certificates for servers that were given none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::PrivateKeyDer;

use super::certificate::ServingCertificate;
use crate::error::Error;

/// The names of a self-signed certificate, which is valid for a year.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfSigned {
    /// The common name, to which `@` and the time are added.
    pub common_name: String,
    /// The names and addresses of the server.
    pub names: Vec<String>,
}

impl SelfSigned {
    /// A new certificate that is in no file.
    ///
    /// # Errors
    /// If a name is neither an address nor the name of a host.
    pub fn in_memory(&self) -> Result<ServingCertificate, Error> {
        let (certificate, key) = self.generate(Timestamp::now()).map_err(Error::Generate)?;
        let der = PrivateKeyDer::try_from(key.serialize_der()).expect("rcgen must write valid keys");
        ServingCertificate::from_der(vec![certificate.der().clone()], &der)
    }

    fn generate(&self, now: Timestamp) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
        let mut params = CertificateParams::new(self.names.clone())?;
        params.distinguished_name = DistinguishedName::new();
        let common_name = format!("{}@{}", self.common_name, now.as_second());
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let today = now.to_zoned(TimeZone::UTC);
        let end = today.saturating_add(366.days());
        let number = |value: i8| u8::try_from(value).unwrap_or(1);
        params.not_before = date_time_ymd(today.year().into(), number(today.month()), number(today.day()));
        params.not_after = date_time_ymd(end.year().into(), number(end.month()), number(end.day()));
        let key = KeyPair::generate()?;
        Ok((params.self_signed(&key)?, key))
    }
}

/// The paths of the certificate `PAIR.crt` and the key `PAIR.key` in `folder`. Writes both if they do not exist. Blocks.
///
/// # Errors
/// If there is a certificate without its key, or the files can't be written.
pub fn serving_certificate_files(
    folder: &Path,
    pair: &str,
    names: &SelfSigned,
) -> Result<(PathBuf, PathBuf), Error> {
    let path = |extension: &str| folder.join(format!("{pair}.{extension}"));
    let (certificate_path, key_path) = (path("crt"), path("key"));
    match (certificate_path.exists(), key_path.exists()) {
        (true, true) => return Ok((certificate_path, key_path)),
        (true, false) => {
            let message = "certificate and key must be supplied as a pair".to_owned();
            return Err(Error::Malformed { path: key_path, message });
        }
        // This function writes the key first, so a key without a certificate remains if it is interrupted.
        (false, _) => {}
    }
    let (certificate, key) = names.generate(Timestamp::now()).map_err(Error::Generate)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
        .map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    let pairs = [(&key_path, key.serialize_pem(), 0o600), (&certificate_path, certificate.pem(), 0o644)];
    for (path, pem, mode) in pairs {
        write(path, &pem, mode).map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    Ok((certificate_path, key_path))
}

/// Writes a file as a whole or not at all.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    if let Err(error) = fs::remove_file(&temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn files(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf), Error> {
        let names = SelfSigned { common_name: name.to_owned(), names: vec![name.to_owned()] };
        serving_certificate_files(folder, "kubelet", &names)
    }

    #[test]
    fn a_pair_is_made_once_and_its_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let pki = folder.path().join("a/pki");
        let (certificate, key) = files(&pki, "node-1").unwrap();
        assert_eq!((certificate.clone(), key.clone()), (pki.join("kubelet.crt"), pki.join("kubelet.key")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));
        ServingCertificate::load(&certificate, &key).unwrap();
        let first = fs::read(&certificate).unwrap();
        files(&pki, "node-1").unwrap();
        assert_eq!(fs::read(&certificate).unwrap(), first);
    }

    #[test]
    fn a_key_alone_is_replaced_a_certificate_alone_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kubelet.key"), "half").unwrap();
        let (certificate, key) = files(folder.path(), "10.0.0.1").unwrap();
        ServingCertificate::load(&certificate, &key).unwrap();
        fs::remove_file(key).unwrap();
        let error = files(folder.path(), "10.0.0.1").unwrap_err();
        assert!(error.to_string().ends_with("must be supplied as a pair"), "{error}");
    }
}
