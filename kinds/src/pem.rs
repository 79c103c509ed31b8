//! Decodes PEM as Go's `encoding/pem` does, so that this program and the API server see the same block.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// A block of PEM, without its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The label, such as `CERTIFICATE`.
    pub label: String,
    /// The decoded content.
    pub content: Vec<u8>,
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";
/// Go ignores surplus bits of the last character.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Returns the first well-formed block. Malformed blocks before it are skipped.
pub fn decode(data: &[u8]) -> Option<Block> {
    let mut from = 0;
    loop {
        let end = from + find(&data[from..], END)?;
        let trailer = end + END.len();
        match block_before(data, from, end) {
            Ok(block) => return Some(block),
            // The headers of a malformed block go on behind its end.
            Err(Malformed { read_to }) if read_to > trailer => return None,
            Err(_) => from = trailer,
        }
    }
}

/// A block that is not well-formed.
struct Malformed {
    /// The place behind the last line that belongs to the block.
    read_to: usize,
}

/// The block that begins last between `from` and the end marker at `end`.
fn block_before(data: &[u8], from: usize, end: usize) -> Result<Block, Malformed> {
    let malformed = |read_to: usize| Malformed { read_to };
    let begin = from + find_last(&data[from..end], BEGIN).ok_or(malformed(from))?;
    if begin > from && data[begin - 1] != b'\n' {
        return Err(malformed(from));
    }
    let (line, mut at) = line_at(data, begin + BEGIN.len());
    let label = line.strip_suffix(DASHES).ok_or(malformed(at))?;
    let body = at;
    loop {
        if at == data.len() {
            return Err(malformed(usize::MAX));
        }
        let (line, next) = line_at(data, at);
        if !line.contains(&b':') {
            break;
        }
        at = next;
    }
    if at > body && end < at {
        return Err(malformed(at));
    }
    let trailer = &data[end + END.len()..];
    let rest = trailer.strip_prefix(label).and_then(|rest| rest.strip_prefix(DASHES)).ok_or(malformed(at))?;
    if !line_at(rest, 0).0.is_empty() {
        return Err(malformed(at));
    }
    let is_text = |byte: &u8| !b" \t\r\n".contains(byte);
    let base64: Vec<u8> = data.get(at..end).unwrap_or_default().iter().copied().filter(is_text).collect();
    let content = BASE64.decode(base64).map_err(|_| malformed(at))?;
    Ok(Block { label: String::from_utf8_lossy(label).into_owned(), content })
}

/// The line at `from`, without the white space at its end, and the place of the next line.
fn line_at(data: &[u8], from: usize) -> (&[u8], usize) {
    let rest = &data[from..];
    let (line, next) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(length) => (rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]), from + length + 1),
        None => (rest, data.len()),
    };
    let length = line.iter().rposition(|byte| !b" \t".contains(byte)).map_or(0, |last| last + 1);
    (&line[..length], next)
}

fn find(data: &[u8], wanted: &[u8]) -> Option<usize> {
    data.windows(wanted.len()).position(|window| window == wanted)
}

fn find_last(data: &[u8], wanted: &[u8]) -> Option<usize> {
    data.windows(wanted.len()).rposition(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go 1.26's decoder makes of the same texts.
    #[test]
    fn blocks_are_decoded_as_go_decodes_them() {
        for (name, text, expected) in [
            ("plain", "-----BEGIN A-----\nQUJD\n-----END A-----\n", Some(("A", "ABC"))),
            ("no last newline", "-----BEGIN A-----\nQUJD\n-----END A-----", Some(("A", "ABC"))),
            ("text before", "text\n-----BEGIN A-----\nQUJD\n-----END A-----\n", Some(("A", "ABC"))),
            ("in a line", "text -----BEGIN A-----\nQUJD\n-----END A-----\n", None),
            ("carriage returns", "-----BEGIN A-----\r\nQUJD\r\n-----END A-----\r\n", Some(("A", "ABC"))),
            ("blanks", "-----BEGIN A----- \nQU JD\t\n-----END A----- \t\n", Some(("A", "ABC"))),
            ("headers", "-----BEGIN A-----\nK: v\nL: w\n\nQUJD\n-----END A-----\n", Some(("A", "ABC"))),
            ("empty", "-----BEGIN A-----\n-----END A-----\n", Some(("A", ""))),
            ("another label", "-----BEGIN A-----\nQUJD\n-----END B-----\n", None),
            ("text after the end", "-----BEGIN A-----\nQUJD\n-----END A----- x\n", None),
            ("no end", "-----BEGIN A-----\nQUJD\n", None),
            ("surplus bits", "-----BEGIN A-----\nQUJ=\n-----END A-----\n", Some(("A", "AB"))),
            ("no padding", "-----BEGIN A-----\nQUI\n-----END A-----\n", None),
            (
                "a malformed block before",
                "-----BEGIN A-----\n?\n-----END A-----\n-----BEGIN B-----\nQUJD\n-----END B-----\n",
                Some(("B", "ABC")),
            ),
            (
                "a beginning without end before",
                "-----BEGIN A-----\n-----BEGIN B-----\nQUJD\n-----END B-----\n",
                Some(("B", "ABC")),
            ),
            (
                "headers beyond the end",
                "-----BEGIN A:-----\nK: v\n-----END A:-----\n\n-----BEGIN B-----\nQUJD\n-----END B-----\n",
                None,
            ),
        ] {
            let expected =
                expected.map(|(label, content)| Block { label: label.into(), content: content.into() });
            assert_eq!(decode(text.as_bytes()), expected, "{name}");
        }
    }
}
