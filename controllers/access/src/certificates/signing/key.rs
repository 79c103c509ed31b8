//! Private keys of authorities.

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use x509_parser::pem::Pem;
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, Tag};

use super::super::der::sequence;
use super::super::request::{KeyKind, PublicKey};

/// Why a file has no key that this program can sign with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    /// No block of the file is a private key.
    #[error("data does not contain a valid RSA, ECDSA or Ed25519 private key")]
    None,
    /// The key belongs to another certificate.
    #[error("the private key does not match the certificate's public key")]
    Mismatch,
    /// The key can't be used.
    #[error("the private key can't be used: {0}")]
    Rejected(String),
}

/// A private key that signs.
pub(super) enum SigningKey {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads the first private key in PEM: PKCS#1, PKCS#8 or SEC1. Skips other blocks, such as `EC PARAMETERS`. `public` is the
    /// key of the authority's certificate.
    ///
    /// # Errors
    /// There is no key, or not the one of the certificate, or one that `ring` refuses.
    pub(super) fn from_pem(pem: &[u8], public: &PublicKey) -> Result<Self, KeyError> {
        let blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok);
        let mut keys = blocks.filter_map(|block| match block.label.as_str() {
            "RSA PRIVATE KEY" => Some(Material { algorithm: Algorithm::Rsa, secret: block.contents }),
            "EC PRIVATE KEY" => elliptic(&block.contents),
            "PRIVATE KEY" => pkcs8(&block.contents),
            _ => None,
        });
        keys.next().ok_or(KeyError::None)?.pair(public)
    }

    /// The algorithm of the signatures, in DER.
    pub(super) fn algorithm(&self) -> Vec<u8> {
        const SHA256_WITH_RSA: &[u64] = &[1, 2, 840, 113_549, 1, 1, 11];
        const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10_045, 4, 3, 2];
        const ECDSA_WITH_SHA384: &[u64] = &[1, 2, 840, 10_045, 4, 3, 3];
        const PURE_ED25519: &[u64] = &[1, 3, 101, 112];
        const P256_POINT: usize = 65;
        let oid = match self {
            Self::Rsa(_) => SHA256_WITH_RSA,
            Self::Ecdsa(pair) if pair.public_key().as_ref().len() == P256_POINT => ECDSA_WITH_SHA256,
            Self::Ecdsa(_) => ECDSA_WITH_SHA384,
            Self::Ed25519(_) => PURE_ED25519,
        };
        sequence(|algorithm| {
            algorithm.next().write_oid(&ObjectIdentifier::from_slice(oid));
            if matches!(self, Self::Rsa(_)) {
                algorithm.next().write_null();
            }
        })
    }

    /// Signs a message.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
                Ok(signature)
            }
            Self::Ecdsa(pair) => Ok(pair.sign(&random, message)?.as_ref().to_vec()),
            Self::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

/// A random number of 128 bits for a certificate.
///
/// # Errors
/// The system has no randomness.
pub(super) fn random_serial() -> Result<[u8; 16], ring::error::Unspecified> {
    let mut serial = [0; 16];
    SystemRandom::new().fill(&mut serial)?;
    Ok(serial)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rsa,
    Elliptic,
    Ed25519,
}

/// The secret part of a key.
struct Material {
    algorithm: Algorithm,
    /// An `RSAPrivateKey`, the private number of an elliptic curve, or the seed of an Ed25519 key.
    secret: Vec<u8>,
}

impl Material {
    fn pair(self, public: &PublicKey) -> Result<SigningKey, KeyError> {
        let Self { algorithm, secret } = self;
        let rejected = |error: ring::error::KeyRejected| match error.to_string().as_str() {
            "InconsistentComponents" => KeyError::Mismatch,
            why => KeyError::Rejected(why.to_owned()),
        };
        match (algorithm, public.kind) {
            (Algorithm::Rsa, KeyKind::Rsa) => {
                let pair = RsaKeyPair::from_der(&secret).map_err(rejected)?;
                if pair.public().as_ref() != public.bytes {
                    return Err(KeyError::Mismatch);
                }
                Ok(SigningKey::Rsa(Box::new(pair)))
            }
            (Algorithm::Elliptic, KeyKind::P256 | KeyKind::P384) => {
                let (algorithm, length) = if public.kind == KeyKind::P256 {
                    (&ECDSA_P256_SHA256_ASN1_SIGNING, 32)
                } else {
                    (&ECDSA_P384_SHA384_ASN1_SIGNING, 48)
                };
                let secret = sized(secret, length).ok_or(KeyError::Mismatch)?;
                let random = SystemRandom::new();
                let pair =
                    EcdsaKeyPair::from_private_key_and_public_key(algorithm, &secret, &public.bytes, &random);
                pair.map(SigningKey::Ecdsa).map_err(rejected)
            }
            (Algorithm::Ed25519, KeyKind::Ed25519) => {
                let pair = Ed25519KeyPair::from_seed_and_public_key(&secret, &public.bytes);
                pair.map(SigningKey::Ed25519).map_err(rejected)
            }
            _ => Err(KeyError::Mismatch),
        }
    }
}

/// A number in so many bytes, highest first. `None` if it has more.
fn sized(number: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = &number[zeros..];
    let missing = length.checked_sub(digits.len())?;
    Some([&vec![0; missing], digits].concat())
}

/// The private number in an `ECPrivateKey` (SEC1).
fn elliptic(der: &[u8]) -> Option<Material> {
    let secret = yasna::parse_der(der, |reader| {
        reader.read_sequence(|key| {
            key.next().read_u8()?;
            let secret = key.next().read_bytes()?;
            for tag in [0, 1] {
                key.read_optional(|rest| rest.read_tagged(Tag::context(tag), |rest| rest.read_der()))?;
            }
            Ok(secret)
        })
    });
    secret.ok().map(|secret| Material { algorithm: Algorithm::Elliptic, secret })
}

/// The key in a `PrivateKeyInfo` (PKCS#8).
fn pkcs8(der: &[u8]) -> Option<Material> {
    let oid = |components: &[u64]| ObjectIdentifier::from_slice(components);
    let parsed: ASN1Result<_> = yasna::parse_der(der, |reader| {
        reader.read_sequence(|info| {
            info.next().read_u8()?;
            let algorithm = info.next().read_sequence(|algorithm| {
                let oid = algorithm.next().read_oid()?;
                algorithm.read_optional(|parameters| parameters.read_der())?;
                Ok(oid)
            })?;
            let key = info.next().read_bytes()?;
            // Attributes, and the public key.
            for _ in 0..2 {
                info.read_optional(|rest| rest.read_der())?;
            }
            Ok((algorithm, key))
        })
    });
    let (algorithm, key) = parsed.ok()?;
    if algorithm == oid(&[1, 2, 840, 113_549, 1, 1, 1]) {
        Some(Material { algorithm: Algorithm::Rsa, secret: key })
    } else if algorithm == oid(&[1, 2, 840, 10_045, 2, 1]) {
        elliptic(&key)
    } else if algorithm == oid(&[1, 3, 101, 112]) {
        let secret = yasna::parse_der(&key, |seed| seed.read_bytes()).ok()?;
        Some(Material { algorithm: Algorithm::Ed25519, secret })
    } else {
        None
    }
}
