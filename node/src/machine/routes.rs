//! Routes that lead out, by `/proc/net/route` and `/proc/net/ipv6_route`.

use std::net::{IpAddr, Ipv6Addr};

use super::{Error, Machine, malformed};

/// A kind of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Version 4.
    V4,
    /// Version 6.
    V6,
}

impl Family {
    /// Which one an address is of; one of version 4 in version 6's clothes is of version 4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The one that a node's addresses ask for: that of the first; version 4 where none were given.
    pub fn preferred(node_ips: &[IpAddr]) -> Self {
        node_ips.first().map_or(Self::V4, |address| Self::of(*address))
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The interface by which it leaves.
    pub interface: String,
    /// Of which family it is.
    pub family: Family,
}

const V4: &str = "/proc/net/route";
const V6: &str = "/proc/net/ipv6_route";

impl Machine {
    /// The default routes, those of version 4 first; `None` where the kernel keeps no table of them.
    ///
    /// # Errors
    /// A table can't be understood.
    pub fn default_routes(&self) -> Result<Option<Vec<Route>>, Error> {
        let Ok(table) = self.read(V4) else { return Ok(None) };
        let mut routes = default_routes_v4(&table).map_err(|why| malformed(V4, why))?;
        if let Ok(table) = self.read(V6) {
            routes.extend(default_routes_v6(&table).map_err(|why| malformed(V6, why))?);
        }
        Ok(Some(routes))
    }
}

/// Those in `/proc/net/route`: interface, destination, gateway, and more, after a line of titles.
pub fn default_routes_v4(table: &str) -> Result<Vec<Route>, String> {
    let mut routes = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with("Iface")) {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [interface, destination, ..] = fields[..] else { return Err(format!("no route: {line:?}")) };
        let to = u32::from_str_radix(destination, 16).map_err(|_| format!("no address: {destination:?}"))?;
        if to == 0 {
            routes.push(Route { interface: interface.to_owned(), family: Family::V4 });
        }
    }
    Ok(routes)
}

/// Those in `/proc/net/ipv6_route` that have a gateway: destination first, gateway fifth, interface tenth.
pub fn default_routes_v6(table: &str) -> Result<Vec<Route>, String> {
    let mut routes = Vec::new();
    for line in table.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [destination, _, _, _, gateway, _, _, _, _, interface, ..] = fields[..] else {
            return Err(format!("no route: {line:?}"));
        };
        if address(destination)?.is_unspecified() && !address(gateway)?.is_unspecified() {
            routes.push(Route { interface: interface.to_owned(), family: Family::V6 });
        }
    }
    Ok(routes)
}

fn address(digits: &str) -> Result<Ipv6Addr, String> {
    let bits = (digits.len() == 32).then(|| u128::from_str_radix(digits, 16).ok()).flatten();
    bits.map(Ipv6Addr::from_bits).ok_or_else(|| format!("no address: {digits:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(routes: &[Route]) -> Vec<&str> {
        routes.iter().map(|route| route.interface.as_str()).collect()
    }

    #[test]
    fn only_routes_to_anywhere_count() {
        let v4 = "Iface\tDestination\tGateway \tFlags\n\
                  eth0\t00000000\t010200C0\t0003\n\
                  cni0\t0000580A\t00000000\t0001\n";
        assert_eq!(names(&default_routes_v4(v4).unwrap()), ["eth0"]);
        let zero = "0".repeat(32);
        let gateway = format!("fe80{}", "1".repeat(28));
        let v6 = format!(
            "{zero} 00 {zero} 00 {gateway} 00000400 1 0 00000003 eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n\
             {gateway} 40 {zero} 00 {zero} 00000100 1 0 00000001 eth1\n"
        );
        assert_eq!(names(&default_routes_v6(&v6).unwrap()), ["eth1"]);
    }

    #[test]
    fn a_table_that_is_none_is_an_error() {
        assert!(default_routes_v4("eth0").is_err());
        assert!(default_routes_v4("eth0 xyz 0").is_err());
        assert!(default_routes_v6("a b").is_err());
        assert!(default_routes_v6("0 00 0 00 0 0 0 0 0 lo").is_err());
        assert!(Machine::this().default_routes().is_ok());
    }

    #[test]
    fn an_address_is_of_the_family_that_it_stands_for() {
        for (address, family) in
            [("10.0.0.1", Family::V4), ("::ffff:10.0.0.1", Family::V4), ("fd00::1", Family::V6)]
        {
            assert_eq!(Family::of(address.parse().unwrap()), family, "{address}");
        }
        assert_eq!(Family::V4.other(), Family::V6);
    }
}
