//! `runtime.Unknown`, the protobuf envelope that names the kind of the object within.

use super::{Reader, WireError, Writer};

/// The first bytes of every protobuf body, and of every object in a watch frame.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// A decoded envelope. It borrows from the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// The group and version, such as `v1` or `batch/v1`.
    pub api_version: &'a str,
    /// The kind, such as `PodList`.
    pub kind: &'a str,
    /// The object's own protobuf message.
    pub raw: &'a [u8],
}

/// Decodes the envelope of a body.
///
/// # Errors
/// The body does not begin with [`MAGIC`], or does not continue with a `runtime.Unknown`.
pub fn unwrap(body: &[u8]) -> Result<Envelope<'_>, WireError> {
    let mut reader = Reader::new(body.strip_prefix(MAGIC).ok_or(WireError::NoEnvelope)?);
    let mut envelope = Envelope::default();
    while let Some(field) = reader.field()? {
        match field.number {
            1 => {
                let mut type_meta = field.message()?;
                while let Some(field) = type_meta.field()? {
                    match field.number {
                        1 => envelope.api_version = field.text()?,
                        2 => envelope.kind = field.text()?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = field.bytes()?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Encodes a body: the envelope around an object's protobuf message.
pub fn wrap(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut writer = Writer::onto(MAGIC);
    writer.message(1, |type_meta| {
        type_meta.text(1, api_version);
        type_meta.text(2, kind);
    });
    writer.bytes(2, raw);
    // `contentEncoding` and `contentType`: upstream always writes them.
    writer.text(3, "");
    writer.text(4, "");
    writer.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_reads_back() {
        let body = wrap("batch/v1", "Job", b"raw");
        assert_eq!(unwrap(&body), Ok(Envelope { api_version: "batch/v1", kind: "Job", raw: b"raw" }));
    }

    #[test]
    fn a_body_without_the_magic_number_is_refused() {
        assert_eq!(unwrap(b"{}"), Err(WireError::NoEnvelope));
    }
}
