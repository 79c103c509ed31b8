//! IP addresses, decoded to numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use steersman_informer::projection;
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

/// The first address of each family in a list. A valid pod has at most one of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpPair {
    /// The first IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// The first IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl IpPair {
    /// The address of a family.
    pub fn of(&self, family: IpFamily) -> Option<IpAddr> {
        match family {
            IpFamily::V4 => self.v4.map(IpAddr::from),
            IpFamily::V6 => self.v6.map(IpAddr::from),
        }
    }

    /// Whether there is no address.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, text: &str) {
        match parse_sloppy(text) {
            Some(IpAddr::V4(address)) => _ = self.v4.get_or_insert(address),
            Some(IpAddr::V6(address)) => _ = self.v6.get_or_insert(address),
            None => {}
        }
    }
}

projection! {
    /// A `PodIP` or a `HostIP`.
    struct Entry {
        pub ip: ArcStr = 1 "ip",
    }
}

impl FieldValue for IpPair {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut message = field.message()?;
        while let Some(field) = message.field()? {
            if field.number == 1 {
                self.add(field.text()?);
            }
        }
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut pair = Self::default();
        Vec::<Entry>::from_json(deserializer)?.iter().for_each(|entry| pair.add(&entry.ip));
        Ok(pair)
    }
}

/// The family of an address; `None` if there is no address, or it is not valid. Discards the address itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyOf(pub Option<IpFamily>);

impl FieldValue for FamilyOf {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0 = parse_sloppy(field.text()?).map(IpFamily::of);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ArcStr::from_json(deserializer).map(|text| Self(parse_sloppy(&text).map(IpFamily::of)))
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
