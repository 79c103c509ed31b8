//! The attributes of a request, such as the extensions that it asks for.

use x509_parser::der_parser::asn1_rs::Tag;

use super::super::der::{elements, is_constructed, is_primitive};
use super::Error;

/// Checks that each attribute is a sequence of a type and a set of values. `info` is the part of a request that is signed, in
/// DER.
///
/// Go ignores attributes of another form. `x509_parser` reads some of them, since it does not look at the classes of tags.
///
/// # Errors
/// An attribute has another form.
pub(super) fn check(info: &[u8]) -> Result<(), Error> {
    let malformed = || Error::Malformed("an attribute is malformed".to_owned());
    let info = elements(info).next().flatten().ok_or_else(malformed)?;
    // The version, the subject and the key come first.
    let Some(attributes) = elements(info.data).nth(3) else { return Ok(()) };
    for attribute in elements(attributes.ok_or_else(malformed)?.data) {
        let attribute = attribute.filter(|attribute| is_constructed(attribute, Tag::Sequence));
        let attribute = attribute.ok_or_else(malformed)?;
        let mut parts = elements(attribute.data).map(|part| part.ok_or_else(malformed));
        let (kind, values) = (parts.next().transpose()?, parts.next().transpose()?);
        if !kind.is_some_and(|kind| is_primitive(&kind, Tag::Oid))
            || !values.is_some_and(|values| is_constructed(&values, Tag::Set))
        {
            return Err(malformed());
        }
    }
    Ok(())
}
