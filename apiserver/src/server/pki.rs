//! Keys and certificates of a server that makes its own: in `pki/` of the data folder.
//!
//! | file | what it is |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority; made at the first start, good for ten years |
//! | `admin.crt`, `admin.key`, `admin.token` | of the administrator |
//! | `apiserver-kubelet-client.crt`, `apiserver-kubelet-client.key` | by which nodes know the server |
//! | `sa.key` | signs the tokens of service accounts |
//!
//! The server's own certificate is made at each start and stays in memory. All files have mode 0600.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use steersman_api::Uid;

/// How long the authority and what it signs are good for.
const YEARS: i64 = 10;

/// Why keys and certificates can't be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file holds something else than it should.
    #[error("{}: {source}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: rcgen::Error,
    },
    /// A certificate can't be made.
    #[error("making a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The key for tokens is of another kind.
    #[error(transparent)]
    Key(#[from] crate::access::KeyError),
}

/// A certificate with its key, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// The authority of one data folder.
pub(crate) struct Pki {
    folder: PathBuf,
    /// Its certificate as PEM.
    pub(crate) ca: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// That of the data folder; made where there is none yet.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(crate) fn open(data: &Path) -> Result<Self, PkiError> {
        let folder = data.join("pki");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| PkiError::File { path: folder.clone(), source })?;
        sync_parent(&folder)?;
        let [certificate, key] = authority_files(&folder);
        if !key.exists() {
            let made = authority()?;
            // The key goes last: an authority without it is made anew.
            write(&certificate, &made.certificate)?;
            write(&key, &made.key)?;
        }
        let (ca, key_pem) = (read(&certificate)?, read(&key)?);
        let signing = KeyPair::from_pem(&key_pem);
        let signing = signing.map_err(|source| PkiError::Content { path: key, source })?;
        // What it signs with is its name and its key, and the name never changes.
        let issuer = Issuer::new(authority_params(), signing);
        Ok(Self { folder, ca, issuer })
    }

    /// The files of the authority's certificate and of its key.
    pub(crate) fn authority_files(&self) -> [PathBuf; 2] {
        authority_files(&self.folder)
    }

    /// A server's certificate for these names and addresses, in the form of TLS.
    ///
    /// # Errors
    /// A name is none.
    pub(crate) fn server(
        &self,
        names: Vec<String>,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), PkiError> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = self.signed(params)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((vec![certificate.der().clone()], key.into()))
    }

    /// A client's certificate for a user with groups; made once, and then kept under `name`.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(crate) fn client(&self, name: &str, user: &str, groups: &[&str]) -> Result<Pair, PkiError> {
        let certificate_path = self.folder.join(format!("{name}.crt"));
        let key_path = self.folder.join(format!("{name}.key"));
        if !key_path.exists() {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, user);
            for group in groups {
                params.distinguished_name.push(DnType::OrganizationName, *group);
            }
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let (certificate, key) = self.signed(params)?;
            write(&certificate_path, &certificate.pem())?;
            write(&key_path, &key.serialize_pem())?;
        }
        Ok(Pair { certificate: read(&certificate_path)?, key: read(&key_path)? })
    }

    /// The administrator's token; made once.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(crate) fn admin_token(&self) -> Result<String, PkiError> {
        let path = self.folder.join("admin.token");
        if !path.exists() {
            // Two random uids: 244 random bits.
            let text = format!("{}{}", Uid::random(), Uid::random()).replace('-', "");
            write(&path, &text)?;
        }
        Ok(read(&path)?.trim().to_owned())
    }

    /// The key that signs the tokens of service accounts, as PKCS#8; made once.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(crate) fn token_key(&self) -> Result<Vec<u8>, PkiError> {
        let path = self.token_key_file();
        if !path.exists() {
            write(&path, &KeyPair::generate()?.serialize_pem())?;
        }
        let key = KeyPair::from_pem(&read(&path)?);
        Ok(key.map_err(|source| PkiError::Content { path, source })?.serialize_der())
    }

    /// The file with that key.
    pub(crate) fn token_key_file(&self) -> PathBuf {
        self.folder.join("sa.key")
    }

    fn signed(&self, mut params: CertificateParams) -> Result<(Certificate, KeyPair), PkiError> {
        lasting(&mut params);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

fn authority_files(folder: &Path) -> [PathBuf; 2] {
    ["ca.crt", "ca.key"].map(|name| folder.join(name))
}

/// A new authority.
fn authority() -> Result<Pair, PkiError> {
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: authority_params().self_signed(&key)?.pem(), key: key.serialize_pem() })
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "steersman-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    lasting(&mut params);
    params
}

/// Good from yesterday, for clocks that are behind.
fn lasting(params: &mut CertificateParams) {
    let now = jiff::Timestamp::now();
    let at = |seconds: i64| {
        let at = jiff::Timestamp::from_second(now.as_second() + seconds).unwrap_or(now);
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        rcgen::date_time_ymd(
            date.year().into(),
            u8::try_from(date.month()).unwrap_or(1),
            u8::try_from(date.day()).unwrap_or(1),
        )
    };
    params.not_before = at(-24 * 3600);
    params.not_after = at(YEARS * 365 * 24 * 3600);
}

fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::File { path: path.to_owned(), source })
}

/// Writes a file whole or not at all. Once this returns, the file outlasts a loss of power: what is signed with a key that
/// is lost afterwards is worthless.
fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    let failed = |source| PkiError::File { path: path.to_owned(), source };
    let new = path.with_extension("new");
    let mut file = OpenOptions::new();
    file.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)?;
    sync_parent(path)
}

/// Writes to disk that a file is in its folder: its name lasts only then.
fn sync_parent(path: &Path) -> Result<(), PkiError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| PkiError::File { path: folder.to_owned(), source })
}
