//! A serving certificate for a node that was given none.

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

use crate::server::Error;

/// The certificate and the key of a node without `tlsCertFile` and `tlsPrivateKeyFile`: `kubelet.crt` and `kubelet.key` in
/// `--cert-dir`. Where they are not there they are made: self-signed, for `host` (a name or an address), for a year. Blocks.
///
/// # Errors
/// There is a certificate without its key, or the files can't be made.
pub fn serving_certificate_files(folder: &Path, host: &str) -> Result<(PathBuf, PathBuf), Error> {
    let (certificate_path, key_path) = (folder.join("kubelet.crt"), folder.join("kubelet.key"));
    match (certificate_path.exists(), key_path.exists()) {
        (true, true) => return Ok((certificate_path, key_path)),
        (true, false) => {
            let message = "certificate and key must be supplied as a pair".to_owned();
            return Err(Error::Malformed { path: key_path, message });
        }
        // A key alone is what is left when the making broke off.
        (false, _) => {}
    }
    let (certificate, key) = generate(host, Timestamp::now()).map_err(Error::Generate)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
        .map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    for (path, pem, mode) in [(&key_path, key, 0o600), (&certificate_path, certificate, 0o644)] {
        write(path, &pem, mode).map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    Ok((certificate_path, key_path))
}

/// A certificate and its key, PEM.
fn generate(host: &str, now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("{host}@{}", now.as_second()));
    params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.to_zoned(TimeZone::UTC);
    let end = today.saturating_add(366.days());
    let number = |value: i8| u8::try_from(value).unwrap_or(1);
    params.not_before = date_time_ymd(today.year().into(), number(today.month()), number(today.day()));
    params.not_after = date_time_ymd(end.year().into(), number(end.month()), number(end.day()));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Whole or not at all.
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
    use crate::server::tls::ServingCertificate;

    #[test]
    fn a_pair_is_made_once_and_its_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let pki = folder.path().join("a/pki");
        let (certificate, key) = serving_certificate_files(&pki, "node-1").unwrap();
        assert_eq!((certificate.clone(), key.clone()), (pki.join("kubelet.crt"), pki.join("kubelet.key")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));
        ServingCertificate::load(&certificate, &key).unwrap();
        let first = fs::read(&certificate).unwrap();
        serving_certificate_files(&pki, "node-1").unwrap();
        assert_eq!(fs::read(&certificate).unwrap(), first);
    }

    #[test]
    fn a_key_alone_is_replaced_a_certificate_alone_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kubelet.key"), "half").unwrap();
        let (certificate, key) = serving_certificate_files(folder.path(), "10.0.0.1").unwrap();
        ServingCertificate::load(&certificate, &key).unwrap();
        fs::remove_file(key).unwrap();
        let error = serving_certificate_files(folder.path(), "10.0.0.1").unwrap_err();
        assert!(error.to_string().ends_with("must be supplied as a pair"), "{error}");
    }
}
