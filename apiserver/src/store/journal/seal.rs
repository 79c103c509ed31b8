//! Secrets on the disk, encrypted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use steersman_api::ObjectKey;

/// The table whose objects are encrypted.
const SECRETS: &str = "secrets";
/// What an encrypted state begins with; JSON never does. The id of the key, the nonce and the ciphertext with its tag follow.
const MARK: &[u8] = b"\0aes256gcm\0";
/// The length of a key's id in bytes.
const ID: usize = 8;
/// The word of a key file for the key that does not encrypt.
const IDENTITY: &str = "identity";

/// The keys with which Secrets are encrypted on the disk, with AES-256-GCM. Names and all other objects are not.
///
/// The first key encrypts, all of them decrypt. At each start, Secrets that are not encrypted with the first one are written anew.
/// Cheap to clone.
#[derive(Clone, Default)]
pub struct EncryptionKeys(Arc<[Key]>);

enum Key {
    /// Does not encrypt.
    Identity,
    Aes {
        id: [u8; ID],
        key: Box<LessSafeKey>,
    },
}

/// A file with keys can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It can't be read.
    #[error("reading the encryption keys in {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line is no key.
    #[error("line {line} of the encryption keys in {} is neither 32 bytes in base64 nor the word identity", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// It has no key.
    #[error("{} has no encryption key", .0.display())]
    Empty(PathBuf),
}

/// Why a state of a Secret can't be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Sealed {
    #[error("it is encrypted, and no keys are given")]
    NoKeys,
    #[error("it is encrypted with a key that is not among those given")]
    UnknownKey,
    #[error("its encrypted form was damaged, or is that of another Secret")]
    Damaged,
}

/// A state as it was written before it was encrypted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) state: Bytes,
    /// Whether it would be written in the same way today.
    pub(super) is_current: bool,
}

/// Shows no key.
impl fmt::Debug for EncryptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKeys({})", self.0.len())
    }
}

impl EncryptionKeys {
    /// Reads a file with a key on each line: 32 random bytes in base64 or, for the state of a file that is not encrypted, the word
    /// `identity`. Lines that are empty or begin with `#` do not count.
    ///
    /// # Errors
    /// See [`KeyFileError`]. No error shows a key.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let text = fs::read_to_string(path)
            .map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
        let mut keys = Vec::new();
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = Key::parse(line);
            keys.push(key.ok_or_else(|| KeyFileError::Line { path: path.to_owned(), line: at + 1 })?);
        }
        if keys.is_empty() {
            return Err(KeyFileError::Empty(path.to_owned()));
        }
        Ok(Self(keys.into()))
    }

    /// The form in which a state is written.
    pub(super) fn seal(&self, table: &str, key: &ObjectKey, state: &[u8]) -> Option<Vec<u8>> {
        let Some(Key::Aes { id, key: with }) = self.0.first().filter(|_| table == SECRETS) else {
            return None;
        };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).expect("the system must have random bytes");
        let mut text = state.to_vec();
        let aad = Aad::from(context(table, key));
        with.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text)
            .expect("an object must not be too large for AES-GCM");
        Some([MARK, id, &nonce, &text].concat())
    }

    /// The state that was written in this form.
    ///
    /// # Errors
    /// It can't be decrypted.
    pub(super) fn open(&self, table: &str, key: &ObjectKey, form: Bytes) -> Result<Opened, Sealed> {
        let first = self.0.first().filter(|_| table == SECRETS);
        let Some(sealed) = form.strip_prefix(MARK) else {
            let is_current = !matches!(first, Some(Key::Aes { .. }));
            return Ok(Opened { state: form, is_current });
        };
        if self.0.is_empty() {
            return Err(Sealed::NoKeys);
        }
        let (id, rest) = sealed.split_first_chunk::<ID>().ok_or(Sealed::Damaged)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>().ok_or(Sealed::Damaged)?;
        let found = self.0.iter().enumerate().find_map(|(at, key)| match key {
            Key::Aes { id: of, key } if of == id => Some((at, key)),
            _ => None,
        });
        let (at, with) = found.ok_or(Sealed::UnknownKey)?;
        let mut text = text.to_vec();
        let aad = Aad::from(context(table, key));
        let opened = with.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut text);
        let length = opened.map_err(|_| Sealed::Damaged)?.len();
        text.truncate(length);
        Ok(Opened { state: text.into(), is_current: at == 0 })
    }
}

