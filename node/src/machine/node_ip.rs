//! Which of a machine's addresses stands for it. Pure.

use std::net::IpAddr;

use super::{Family, Interface, Route};

/// Whether an address may stand for the node: it is one of the machine's, and others can reach it.
///
/// # Errors
/// Why not, in upstream's words.
pub fn validate(address: IpAddr, interfaces: &[Interface]) -> Result<(), String> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return Err("nodeIP can't be loopback address".to_owned());
    }
    if address.is_multicast() {
        return Err("nodeIP can't be a multicast address".to_owned());
    }
    if is_link_local(address) {
        return Err("nodeIP can't be a link-local unicast address".to_owned());
    }
    if address.is_unspecified() {
        return Err("nodeIP can't be an all zeros address".to_owned());
    }
    let mut all = interfaces.iter().flat_map(|interface| &interface.addresses);
    match all.any(|own| own.to_canonical() == address) {
        true => Ok(()),
        false => Err(format!("node IP: \"{address}\" not found in the host's network interfaces")),
    }
}

/// The machine's main address: the first global one of the interface by which a default route leaves, of the preferred
/// family if there is any. Without a table of routes it is the first global one of any interface that leads somewhere.
///
/// # Errors
/// There is none, in upstream's words.
pub fn choose(
    routes: Option<&[Route]>,
    interfaces: &[Interface],
    preferred: Family,
) -> Result<IpAddr, String> {
    let families = [preferred, preferred.other()];
    let Some(routes) = routes else {
        let leading = |one: &&Interface| one.up && !one.loopback && !one.point_to_point;
        let of = |family| interfaces.iter().filter(leading).find_map(|one| global_address(one, family));
        return families
            .into_iter()
            .find_map(of)
            .ok_or_else(|| "no acceptable interface with global unicast address found on host".to_owned());
    };
    for family in families {
        for route in routes.iter().filter(|route| route.family == family) {
            let named = interfaces.iter().find(|one| one.name == route.interface);
            let Some(interface) = named else {
                return Err(format!("route {}: no such network interface", route.interface));
            };
            // Where interfaces have link-local addresses only, the loopback carries the machine's own.
            let loopbacks = || interfaces.iter().filter(|one| one.up && one.loopback);
            let found = Some(interface)
                .filter(|one| one.up)
                .and_then(|one| global_address(one, family))
                .or_else(|| loopbacks().find_map(|one| global_address(one, family)));
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
    Err("unable to select an IP from default routes.".to_owned())
}

fn global_address(interface: &Interface, family: Family) -> Option<IpAddr> {
    let global = |address: &&IpAddr| Family::of(**address) == family && is_global_unicast(**address);
    interface.addresses.iter().find(global).map(|address| address.to_canonical())
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let reaches = !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
    reaches && !broadcast && !is_link_local(address)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Interface { name: name.to_owned(), up: true, addresses, ..Interface::default() }
    }

    fn loopback(addresses: &[&str]) -> Interface {
        Interface { loopback: true, ..interface("lo", addresses) }
    }

    fn route(interface: &str, family: Family) -> Route {
        Route { interface: interface.to_owned(), family }
    }

    #[test]
    fn an_address_must_be_the_machines_own_and_reachable() {
        let interfaces = [loopback(&["127.0.0.1"]), interface("eth0", &["10.0.0.1", "fd00::1"])];
        for (address, expected) in [
            ("10.0.0.1", Ok(())),
            ("::ffff:10.0.0.1", Ok(())),
            ("fd00::1", Ok(())),
            ("127.0.0.1", Err("nodeIP can't be loopback address")),
            ("224.0.0.1", Err("nodeIP can't be a multicast address")),
            ("169.254.1.1", Err("nodeIP can't be a link-local unicast address")),
            ("fe80::1", Err("nodeIP can't be a link-local unicast address")),
            ("0.0.0.0", Err("nodeIP can't be an all zeros address")),
            ("10.0.0.2", Err("node IP: \"10.0.0.2\" not found in the host's network interfaces")),
        ] {
            let found = validate(address.parse().unwrap(), &interfaces);
            assert_eq!(found, expected.map_err(str::to_owned), "{address}");
        }
    }

    #[test]
    fn the_interface_of_the_default_route_is_chosen() {
        let interfaces = [
            loopback(&["127.0.0.1", "::1"]),
            interface("cni0", &["10.88.0.1"]),
            interface("eth0", &["169.254.0.1", "192.0.2.2", "fe80::1", "fd00::2"]),
        ];
        let both = [route("eth0", Family::V4), route("eth0", Family::V6)];
        let chosen =
            |routes: &[Route], family| choose(Some(routes), &interfaces, family).map(|ip| ip.to_string());
        assert_eq!(chosen(&both, Family::V4).unwrap(), "192.0.2.2");
        assert_eq!(chosen(&both, Family::V6).unwrap(), "fd00::2");
        assert_eq!(chosen(&both[1..], Family::V4).unwrap(), "fd00::2", "the other family will do");
        assert_eq!(chosen(&[], Family::V4).unwrap_err(), "unable to select an IP from default routes.");
        assert!(chosen(&[route("gone", Family::V4)], Family::V4).is_err());
    }

    #[test]
    fn the_loopback_stands_in_for_an_interface_without_a_global_address() {
        let interfaces = [loopback(&["127.0.0.1", "198.51.100.7"]), interface("eth0", &["169.254.0.1"])];
        let routes = [route("eth0", Family::V4)];
        assert_eq!(choose(Some(&routes), &interfaces, Family::V4).unwrap().to_string(), "198.51.100.7");
    }

    #[test]
    fn without_a_table_of_routes_the_first_global_address_is_chosen() {
        let down = Interface { up: false, ..interface("eth0", &["192.0.2.1"]) };
        let tunnel = Interface { point_to_point: true, ..interface("tun0", &["192.0.2.3"]) };
        let interfaces = [loopback(&["198.51.100.7"]), down, tunnel, interface("eth1", &["192.0.2.4"])];
        assert_eq!(choose(None, &interfaces, Family::V6).unwrap().to_string(), "192.0.2.4");
        assert!(choose(None, &interfaces[..3], Family::V4).is_err());
    }
}
