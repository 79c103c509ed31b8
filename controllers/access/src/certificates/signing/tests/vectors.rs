//! Certificates that Kubernetes's signer made from the same requests, with the same authorities, at the same time.
//!
//! `vectors/main.go` made `vectors/vectors.json`, in a Go module that requires `k8s.io/kubernetes` v1.36.3: `go run .`

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde::Deserialize;
use steersman_api::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::super::super::request::{KeyKind, PublicKey, Request};
use super::super::authority::{Authority, Files};
use super::super::usages::Usages;
use super::super::validity::Validity;

#[derive(Deserialize)]
struct Vector {
    name: String,
    ca: String,
    key: String,
    request: String,
    usages: Option<Vec<String>>,
    ttl: u64,
    now: i64,
    certificate: Option<String>,
    error: Option<String>,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("vectors/vectors.json")).unwrap()
}

fn der(pem: &str) -> Vec<u8> {
    Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap().contents
}

/// The serial number of a certificate.
fn serial(certificate: &X509Certificate<'_>) -> [u8; 16] {
    let bytes = certificate.raw_serial();
    let bytes = bytes.strip_prefix(&[0]).filter(|rest| rest.len() == 16).unwrap_or(bytes);
    let mut serial = [0; 16];
    serial[16 - bytes.len()..].copy_from_slice(bytes);
    serial
}

/// Whether an authority made a certificate.
fn is_signed_by(ca: &str, certificate: &X509Certificate<'_>) -> bool {
    let ca = der(ca);
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    let key = PublicKey::of(ca.public_key()).unwrap();
    let algorithm: &dyn VerificationAlgorithm = match key.kind {
        KeyKind::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        KeyKind::P256 => &ECDSA_P256_SHA256_ASN1,
        KeyKind::P384 => &ECDSA_P384_SHA384_ASN1,
        KeyKind::Ed25519 => &ED25519,
    };
    let key = UnparsedPublicKey::new(algorithm, key.bytes);
    key.verify(certificate.tbs_certificate.as_ref(), &certificate.signature_value.data).is_ok()
}

fn sign(vector: &Vector, serial: [u8; 16]) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        (name.to_owned(), path)
    };
    let files = Files { certificate: file("cert", &vector.ca), key: file("key", &vector.key) };
    let pair = {
        let authority = std::sync::Arc::new(Authority::load(files).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(authority.current())
    };
    let request = Request::from_pem(vector.request.as_bytes()).map_err(|error| error.to_string())?;
    let usages = Usages::of(vector.usages.as_deref().unwrap_or_default())?;
    let duration = std::time::Duration::from_secs(vector.ttl);
    let validity = Validity::new(Time::from_seconds(vector.now), duration, pair.expires())?;
    let key = request.verified_key().map_err(|error| error.to_string())?;
    pair.sign_as(serial, &request, &key, &usages, &validity)
}

#[test]
fn certificates_are_byte_for_byte_those_of_kubernetes() {
    for vector in vectors() {
        let Some(certificate) = &vector.certificate else { continue };
        let expected = der(certificate);
        let (_, parsed) = X509Certificate::from_der(&expected).unwrap();
        let signed =
            sign(&vector, serial(&parsed)).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        let (_, ours) = X509Certificate::from_der(&signed).unwrap();
        assert_eq!(ours.tbs_certificate.as_ref(), parsed.tbs_certificate.as_ref(), "{}", vector.name);
        // Signatures by ECDSA are random, those of the other algorithms are the same each time.
        if !parsed.signature_algorithm.algorithm.to_id_string().starts_with("1.2.840.10045") {
            assert_eq!(signed, expected, "{}", vector.name);
        }
        assert!(is_signed_by(&vector.ca, &ours), "{}", vector.name);
    }
}

#[test]
fn what_kubernetes_refuses_is_refused() {
    let mut refused = 0;
    for vector in vectors() {
        let Some(theirs) = &vector.error else { continue };
        let ours = sign(&vector, [1; 16]).expect_err(&vector.name);
        refused += 1;
        println!("{}: {ours} (Kubernetes: {theirs})", vector.name);
    }
    assert!(refused > 10);
}
