//! Values in DER.

use x509_parser::der_parser::asn1_rs::{Any, FromDer, Tag};
use yasna::DERWriterSeq;

/// A sequence with the values that `fill` writes.
pub(super) fn sequence(fill: impl FnOnce(&mut DERWriterSeq<'_>)) -> Vec<u8> {
    yasna::construct_der(|writer| writer.write_sequence(fill))
}

/// The values in `der`, one after the other. `None` stands for a malformed value, and is the last item.
pub(super) fn elements(der: &[u8]) -> impl Iterator<Item = Option<Any<'_>>> {
    let mut rest = der;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let parsed = Any::from_der(rest).ok();
        rest = parsed.as_ref().map_or(&[], |(after, _)| after);
        Some(parsed.map(|(_, value)| value))
    })
}

/// Whether a value is a universal one of this tag, made of other values.
pub(super) fn is_constructed(value: &Any<'_>, tag: Tag) -> bool {
    value.header.is_universal() && value.header.is_constructed() && value.tag() == tag
}

/// Whether a value is a universal one of this tag, not made of other values.
pub(super) fn is_primitive(value: &Any<'_>, tag: Tag) -> bool {
    value.header.is_universal() && value.header.is_primitive() && value.tag() == tag
}
