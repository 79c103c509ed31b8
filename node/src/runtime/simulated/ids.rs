//! Identifiers that look like a runtime's: 64 hexadecimal digits, the same in each run.

/// The `n`th.
pub(super) fn nth(n: u64) -> String {
    let mut seed = n;
    (0..4).map(|_| format!("{:016x}", split_mix(&mut seed))).collect()
}

/// One for a text.
pub(super) fn of_text(text: &str) -> String {
    // FNV-1a, 64 bits.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    nth(hash)
}

/// The next number of the generator SplitMix64.
fn split_mix(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_of_a_runtimes_length_and_differ() {
        let ids: BTreeSet<_> = (0..1000).map(nth).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert_ne!(of_text("a"), of_text("b"));
    }
}
