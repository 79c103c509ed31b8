//! IP addresses, decoded to numbers.

use std::net::IpAddr;

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use steersman_api::ArcStr;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpFamily {
    /// `IPv4`, and any other name that is not `IPv6`.
    #[default]
    V4,
    /// `IPv6`.
    V6,
}

impl IpFamily {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// Parses an address as upstream's `ParseIPSloppy` does: it ignores leading zeros in the parts of an IPv4 address, and
/// returns an IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`) as IPv4.
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let mut parts = [0; 4];
    let mut texts = text.split('.');
    for part in &mut parts {
        let digits = texts.next().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        *part = digits.parse().ok()?;
    }
    texts.next().is_none().then(|| IpAddr::from(parts))
}

/// Decodes a family from its name.
impl FieldValue for IpFamily {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        *self = Self::named(field.text()?);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ArcStr::from_json(deserializer).map(|name| Self::named(&name))
    }
}

impl IpFamily {
    fn named(name: &str) -> Self {
        if name == "IPv6" { Self::V6 } else { Self::V4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        for (text, address) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.08", Some("10.0.0.8")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("FD00:0::1", Some("fd00::1")),
            ("10.0.0", None),
            ("10.0.0.256", None),
            ("10.0.0.1.2", None),
            ("10.0.0.+1", None),
            ("", None),
        ] {
            assert_eq!(parse_sloppy(text).map(|ip| ip.to_string()).as_deref(), address, "{text}");
        }
    }
}
