//! Tokens are Go's, and keys that can't sign are refused with a reason.
//!
//! `testdata/tokens.json` has tokens and key ids that go-jose 2.6.3, the library of Kubernetes 1.36, made from the keys beside it,
//! with claims and signers as in upstream's `pkg/serviceaccount`. The keys were made for these tests by openssl.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde_json::Value;

use super::super::signing_key::SigningKey;
use super::{UID, account};

fn testdata(file: &str) -> Vec<u8> {
    let path = format!("{}/src/service_account_token/testdata/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

fn key(file: &str) -> Result<SigningKey, String> {
    SigningKey::parse(&testdata(file))
}

/// The parts of a token, of which the last, the signature, is decoded.
fn parts(token: &str) -> (String, Vec<u8>) {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    (signed.to_owned(), URL_SAFE_NO_PAD.decode(signature).unwrap())
}

#[test]
fn tokens_are_those_of_go_byte_for_byte() {
    let vectors: Value = serde_json::from_slice(&testdata("tokens.json")).unwrap();
    for vector in vectors.as_array().unwrap() {
        let (file, expected) = (vector["file"].as_str().unwrap(), vector["token"].as_str().unwrap());
        let key = key(file).unwrap();
        let token = key.token(&account(), &UID.into(), "robot-token").unwrap();
        let ((signed, signature), (by_go, signature_of_go)) = (parts(&token), parts(expected));
        assert_eq!(signed, by_go, "{file}");
        let algorithm: &dyn VerificationAlgorithm = match file {
            "ec256-sec1.pem" => &ECDSA_P256_SHA256_FIXED,
            "ec384-sec1.pem" => &ECDSA_P384_SHA384_FIXED,
            _ => {
                assert_eq!(token, expected, "{file}: signatures with RSA have no randomness");
                &RSA_PKCS1_2048_8192_SHA256
            }
        };
        let public = UnparsedPublicKey::new(algorithm, key.public());
        for signature in [signature, signature_of_go] {
            public.verify(signed.as_bytes(), &signature).unwrap();
        }
    }
}

#[test]
fn a_key_is_the_same_in_both_of_its_forms() {
    for (one, other) in [("rsa-pkcs1.pem", "rsa-pkcs8.pem"), ("ec256-sec1.pem", "ec256-pkcs8.pem")] {
        let header = |file| {
            let token = key(file).unwrap().token(&account(), &UID.into(), "t").unwrap();
            token.split('.').next().unwrap().to_owned()
        };
        assert_eq!(header(one), header(other));
    }
}

#[test]
fn the_first_key_of_a_file_counts_and_other_blocks_do_not() {
    let certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    let pem = [certificate, testdata("ec256-sec1.pem"), testdata("rsa-pkcs1.pem")].concat();
    let header = |key: SigningKey| key.token(&account(), &UID.into(), "t").unwrap();
    let token = header(SigningKey::parse(&pem).unwrap());
    assert_eq!(token.split('.').next(), header(key("ec256-sec1.pem").unwrap()).split('.').next());
}

#[test]
fn keys_that_cannot_sign_are_refused_with_a_reason() {
    for (file, reason) in [
        ("ec521-sec1.pem", "P-521 (ES512) are not supported"),
        ("rsa1024.pem", "TooSmall (2048 to 4096 bits can)"),
        ("ed25519.pem", "must be RSA, or ECDSA on P-256 or P-384"),
        ("tokens.json", "does not contain a valid RSA or ECDSA private key"),
    ] {
        let error = key(file).err().unwrap();
        assert!(error.contains(reason), "{file}: {error}");
    }
    let error = SigningKey::read("/nowhere/sa.key".as_ref()).err().unwrap().to_string();
    let expected = "--service-account-private-key-file /nowhere/sa.key: No such file";
    assert!(error.starts_with(expected), "{error}");
}
