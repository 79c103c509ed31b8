//! Certificate requests (PKCS#10), read as Go's `crypto/x509` reads them.
//!
//! Requests come from anybody who may create one, so nothing in them is trusted: each length is checked, and what this
//! program would not understand is refused.
//!
//! The API server and approvers look at a request before it gets here, and read it with Go's parsers. So nothing may be read
//! of a request that Go's parsers do not see: a group that they overlook would be signed unseen.

use std::collections::BTreeSet;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::X509Extension;
use x509_parser::prelude::FromDer;

mod attributes;
mod names;
mod pem;
mod signature;
mod subject;
#[cfg(test)]
mod tests;
mod uri;

pub(super) use names::AltNames;
pub(super) use signature::{KeyKind, PublicKey};
pub(super) use subject::Subject;

/// The type of the extension with the alternative names of a subject, 2.5.29.17, in DER.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];

/// Why a request can't be read, or must not be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The request is not in PEM, or in a block of another type.
    #[error("PEM block type must be {}", pem::LABEL)]
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
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, Error> {
        Self::from_der(pem::block(text).ok_or(Error::Pem)?)
    }

    fn from_der(der: Vec<u8>) -> Result<Self, Error> {
        let parsed = parse(&der)?;
        let subject = Subject::of(&parsed.certification_request_info.subject)?;
        let mut names = AltNames::default();
        for extension in extensions(&parsed)? {
            if extension.oid.as_bytes() == SUBJECT_ALT_NAME {
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
    attributes::check(parsed.certification_request_info.raw)?;
    let (mut all, mut types) = (Vec::new(), BTreeSet::new());
    for attribute in parsed.certification_request_info.iter_attributes() {
        if let ParsedCriAttribute::ExtensionRequest(request) = attribute.parsed_attribute() {
            for extension in &request.extensions {
                // A request can have a hundred thousand extensions, so each is looked up, and not compared with all others.
                if !types.insert(extension.oid.as_bytes()) {
                    return Err(Error::Malformed("it has duplicate requested extensions".to_owned()));
                }
                all.push(extension);
            }
        }
    }
    Ok(all)
}
