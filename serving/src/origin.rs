//! Where connections come from, and how many come from where.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// The part of a client's address that the client can't choose: an address of IPv4, or a network of 64 bits of IPv6, all of
/// whose addresses one machine can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(Ipv6Addr);

/// The number of connections from each origin.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    counts: HashMap<Origin, usize>,
    /// The largest of `counts`; 0 if there are none.
    most: usize,
}

impl Origin {
    /// The origin of a connection from this address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64),
        })
    }
}

impl Origins {
    /// The number of connections from this origin.
    pub fn count(&self, origin: Origin) -> usize {
        self.counts.get(&origin).copied().unwrap_or_default()
    }

    /// Whether no other origin has more connections than this one, which has some. A server without room closes a connection
    /// from such an origin, so that a flood from one address displaces only itself.
    pub fn is_largest(&self, origin: Origin) -> bool {
        self.counts.get(&origin).is_some_and(|count| *count == self.most)
    }
}

impl FromIterator<Origin> for Origins {
    /// Counts connections: one for each item.
    fn from_iter<T: IntoIterator<Item = Origin>>(connections: T) -> Self {
        let mut all = Self::default();
        for origin in connections {
            let count = all.counts.entry(origin).or_default();
            *count += 1;
            all.most = all.most.max(*count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        let origin = |address: &str| Origin::of(address.parse().unwrap());
        assert_eq!(origin("10.0.0.1"), origin("::ffff:10.0.0.1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::3:4:5:6"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
    }

    #[test]
    fn the_largest_origins_have_the_most_connections() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|last| Origin::of([10, 0, 0, last].into()));
        let all: Origins = [a, b, b, c, c].into_iter().collect();
        assert_eq!([a, b, c, d].map(|origin| all.is_largest(origin)), [false, true, true, false]);
        assert_eq!([a, b, c, d].map(|origin| all.count(origin)), [1, 2, 2, 0]);
        assert!(!Origins::default().is_largest(a));
    }
}
