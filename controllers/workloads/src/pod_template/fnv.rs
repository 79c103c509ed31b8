//! Hashes that upstream puts into names.

use std::fmt;

use steersman_api::ArcStr;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The hash FNV-1a of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fnv1a(u32);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Fnv1a {
    /// Adds bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME));
    }

    /// The hash of all bytes so far.
    pub(crate) fn sum(self) -> u32 {
        self.0
    }
}

impl fmt::Write for Fnv1a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// The hash FNV-1 of 32 bits. Upstream has it for the names of a StatefulSet's revisions.
pub(crate) fn fnv1(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    bytes.fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(*byte))
}

/// Upstream's `SafeEncodeString` of a number in decimal digits: letters that hardly make a word.
pub(crate) fn safe_encode(hash: u32) -> ArcStr {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let digits = hash.to_string();
    let letters = digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()]));
    letters.collect::<String>().into()
}
