//! The content of a certificate, as Go's `x509.CreateCertificate` writes it for Kubernetes's signers.

use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::super::der::sequence;
use super::super::request::{PublicKey, Request};
use super::usages::Usages;
use super::validity::{Validity, to_der};

const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];

/// An empty sequence.
const EMPTY: &[u8] = &[0x30, 0];

/// A certificate without its signature.
pub(super) struct ToBeSigned<'a> {
    /// Random, and unique for its authority: a positive number, its highest byte first.
    pub serial: [u8; 16],
    /// The algorithm of the signature, in DER.
    pub algorithm: &'a [u8],
    /// The subject of the authority, in DER.
    pub issuer: &'a [u8],
    /// The identifier of the authority's key. Empty if the authority's certificate has none.
    pub issuer_key: &'a [u8],
    pub request: &'a Request,
    pub key: &'a PublicKey,
    pub usages: &'a Usages,
    pub validity: &'a Validity,
}

impl ToBeSigned<'_> {
    /// The bytes to sign.
    pub(super) fn to_der(&self) -> Vec<u8> {
        let subject = self.request.subject.to_der();
        sequence(|certificate| {
            // Version 3.
            certificate.next().write_tagged(Tag::context(0), |version| version.write_u8(2));
            certificate.next().write_bigint_bytes(&self.serial, true);
            certificate.next().write_der(self.algorithm);
            certificate.next().write_der(self.issuer);
            certificate.next().write_sequence(|validity| {
                validity.next().write_der(&to_der(self.validity.not_before));
                validity.next().write_der(&to_der(self.validity.not_after));
            });
            certificate.next().write_der(&subject);
            self.key.write(certificate.next());
            certificate.next().write_tagged(Tag::context(3), |extensions| {
                extensions.write_sequence(|extensions| self.write_extensions(extensions, &subject));
            });
        })
    }

    fn write_extensions(&self, extensions: &mut DERWriterSeq<'_>, subject: &[u8]) {
        if let Some(usage) = self.usages.key_usage() {
            write_extension(extensions.next(), KEY_USAGE, Criticality::Critical, &usage);
        }
        if let Some(usage) = self.usages.extended_key_usage() {
            write_extension(extensions.next(), EXTENDED_KEY_USAGE, Criticality::Optional, &usage);
        }
        // The certificate is none of an authority.
        write_extension(extensions.next(), BASIC_CONSTRAINTS, Criticality::Critical, EMPTY);
        if !self.issuer_key.is_empty() && self.issuer != subject {
            let identifier = sequence(|identifier| {
                let tag = Tag::context(0);
                identifier.next().write_tagged_implicit(tag, |key| key.write_bytes(self.issuer_key));
            });
            write_extension(extensions.next(), AUTHORITY_KEY_IDENTIFIER, Criticality::Optional, &identifier);
        }
        if !self.request.names.is_empty() {
            let without_subject = subject == EMPTY;
            let criticality = if without_subject { Criticality::Critical } else { Criticality::Optional };
            write_extension(extensions.next(), SUBJECT_ALT_NAME, criticality, &self.request.names.to_der());
        }
    }
}

/// Whether programs that do not know an extension must refuse the certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Criticality {
    Critical,
    Optional,
}

fn write_extension(writer: DERWriter<'_>, kind: &[u64], criticality: Criticality, value: &[u8]) {
    writer.write_sequence(|extension| {
        extension.next().write_oid(&ObjectIdentifier::from_slice(kind));
        if criticality == Criticality::Critical {
            extension.next().write_bool(true);
        }
        extension.next().write_bytes(value);
    });
}
