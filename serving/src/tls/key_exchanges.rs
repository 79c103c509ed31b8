//! Key exchange groups by the numbers that configurations use (`--tls-curve-preferences`).

use rustls::NamedGroup;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;

/// The key exchange groups that the server uses with its clients. The server chooses among those of the client in an order of its
/// own, as upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyExchanges {
    /// All that the server has, the default.
    #[default]
    All,
    /// These only, at least one of which the server has.
    Only(Vec<NamedGroup>),
}

/// Why a list of groups can't be used. The process should not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeyExchanges {
    /// No group can have this number.
    #[error("curve preference {0} is out of range (must be 1-65535)")]
    OutOfRange(i32),
    /// The list has a number twice.
    #[error("duplicate curve preference {0}")]
    Duplicate(i32),
    /// Upstream knows no group of this number.
    #[error("curve preference {0} is not supported")]
    Unknown(i32),
    /// The server has none of the groups, so that no client could connect.
    #[error("this server has none of these key exchanges, but {}", available())]
    NoneAvailable,
}

/// Groups that upstream, built with Go 1.26, knows and this server lacks: P-521, and the hybrids with ML-KEM of P-256, X25519 and
/// P-384.
const LACKING: [u16; 4] = [25, 4587, 4588, 4589];

impl KeyExchanges {
    /// The groups with these numbers of TLS; all groups if there are no numbers. Logs a warning for each group that this server
    /// lacks.
    ///
    /// # Errors
    /// If a number is invalid, or the server has none of the groups.
    pub fn numbered(numbers: &[i32]) -> Result<Self, InvalidKeyExchanges> {
        if numbers.is_empty() {
            return Ok(Self::All);
        }
        let known: Vec<NamedGroup> = default_provider().kx_groups.iter().map(|group| group.name()).collect();
        let mut named = Vec::new();
        for (at, &number) in numbers.iter().enumerate() {
            let out_of_range = InvalidKeyExchanges::OutOfRange(number);
            let code = u16::try_from(number).ok().filter(|code| *code > 0).ok_or(out_of_range)?;
            if numbers[..at].contains(&number) {
                return Err(InvalidKeyExchanges::Duplicate(number));
            }
            let group = NamedGroup::from(code);
            if known.contains(&group) {
                named.push(group);
            } else if LACKING.contains(&code) {
                tracing::warn!(number, "This server lacks a key exchange of the configuration");
            } else {
                return Err(InvalidKeyExchanges::Unknown(number));
            }
        }
        if named.is_empty() { Err(InvalidKeyExchanges::NoneAvailable) } else { Ok(Self::Only(named)) }
    }

    /// Removes all other groups from the provider.
    pub(super) fn restrict(&self, provider: &mut CryptoProvider) {
        if let Self::Only(named) = self {
            provider.kx_groups.retain(|group| named.contains(&group.name()));
        }
    }
}

/// The groups of this server with their numbers.
fn available() -> String {
    let groups = default_provider().kx_groups;
    let groups = groups.iter().map(|group| format!("{} ({:?})", u16::from(group.name()), group.name()));
    groups.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(numbers: &[i32]) -> Vec<NamedGroup> {
        let mut provider = default_provider();
        KeyExchanges::numbered(numbers).unwrap().restrict(&mut provider);
        provider.kx_groups.iter().map(|group| group.name()).collect()
    }

    #[test]
    fn the_groups_that_are_numbered_are_left_in_the_servers_order() {
        assert_eq!(left(&[]), [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1]);
        assert_eq!(left(&[24, 29]), [NamedGroup::X25519, NamedGroup::secp384r1]);
        assert_eq!(left(&[4588, 23]), [NamedGroup::secp256r1]);
    }

    #[test]
    fn invalid_lists_are_refused_in_upstreams_words() {
        for (numbers, why) in [
            (&[0][..], "curve preference 0 is out of range (must be 1-65535)"),
            (&[70000], "curve preference 70000 is out of range (must be 1-65535)"),
            (&[23, 29, 23], "duplicate curve preference 23"),
            (&[9999], "curve preference 9999 is not supported"),
            (
                &[4588, 25],
                "this server has none of these key exchanges, but 29 (X25519), 23 (secp256r1), 24 (secp384r1)",
            ),
        ] {
            assert_eq!(KeyExchanges::numbered(numbers).unwrap_err().to_string(), why);
        }
    }
}
