//! Subjects: whom a certificate is for.

use x509_parser::der_parser::asn1_rs::Any;
use x509_parser::x509::X509Name;
use yasna::DERWriter;
use yasna::models::ObjectIdentifier;

use super::super::der::sequence;
use super::Error;

/// The last arc of the types of attributes (2.5.4.x, in DER 0x55 4 x) that Go's `pkix.Name` knows, in the order in which it writes them:
/// country, province, locality, street, postal code, organization, organizational unit, common name, serial number.
const TYPES: [u64; 9] = [6, 8, 7, 9, 17, ORGANIZATION, 11, COMMON_NAME, SERIAL_NUMBER];
const COMMON_NAME: u64 = 3;
const SERIAL_NUMBER: u64 = 5;
const ORGANIZATION: u64 = 10;

/// The attributes of a subject that Go's `pkix.Name` keeps. It drops all others, and so do Kubernetes's certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Subject {
    /// The values of each of [`TYPES`]. A subject has at most one common name and one serial number: the last ones count.
    values: [Vec<String>; TYPES.len()],
}

impl Subject {
    /// Reads a name.
    ///
    /// # Errors
    /// A value is not of the string type that it claims to have.
    pub(super) fn of(name: &X509Name<'_>) -> Result<Self, Error> {
        let mut subject = Self::default();
        for attribute in name.iter_attributes() {
            let Some(value) = text(attribute.attr_value())? else { continue };
            let &[0x55, 4, last] = attribute.attr_type().as_bytes() else { continue };
            let Some(at) = TYPES.iter().position(|kind| *kind == u64::from(last)) else { continue };
            if [COMMON_NAME, SERIAL_NUMBER].contains(&TYPES[at]) {
                subject.values[at].clear();
            }
            subject.values[at].push(value);
        }
        Ok(subject)
    }

    /// The organizations: the groups of the user that the certificate stands for.
    pub(in super::super) fn organizations(&self) -> &[String] {
        self.of_type(ORGANIZATION)
    }

    /// The common name: the user that the certificate stands for. Empty if there is none.
    pub(in super::super) fn common_name(&self) -> &str {
        self.of_type(COMMON_NAME).first().map_or("", String::as_str)
    }

    fn of_type(&self, kind: u64) -> &[String] {
        TYPES.iter().position(|other| *other == kind).map_or(&[], |at| &self.values[at])
    }

    /// The subject in DER, as Go writes it: the values of one type share a set.
    pub(in super::super) fn to_der(&self) -> Vec<u8> {
        sequence(|sets| {
            for (kind, values) in TYPES.into_iter().zip(&self.values) {
                let only_empty = values.iter().all(String::is_empty);
                if values.is_empty() || only_empty && [COMMON_NAME, SERIAL_NUMBER].contains(&kind) {
                    continue;
                }
                sets.next().write_set_of(|set| {
                    for value in values {
                        set.next().write_sequence(|attribute| {
                            attribute.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 4, kind]));
                            write_text(attribute.next(), value);
                        });
                    }
                });
            }
        })
    }
}

/// A text in the string type that Go chooses: PrintableString where that is possible.
fn write_text(writer: DERWriter<'_>, text: &str) {
    if text.bytes().all(is_printable) {
        writer.write_printable_string(text);
    } else {
        writer.write_utf8_string(text);
    }
}

/// Whether a PrintableString may have this character. Go's `isPrintable`, for what it writes.
fn is_printable(character: u8) -> bool {
    character.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&character)
}

/// The text of a value, as Go's `encoding/asn1` reads it. `None` if it has none of the string types that Go knows.
fn text(value: &Any<'_>) -> Result<Option<String>, Error> {
    const UTF8: u32 = 12;
    const NUMERIC: u32 = 18;
    const PRINTABLE: u32 = 19;
    const TELETEX: u32 = 20;
    const IA5: u32 = 22;
    const BMP: u32 = 30;
    let malformed = |what: &str| Error::Malformed(format!("its subject has a malformed {what}"));
    // Go takes a tag of another class for an unknown type.
    if !value.header.is_universal() || value.header.is_constructed() {
        return Ok(None);
    }
    let data = value.data;
    let of_bytes = |what: &str, is_valid: fn(u8) -> bool| match std::str::from_utf8(data) {
        Ok(text) if data.iter().copied().all(is_valid) => Ok(Some(text.to_owned())),
        _ => Err(malformed(what)),
    };
    match value.tag().0 {
        UTF8 => of_bytes("UTF8String", |_| true),
        TELETEX => of_bytes("T61String", |_| true),
        IA5 => of_bytes("IA5String", |byte| byte.is_ascii()),
        NUMERIC => of_bytes("NumericString", |byte| byte.is_ascii_digit() || byte == b' '),
        PRINTABLE => of_bytes("PrintableString", |byte| is_printable(byte) || b"*&".contains(&byte)),
        BMP if data.len().is_multiple_of(2) => {
            let data = data.strip_suffix(&[0, 0]).unwrap_or(data);
            let units = data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            Ok(Some(
                char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
            ))
        }
        BMP => Err(malformed("BMPString")),
        _ => Ok(None),
    }
}