/// What an encrypted form belongs to: it can't be put in the place of another one.
fn context(table: &str, key: &ObjectKey) -> Vec<u8> {
    [table, key.namespace.as_str(), key.name.as_str()].join("/").into_bytes()
}

impl Key {
    fn parse(line: &str) -> Option<Self> {
        if line == IDENTITY {
            return Some(Self::Identity);
        }
        let bytes = STANDARD.decode(line).ok()?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).ok()?;
        let hash = digest(&SHA256, &bytes);
        let id = *hash.as_ref().first_chunk()?;
        Some(Self::Aes { id, key: Box::new(LessSafeKey::new(key)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> Result<EncryptionKeys, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), lines.join("\n")).unwrap();
        let name = file.path().display().to_string();
        EncryptionKeys::read(file.path()).map_err(|error| error.to_string().replace(&name, "FILE"))
    }

    fn random(byte: u8) -> String {
        STANDARD.encode([byte; 32])
    }

    const STATE: &[u8] = b"{\"data\":{\"password\":\"a\"}}";

    #[test]
    fn the_first_key_encrypts_and_all_decrypt() {
        let key = ObjectKey::new("default", "a");
        let (old, new) = (random(1), random(2));
        let only_old = keys(&[&old]).unwrap();
        let both = keys(&["# The new one.", "", &new, &format!("  {old}  ")]).unwrap();
        let off = keys(&["identity", &old]).unwrap();
        let sealed = Bytes::from(only_old.seal(SECRETS, &key, STATE).unwrap());
        assert!(!sealed.windows(8).any(|part| part == b"password"));
        assert_ne!(
            sealed,
            only_old.seal(SECRETS, &key, STATE).unwrap(),
            "two forms of one state must differ"
        );
        let plain = Bytes::from_static(STATE);
        let none = EncryptionKeys::default();
        for (keys, form, expected) in [
            (&only_old, &sealed, Ok(true)),
            (&both, &sealed, Ok(false)),
            (&off, &sealed, Ok(false)),
            (&none, &sealed, Err(Sealed::NoKeys)),
            (&keys(&[&new]).unwrap(), &sealed, Err(Sealed::UnknownKey)),
            (&only_old, &plain, Ok(false)),
            (&off, &plain, Ok(true)),
            (&none, &plain, Ok(true)),
        ] {
            let opened = keys.open(SECRETS, &key, form.clone());
            let expected = expected.map(|is_current| Opened { state: plain.clone(), is_current });
            assert_eq!(opened, expected, "{keys:?}");
        }
        for keys in [&off, &none] {
            assert_eq!(keys.seal(SECRETS, &key, STATE), None);
        }
        assert_eq!(only_old.seal("configmaps", &key, STATE), None);
        assert_eq!(
            only_old.open("configmaps", &key, plain.clone()),
            Ok(Opened { state: plain, is_current: true })
        );
    }

    #[test]
    fn a_form_is_of_one_secret_and_can_not_be_changed() {
        let keys = keys(&[&random(1)]).unwrap();
        let key = ObjectKey::new("default", "a");
        let sealed = keys.seal(SECRETS, &key, STATE).unwrap();
        let other = keys.open(SECRETS, &ObjectKey::new("default", "b"), sealed.clone().into());
        assert_eq!(other, Err(Sealed::Damaged));
        for at in MARK.len() + ID..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(keys.open(SECRETS, &key, changed.into()), Err(Sealed::Damaged), "byte {at}");
        }
        for length in MARK.len()..sealed.len() {
            keys.open(SECRETS, &key, sealed[..length].to_vec().into()).unwrap_err();
        }
    }

    #[test]
    fn a_file_that_is_not_of_keys_is_refused() {
        let no_key = |line| {
            format!(
                "line {line} of the encryption keys in FILE is neither 32 bytes in base64 nor the word identity"
            )
        };
        for (lines, expected) in [
            (vec![], "FILE has no encryption key".to_owned()),
            (vec!["# nothing"], "FILE has no encryption key".to_owned()),
            (vec!["", "c2hvcnQ="], no_key(2)),
            (vec![&random(1)[..], "Identity"], no_key(2)),
        ] {
            assert_eq!(keys(&lines).unwrap_err(), expected);
        }
        let missing = EncryptionKeys::read(Path::new("/nowhere/keys")).unwrap_err().to_string();
        assert!(missing.starts_with("reading the encryption keys in /nowhere/keys: "), "{missing}");
        assert_eq!(format!("{:?}", keys(&[&random(7)]).unwrap()), "EncryptionKeys(1)");
    }
}
