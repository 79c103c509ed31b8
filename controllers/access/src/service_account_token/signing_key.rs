//! The key that signs tokens of service accounts, and the tokens: JSON web tokens, byte for byte as kube-controller-manager
//! writes them.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    KeyPair, RSA_PKCS1_SHA256,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use steersman_api::{ObjectKey, Uid};

/// The issuer of tokens that are kept in Secrets.
const ISSUER: &str = "kubernetes/serviceaccount";

/// A key that signs tokens.
pub(super) struct SigningKey {
    pair: Pair,
    /// The token's first part, encoded.
    header: String,
    random: SystemRandom,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

/// An elliptic curve whose keys can sign.
struct Curve {
    /// The algorithm's name in a token's header.
    name: &'static str,
    algorithm: &'static EcdsaSigningAlgorithm,
    /// The `AlgorithmIdentifier` of the curve's keys, in DER.
    identifier: &'static [u8],
}

/// `SEQUENCE { rsaEncryption, NULL }`
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
const CURVES: [Curve; 2] = [
    Curve {
        name: "ES256",
        algorithm: &ECDSA_P256_SHA256_FIXED_SIGNING,
        // SEQUENCE { id-ecPublicKey, prime256v1 }
        identifier: &[
            0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
            0xce, 0x3d, 0x03, 0x01, 0x07,
        ],
    },
    Curve {
        name: "ES384",
        algorithm: &ECDSA_P384_SHA384_FIXED_SIGNING,
        // SEQUENCE { id-ecPublicKey, secp384r1 }
        identifier: &[
            0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
            0x00, 0x22,
        ],
    },
];
/// The object identifier of the curve P-521 in DER.
const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
/// The object identifier of RSA keys in DER.
const RSA_OID: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// A file holds no key that can sign tokens. The process should not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The file can't be read.
    #[error("--service-account-private-key-file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file's content is no key that can sign.
    #[error("--service-account-private-key-file {}: {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What a token says. The fields are sorted by their names in JSON, as in Go's maps.
#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: &'a str,
    sub: String,
}

impl SigningKey {
    /// Reads the first key of a PEM file: RSA in PKCS#1 or PKCS#8, or ECDSA on P-256 or P-384 in SEC 1 or PKCS#8. Other blocks
    /// of the file are ignored.
    ///
    /// # Errors
    /// The file can't be read, or has no such key.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let pem = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&pem).map_err(|why| Error::Content { path: path.to_owned(), why })
    }

    /// Parses the first key of a PEM file.
    ///
    /// # Errors
    /// Why there is no key that can sign.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut keys = PrivateKeyDer::pem_slice_iter(pem).filter_map(Result::ok);
        let key = keys.next().ok_or("data does not contain a valid RSA or ECDSA private key")?;
        match &key {
            PrivateKeyDer::Pkcs1(der) => rsa(RsaKeyPair::from_der(der.secret_pkcs1_der())),
            PrivateKeyDer::Sec1(der) => {
                let der = der.secret_sec1_der();
                ecdsa(der, |curve| pkcs8(curve.identifier, der))
            }
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                if contains(der, RSA_OID) {
                    rsa(RsaKeyPair::from_pkcs8(der))
                } else {
                    ecdsa(der, |_| der.to_vec())
                }
            }
            _ => Err("the private key has an unknown format".to_owned()),
        }
    }

    fn new(pair: Pair, name: &str, identifier: &[u8]) -> Self {
        let public = match &pair {
            Pair::Rsa(pair) => pair.public_key().as_ref(),
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
        };
        // SubjectPublicKeyInfo: the identifier, and the key in a BIT STRING without unused bits.
        let bits = der(0x03, &[&[0], public]);
        let id = digest(&SHA256, &der(0x30, &[identifier, &bits]));
        let id = URL_SAFE_NO_PAD.encode(id.as_ref());
        let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{name}","kid":"{id}"}}"#));
        Self { pair, header, random: SystemRandom::new() }
    }

    /// Signs a token of the service account `account`, of this uid, for the Secret of this name.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn token(
        &self,
        account: &ObjectKey,
        uid: &Uid,
        secret: &str,
    ) -> Result<String, ring::error::Unspecified> {
        let ObjectKey { namespace, name } = account;
        let uid = uid.to_string();
        let sub = format!("system:serviceaccount:{namespace}:{name}");
        let claims = Claims { iss: ISSUER, namespace, secret, account: name, uid: &uid, sub };
        let claims = serde_json::to_vec(&claims).expect("claims must have a JSON form");
        let mut token = self.header.clone();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, text, &mut signature)?;
                Ok(signature)
            }
            Pair::Ecdsa(pair) => Ok(pair.sign(&self.random, text)?.as_ref().to_vec()),
        }
    }

    /// The DER of the public key as ring has it, for tests.
    #[cfg(test)]
    pub(super) fn public(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ecdsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }
}

fn rsa(pair: Result<RsaKeyPair, ring::error::KeyRejected>) -> Result<SigningKey, String> {
    let pair = pair.map_err(|why| format!("the RSA key can't be used: {why} (2048 to 4096 bits can)"))?;
    Ok(SigningKey::new(Pair::Rsa(Box::new(pair)), "RS256", RSA))
}

/// Tries the curves. `key` makes the key in PKCS#8, as it would be on that curve.
fn ecdsa(der: &[u8], key: impl Fn(&Curve) -> Vec<u8>) -> Result<SigningKey, String> {
    if contains(der, P521) {
        return Err("ECDSA keys on P-521 (ES512) are not supported: use P-256 or P-384".to_owned());
    }
    let random = SystemRandom::new();
    for curve in &CURVES {
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve.algorithm, &key(curve), &random) {
            return Ok(SigningKey::new(Pair::Ecdsa(Box::new(pair)), curve.name, curve.identifier));
        }
    }
    Err("the private key must be RSA, or ECDSA on P-256 or P-384 with its public key".to_owned())
}

/// An elliptic curve's key in PKCS#8, from SEC 1.
fn pkcs8(identifier: &[u8], sec1: &[u8]) -> Vec<u8> {
    der(0x30, &[&[0x02, 0x01, 0x00], identifier, &der(0x04, &[sec1])])
}

/// A DER value of this tag and these contents.
fn der(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    let mut value = vec![tag];
    let length = contents.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    match significant {
        [] => value.push(0),
        [short] if *short < 0x80 => value.push(*short),
        long => {
            let count = u8::try_from(long.len()).expect("a length must have few bytes");
            value.push(0x80 | count);
            value.extend(long);
        }
    }
    value.extend(contents);
    value
}

fn contains(der: &[u8], part: &[u8]) -> bool {
    der.windows(part.len()).any(|window| window == part)
}
