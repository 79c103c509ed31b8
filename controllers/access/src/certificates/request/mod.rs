//! Certificate requests (PKCS#10), read as Go's `crypto/x509` reads them.
//!
//! Requests come from anybody who may create one, so nothing in them is trusted: each length is checked, and what this
//! program would not understand is refused.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::X509Extension;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

mod names;
mod signature;
mod subject;
#[cfg(test)]
mod tests;
mod uri;

pub(super) use names::AltNames;
pub(super) use signature::{KeyKind, PublicKey};
pub(super) use subject::Subject;

/// The label of the PEM block of a request.
const LABEL: &str = "CERTIFICATE REQUEST";
/// The extension with the alternative names of a subject.
pub(super) const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// Why a request can't be read, or must not be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The request is not in PEM, or in a block of another type.
    #[error("PEM block type must be {LABEL}")]
    Pem,
    /// The bytes in the PEM block are not a request.
    #[error("the request is malformed: {0}")]
    Malformed(String),
    /// The request was not signed with the key that it is for.
    #[error("unable to verify certificate request signature: {0}")]
    Signature(String),
}

/// The content of a request that decides about its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Whom the certificate is for.
    pub subject: Subject,
    /// The further names of the subject.
    pub names: AltNames,
    /// The whole request. Its signature has not been verified.
    der: Vec<u8>,
}

impl Request {
    /// Reads the request in the first PEM block.
    ///
    /// # Errors
    /// It is no request, or has names that Go refuses.
    pub(super) fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let block = Pem::iter_from_buffer(pem).next().and_then(Result::ok);
        let block = block.filter(|block| block.label == LABEL).ok_or(Error::Pem)?;
        Self::from_der(block.contents)
    }

    fn from_der(der: Vec<u8>) -> Result<Self, Error> {
        let parsed = parse(&der)?;
        let subject = Subject::of(&parsed.certification_request_info.subject)?;
        let mut names = AltNames::default();
        for extension in extensions(&parsed)? {
            if extension.oid.to_id_string() == SUBJECT_ALT_NAME {
                names = AltNames::of(extension.value)?;
            }
        }
        Ok(Self { subject, names, der })
    }

    /// Verifies that the requestor has the private key, and returns the public key.
    ///
    /// # Errors
    /// The signature is wrong, or made with a key or an algorithm that this program does not support.
    pub(super) fn verified_key(&self) -> Result<PublicKey, Error> {
        signature::verify(&parse(&self.der)?)
    }
}

fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, Error> {
    let (rest, parsed) =
        X509CertificationRequest::from_der(der).map_err(|error| Error::Malformed(error.to_string()))?;
    if rest.is_empty() { Ok(parsed) } else { Err(Error::Malformed("trailing data".to_owned())) }
}

/// The extensions that a request asks for, each type once.
fn extensions<'a>(parsed: &'a X509CertificationRequest<'_>) -> Result<Vec<&'a X509Extension<'a>>, Error> {
    let mut all: Vec<&X509Extension<'_>> = Vec::new();
    for attribute in parsed.certification_request_info.iter_attributes() {
        if let ParsedCriAttribute::ExtensionRequest(request) = attribute.parsed_attribute() {
            for extension in &request.extensions {
                if all.iter().any(|other| other.oid == extension.oid) {
                    return Err(Error::Malformed("it has duplicate requested extensions".to_owned()));
                }
                all.push(extension);
            }
        }
    }
    Ok(all)
}
