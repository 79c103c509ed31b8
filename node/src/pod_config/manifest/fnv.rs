//! The hash that uids of static pods are made with: 128-bit FNV-1a.

/// Takes bytes in, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Fnv128a(u128);

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Fnv128a {
    pub(crate) fn new() -> Self {
        Self(OFFSET)
    }

    pub(crate) fn update(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
        self
    }

    /// 32 hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_the_published_hashes() {
        assert_eq!(Fnv128a::new().hex(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Fnv128a::new().update(b"a").hex(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Fnv128a::new().update(b"foo").update(b"bar").hex(), "343e1662793c64bf6f0d3597ba446f18");
    }
}
