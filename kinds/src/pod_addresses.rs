//! The IP addresses of a pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Message, WireError, ignore, nullable};
use steersman_informer::{decoded_as_message, projection};

use super::ip::{IpFamily, parse_sloppy};

/// The pod's IP addresses: the first of each family. A valid pod has at most one of each.
///
/// It takes no more than [`INLINE`](steersman_informer::wire::packed::INLINE) bytes, since the cache of pods has one for each pod that
/// runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Pods of most clusters have none, so it takes room only where there is one.
    v6: Option<Box<Ipv6Addr>>,
    v4: Option<Ipv4Addr>,
    primary: Option<IpFamily>,
}

projection! {
    /// A `PodIP`.
    struct PodIp {
        pub ip: ArcStr = 1 "ip",
    }
}

impl Addresses {
    /// The family of the pod's primary address, which is the first in the pod's list. `None` if the pod has no address, or it
    /// is not valid.
    pub fn primary(&self) -> Option<IpFamily> {
        self.primary
    }

    /// The address of a family.
    pub fn address(&self, family: IpFamily) -> Option<IpAddr> {
        match family {
            IpFamily::V4 => self.v4.map(IpAddr::from),
            IpFamily::V6 => self.v6.as_deref().copied().map(IpAddr::from),
        }
    }

    /// Whether the pod's list has no address.
    pub fn is_empty(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    fn add(&mut self, text: &str) {
        match parse_sloppy(text) {
            Some(IpAddr::V4(address)) => _ = self.v4.get_or_insert(address),
            Some(IpAddr::V6(address)) => _ = self.v6.get_or_insert_with(|| Box::new(address)),
            None => {}
        }
    }

    fn set_primary(&mut self, text: &str) {
        self.primary = parse_sloppy(text).map(IpFamily::of);
    }
}

impl Message for Addresses {
    fn merge_field(&mut self, field: Field<'_>) -> Result<(), WireError> {
        match field.number {
            6 => self.set_primary(field.text()?),
            12 => {
                let mut address = field.message()?;
                while let Some(field) = address.field()? {
                    if field.number == 1 {
                        self.add(field.text()?);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn has_member(&self, name: &str) -> bool {
        matches!(name, "podIP" | "podIPs")
    }

    fn merge_member<'de, D: Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error> {
        match name {
            "podIP" => self.set_primary(&nullable::<ArcStr, D>(value)?),
            "podIPs" => nullable::<Vec<PodIp>, D>(value)?.iter().for_each(|address| self.add(&address.ip)),
            _ => ignore(value)?,
        }
        Ok(())
    }
}

impl FieldValue for Addresses {
    decoded_as_message!(6, 12);

    fn heap_bytes(&self) -> usize {
        self.v6.as_deref().map_or(0, size_of_val)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_informer::wire::{Encoding, Group, Object};

    use super::super::pod::Pod;
    use super::*;

    fn addresses(status: &serde_json::Value) -> Addresses {
        let pod = json!({"metadata": {"name": "a"}, "status": status}).to_string();
        let pod = Pod::decode(&pod.into(), Encoding::Json, Addresses::BIT).unwrap();
        Addresses::of(&pod).unwrap().clone()
    }

    #[test]
    fn the_first_address_of_each_family_counts_and_invalid_ones_do_not() {
        let all = ["fd00::1", "no address", "10.0.0.1", "10.0.0.2", "fd00::2"].map(|ip| json!({"ip": ip}));
        let both = addresses(&json!({"podIP": "fd00::1", "podIPs": all}));
        let text = |family| both.address(family).map(|ip| ip.to_string());
        assert_eq!(text(IpFamily::V4).as_deref(), Some("10.0.0.1"));
        assert_eq!(text(IpFamily::V6).as_deref(), Some("fd00::1"));
        assert_eq!((both.primary(), both.is_empty()), (Some(IpFamily::V6), false));
        let none = addresses(&json!({"podIP": "no address", "podIPs": null}));
        assert_eq!((none.primary(), none.is_empty()), (None, true));
    }
}
