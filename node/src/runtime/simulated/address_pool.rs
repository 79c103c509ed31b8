//! The addresses that sandboxes get.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::runtime::{Code, Error, Result};

/// A range of IPv4 addresses, such as `10.88.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCidr {
    network: u32,
    prefix: u8,
}

impl PodCidr {
    /// The last address as a distance from the network's.
    fn last(self) -> u32 {
        u32::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0)
    }
}

impl Default for PodCidr {
    /// `10.88.0.0/16`.
    fn default() -> Self {
        Self { network: u32::from(Ipv4Addr::new(10, 88, 0, 0)), prefix: 16 }
    }
}

impl FromStr for PodCidr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad =
            || Error::status(Code::InvalidArgument, format!("{text:?} is not a range of IPv4 addresses"));
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(bad)?;
        let range = Self { network: 0, prefix };
        Ok(Self { network: u32::from(address) & !range.last(), prefix })
    }
}

/// Hands out addresses in turn, so that one is used again as late as can be. The first is the network's, the second the
/// bridge's, the last is for broadcasts: none of those is given.
#[derive(Debug, Default)]
pub(super) struct AddressPool {
    range: PodCidr,
    taken: BTreeSet<Ipv4Addr>,
    /// The distance of the address given last.
    latest: u32,
}

impl AddressPool {
    pub(super) fn new(range: PodCidr) -> Self {
        Self { range, ..Self::default() }
    }

    /// From now on addresses are of `range`; those given stay.
    pub(super) fn set_range(&mut self, range: PodCidr) {
        if self.range != range {
            self.range = range;
            self.latest = 0;
        }
    }

    /// One that nobody has; `None` when all are taken.
    pub(super) fn take(&mut self) -> Option<Ipv4Addr> {
        let (first, end) = (2, self.range.last());
        let start = (self.latest + 1).clamp(first, end.max(first));
        let distance = (start..end)
            .chain(first..start.min(end))
            .find(|distance| !self.taken.contains(&Ipv4Addr::from(self.range.network + distance)))?;
        self.latest = distance;
        let address = Ipv4Addr::from(self.range.network + distance);
        self.taken.insert(address);
        Some(address)
    }

    /// Gives one back.
    pub(super) fn give_back(&mut self, address: Ipv4Addr) {
        self.taken.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(range: &str) -> AddressPool {
        AddressPool::new(range.parse().unwrap())
    }

    #[test]
    fn addresses_go_round_and_none_is_given_twice() {
        let mut pool = pool("10.1.2.9/29");
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).map(|address| address.octets()[3]).collect();
        assert_eq!(all, [10, 11, 12, 13, 14]);
        pool.give_back(Ipv4Addr::new(10, 1, 2, 11));
        pool.give_back(Ipv4Addr::new(10, 1, 2, 13));
        assert_eq!(pool.take(), Some(Ipv4Addr::new(10, 1, 2, 11)));
        assert_eq!(pool.take(), Some(Ipv4Addr::new(10, 1, 2, 13)));
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn an_address_given_back_is_used_last() {
        let mut pool = pool("10.1.2.0/24");
        let first = pool.take().unwrap();
        pool.give_back(first);
        assert_ne!(pool.take(), Some(first));
    }

    #[test]
    fn ranges_without_room_give_none() {
        for range in ["10.0.0.1/32", "10.0.0.0/31"] {
            assert_eq!(pool(range).take(), None, "{range}");
        }
        assert_eq!(pool("255.255.255.0/24").take(), Some(Ipv4Addr::new(255, 255, 255, 2)));
        assert_eq!(pool("0.0.0.0/0").take(), Some(Ipv4Addr::new(0, 0, 0, 2)));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "fd00::/64", "a/8"] {
            assert_eq!(text.parse::<PodCidr>().unwrap_err().code(), Code::InvalidArgument, "{text}");
        }
    }
}
