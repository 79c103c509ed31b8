//! Certificate authorities, in files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use steersman_api::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::super::der::sequence;
use super::super::request::{PublicKey, Request};
use super::certificate::ToBeSigned;
use super::key::{KeyError, SigningKey, random_serial};
use super::usages::Usages;
use super::validity::Validity;

/// The files of an authority, each with the flag that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The certificate.
    pub certificate: (String, PathBuf),
    /// The private key.
    pub key: (String, PathBuf),
}

/// A file has no authority that can be used. The error names the flag and the file.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {}: {why}", path.display())]
pub(super) struct LoadError {
    flag: String,
    path: PathBuf,
    why: Fault,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file has no certificate, or several.
    #[error("expected 1 certificate, found {0}")]
    Count(usize),
    /// The certificate can't be decoded.
    #[error("the certificate is malformed: {0}")]
    Malformed(String),
    /// The certificate's key is of a kind that this program does not support.
    #[error("the certificate's key can't be used: {0}")]
    PublicKey(&'static str),
    /// The private key can't be used.
    #[error(transparent)]
    PrivateKey(#[from] KeyError),
}

/// An authority whose files may change.
pub(super) struct Authority {
    files: Files,
    /// Not locked while the files are read, which may take long on a network's file system.
    current: Mutex<Current>,
    /// The number of reads that have begun after the first.
    reads: AtomicU64,
}

/// The last good content of the files.
struct Current {
    /// The number of the last read that found this content, from zero. A read never replaces the result of a later one.
    read: u64,
    digest: Digest,
    pair: Arc<Pair>,
}

/// The SHA-256 of both files: tells whether they have changed, without the key in memory.
type Digest = Vec<u8>;

impl Authority {
    /// Reads the files.
    ///
    /// # Errors
    /// A file can't be read, or its content can't be used.
    pub(super) fn load(files: Files) -> Result<Self, LoadError> {
        let [certificate, key] = files.read()?;
        let pair = Arc::new(Pair::parse(&files, &certificate, &key)?);
        let current = Mutex::new(Current { read: 0, digest: digest_of(&certificate, &key), pair });
        Ok(Self { files, current, reads: AtomicU64::new(0) })
    }

    /// The files.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// The authority in the files. If they can't be used, for instance because an administrator has replaced only one of them so
    /// far, the last good one.
    pub(super) async fn current(self: &Arc<Self>) -> Arc<Pair> {
        let this = Arc::clone(self);
        let reload = tokio::task::spawn_blocking(move || this.reload());
        reload.await.unwrap_or_else(|_| Arc::clone(&self.current.lock().pair))
    }

    fn reload(&self) -> Arc<Pair> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let last = self.current.lock().digest.clone();
        let changed = self.changed(read, &last);
        let mut current = self.current.lock();
        match changed {
            Ok(Some(changed)) if changed.read > current.read => {
                tracing::info!(file = %self.files.certificate.1.display(), "Loaded a new cert/key pair");
                *current = changed;
            }
            Ok(Some(_overtaken)) => {}
            Ok(None) => current.read = current.read.max(read),
            Err(error) => tracing::warn!(%error, "Signing with the earlier cert/key pair"),
        }
        Arc::clone(&current.pair)
    }

    /// Reads the files. Returns their content if it is not the last known one.
    fn changed(&self, read: u64, last: &Digest) -> Result<Option<Current>, LoadError> {
        let [certificate, key] = self.files.read()?;
        let digest = digest_of(&certificate, &key);
        if digest == *last {
            return Ok(None);
        }
        let pair = Arc::new(Pair::parse(&self.files, &certificate, &key)?);
        Ok(Some(Current { read, digest, pair }))
    }
}

fn digest_of(certificate: &[u8], key: &[u8]) -> Digest {
    let [certificate, key] = [certificate, key].map(|content| digest(&SHA256, content));
    [certificate.as_ref(), key.as_ref()].concat()
}

impl Files {
    fn read(&self) -> Result<[Vec<u8>; 2], LoadError> {
        let read = |(flag, path): &(String, PathBuf)| fs::read(path).map_err(fault(flag, path));
        Ok([read(&self.certificate)?, read(&self.key)?])
    }
}

fn fault<E: Into<Fault>>(flag: &str, path: &Path) -> impl FnOnce(E) -> LoadError {
    let (flag, path) = (flag.to_owned(), path.to_owned());
    |why| LoadError { flag, path, why: why.into() }
}

/// The certificate of an authority and its private key.
pub(super) struct Pair {
    /// The certificate's subject, in DER.
    subject: Vec<u8>,
    /// The identifier of the certificate's key; empty if there is none.
    key_identifier: Vec<u8>,
    expires: Time,
    key: SigningKey,
}

impl Pair {
    fn parse(files: &Files, certificate: &[u8], key: &[u8]) -> Result<Self, LoadError> {
        let (flag, path) = &files.certificate;
        let blocks = Pem::iter_from_buffer(certificate).filter_map(Result::ok);
        let blocks: Vec<_> = blocks.filter(|block| block.label == "CERTIFICATE").collect();
        let [block] = &blocks[..] else { return Err(fault(flag, path)(Fault::Count(blocks.len()))) };
        let malformed = |why: String| fault(flag, path)(Fault::Malformed(why));
        let (_, parsed) =
            X509Certificate::from_der(&block.contents).map_err(|error| malformed(error.to_string()))?;
        let public =
            PublicKey::of(parsed.public_key()).map_err(|why| fault(flag, path)(Fault::PublicKey(why)))?;
        let key_identifier =
            parsed.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
                _ => None,
            });
        let (flag, path) = &files.key;
        let key = SigningKey::from_pem(key, &public).map_err(fault(flag, path))?;
        Ok(Self {
            subject: parsed.subject().as_raw().to_vec(),
            key_identifier: key_identifier.unwrap_or_default(),
            expires: Time::from_seconds(parsed.validity().not_after.timestamp()),
            key,
        })
    }

    /// When the authority's certificate expires.
    pub(super) fn expires(&self) -> Time {
        self.expires
    }

    /// Makes a certificate, in PEM.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn sign(
        &self,
        request: &Request,
        key: &PublicKey,
        usages: &Usages,
        validity: &Validity,
    ) -> Result<String, String> {
        let serial = random_serial().map_err(|_| "the system has no randomness".to_owned())?;
        let der = self.sign_as(serial, request, key, usages, validity)?;
        Ok(pem(&der))
    }

    /// Makes a certificate with this serial number, in DER.
    pub(super) fn sign_as(
        &self,
        serial: [u8; 16],
        request: &Request,
        key: &PublicKey,
        usages: &Usages,
        validity: &Validity,
    ) -> Result<Vec<u8>, String> {
        let (issuer, issuer_key) = (&self.subject[..], &self.key_identifier[..]);
        let algorithm = self.key.algorithm();
        let to_be_signed =
            ToBeSigned { serial, algorithm: &algorithm, issuer, issuer_key, request, key, usages, validity };
        let content = to_be_signed.to_der();
        let signature = self.key.sign(&content).map_err(|_| "failed to sign certificate".to_owned())?;
        Ok(sequence(|certificate| {
            certificate.next().write_der(&content);
            certificate.next().write_der(&algorithm);
            certificate.next().write_bitvec_bytes(&signature, signature.len() * 8);
        }))
    }
}

/// A certificate in PEM, in lines of 64 characters.
fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + "-----END CERTIFICATE-----\n"
}
