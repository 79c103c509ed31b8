//! `runtime.Unknown`: what says of which kind the bytes are.

use super::{Reader, WireError, Writer};

/// What every protobuf body and every object in a watch frame begins with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// A body taken apart; nothing is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// Such as `v1` or `batch/v1`.
    pub api_version: &'a str,
    /// Such as `PodList`.
    pub kind: &'a str,
    /// The object itself.
    pub raw: &'a [u8],
}

/// Takes a body apart.
///
/// # Errors
/// Bytes without the magic number, or that are not a `runtime.Unknown`.
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

/// Puts an object's bytes into an envelope.
pub fn wrap(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut writer = Writer::onto(MAGIC);
    writer.message(1, |type_meta| {
        type_meta.text(1, api_version);
        type_meta.text(2, kind);
    });
    writer.bytes(2, raw);
    // contentEncoding and contentType, which upstream always writes.
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
