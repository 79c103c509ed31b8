//! The PEM block of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The label of the block.
pub(super) const LABEL: &str = "CERTIFICATE REQUEST";

/// The content of the first block. `None` if it has another label, or if Go's decoder would skip it as malformed: Go programs,
/// such as the API server, then see a later block.
pub(super) fn block(text: &[u8]) -> Option<Vec<u8>> {
    let mut lines = text.split(|byte| *byte == b'\n').map(trim_end);
    let begin = lines.find(|line| line.starts_with(b"-----BEGIN "))?;
    if begin != format!("-----BEGIN {LABEL}-----").as_bytes() {
        return None;
    }
    let mut base64 = Vec::new();
    let end = loop {
        match lines.next()? {
            line if line.starts_with(b"-----") => break line,
            line => base64.extend_from_slice(line),
        }
    };
    (end == format!("-----END {LABEL}-----").as_bytes()).then(|| STANDARD.decode(base64).ok())?
}

/// A line without the white space that Go ignores at its end: a carriage return, and blanks and tabs before it.
fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let length = line.iter().rposition(|byte| !b" \t".contains(byte)).map_or(0, |last| last + 1);
    &line[..length]
}
