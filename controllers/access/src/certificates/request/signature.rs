//! The key of a request, and the proof that the requestor has it.

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA384, UnparsedPublicKey,
    VerificationAlgorithm,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::x509::AlgorithmIdentifier;
use x509_parser::x509::SubjectPublicKeyInfo;
use yasna::DERWriter;
use yasna::models::ObjectIdentifier;

use super::Error;

const RSA: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];
const EC: &[u64] = &[1, 2, 840, 10_045, 2, 1];
const P256: &[u64] = &[1, 2, 840, 10_045, 3, 1, 7];
const P384: &[u64] = &[1, 3, 132, 0, 34];
const ED25519_KEY: &[u64] = &[1, 3, 101, 112];

const SHA1_WITH_RSA: &str = "1.2.840.113549.1.1.5";
const SHA256_WITH_RSA: &str = "1.2.840.113549.1.1.11";
const SHA384_WITH_RSA: &str = "1.2.840.113549.1.1.12";
const SHA512_WITH_RSA: &str = "1.2.840.113549.1.1.13";
const ECDSA_WITH_SHA256: &str = "1.2.840.10045.4.3.2";
const ECDSA_WITH_SHA384: &str = "1.2.840.10045.4.3.3";
const PURE_ED25519: &str = "1.3.101.112";

/// The kind of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum KeyKind {
    /// RSA.
    Rsa,
    /// ECDSA with the curve P-256.
    P256,
    /// ECDSA with the curve P-384.
    P384,
    /// Ed25519.
    Ed25519,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct PublicKey {
    /// The key's kind.
    pub kind: KeyKind,
    /// The content of the bit string: an `RSAPublicKey`, an uncompressed point, or the bytes of an Ed25519 key.
    pub bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a key of a kind that `ring` supports.
    ///
    /// # Errors
    /// The key is of another kind.
    pub(in super::super) fn of(info: &SubjectPublicKeyInfo<'_>) -> Result<Self, &'static str> {
        let oid = |components| ObjectIdentifier::from_slice(components).to_string();
        let algorithm = info.algorithm.algorithm.to_id_string();
        let bytes = info.subject_public_key.data.to_vec();
        let kind = if algorithm == oid(RSA) {
            if info.algorithm.parameters.as_ref().is_none_or(|null| null.tag().0 != 5) {
                return Err("an RSA key lacks NULL parameters");
            }
            KeyKind::Rsa
        } else if algorithm == oid(EC) {
            let curve = curve(&info.algorithm).ok_or("an elliptic curve has no name")?;
            let (kind, length) = match curve {
                curve if curve == oid(P256) => (KeyKind::P256, 65),
                curve if curve == oid(P384) => (KeyKind::P384, 97),
                _ => return Err("only the elliptic curves P-256 and P-384 are supported"),
            };
            if bytes.len() != length || bytes[0] != 4 {
                return Err("an elliptic curve point is malformed");
            }
            kind
        } else if algorithm == oid(ED25519_KEY) {
            KeyKind::Ed25519
        } else {
            return Err("only RSA, ECDSA and Ed25519 keys are supported");
        };
        Ok(Self { kind, bytes })
    }

    /// Writes the key's `SubjectPublicKeyInfo`.
    pub(in super::super) fn write(&self, writer: DERWriter<'_>) {
        let oid = ObjectIdentifier::from_slice;
        writer.write_sequence(|info| {
            info.next().write_sequence(|algorithm| match self.kind {
                KeyKind::Rsa => {
                    algorithm.next().write_oid(&oid(RSA));
                    algorithm.next().write_null();
                }
                KeyKind::P256 | KeyKind::P384 => {
                    algorithm.next().write_oid(&oid(EC));
                    algorithm.next().write_oid(&oid(if self.kind == KeyKind::P256 { P256 } else { P384 }));
                }
                KeyKind::Ed25519 => algorithm.next().write_oid(&oid(ED25519_KEY)),
            });
            info.next().write_bitvec_bytes(&self.bytes, self.bytes.len() * 8);
        });
    }
}

fn curve(algorithm: &AlgorithmIdentifier<'_>) -> Option<String> {
    let curve = algorithm.parameters.as_ref()?.as_oid().ok()?;
    Some(curve.to_id_string())
}

/// Verifies a request's signature, and returns the key that made it.
///
/// # Errors
/// The signature is wrong, or key or algorithm are not supported.
pub(super) fn verify(request: &X509CertificationRequest<'_>) -> Result<PublicKey, Error> {
    let refused = |why: &str| Error::Signature(why.to_owned());
    let info = &request.certification_request_info;
    let key = PublicKey::of(&info.subject_pki).map_err(refused)?;
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    let algorithm: &dyn VerificationAlgorithm = match (key.kind, algorithm.as_str()) {
        (KeyKind::Rsa, SHA1_WITH_RSA) => &RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        (KeyKind::Rsa, SHA256_WITH_RSA) => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        (KeyKind::Rsa, SHA384_WITH_RSA) => &RSA_PKCS1_2048_8192_SHA384,
        (KeyKind::Rsa, SHA512_WITH_RSA) => &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        (KeyKind::P256, ECDSA_WITH_SHA256) => &ECDSA_P256_SHA256_ASN1,
        (KeyKind::P256, ECDSA_WITH_SHA384) => &ECDSA_P256_SHA384_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA256) => &ECDSA_P384_SHA256_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA384) => &ECDSA_P384_SHA384_ASN1,
        (KeyKind::Ed25519, PURE_ED25519) => &ED25519,
        (kind, other) => {
            return Err(refused(&format!(
                "signature algorithm {other} with a key of kind {kind:?} is not supported"
            )));
        }
    };
    UnparsedPublicKey::new(algorithm, &key.bytes)
        .verify(info.raw, &request.signature_value.data)
        .map_err(|_| refused("the signature does not match the request and its key"))?;
    Ok(key)
}
