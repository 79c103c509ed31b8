//! The slices that mirror an Endpoints object.

use std::collections::{BTreeMap, HashMap, HashSet};

use steersman_kinds::endpoint_slice::{AddressType, Conditions, Endpoint, Member, Port};
use steersman_kinds::endpoints::{self, Subset};
use steersman_kinds::ip::{IpFamily, parse_sloppy};

use crate::endpoints::canonical::{port_rank, subset_rank};
use crate::endpoints::repack::{Offer, repack};
use crate::slices::port_key;

/// The endpoints of one slice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// The kind of address that the endpoints have.
    pub address_type: AddressType,
    /// The ports that all endpoints offer.
    pub ports: Vec<Port>,
    /// The endpoints. Empty if no slice of this type is needed for the ports.
    pub endpoints: Vec<Endpoint>,
}

/// The endpoints of all slices, and the addresses that are in none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Mirror {
    /// The slices.
    pub slices: Vec<Wanted>,
    /// The number of addresses that are not valid.
    pub invalid: usize,
    /// The number of addresses that are left out, invalid ones included.
    pub skipped: usize,
}

impl Mirror {
    /// Mirrors subsets. Takes at most `max` addresses of each subset, ready ones first.
    pub(super) fn of(subsets: &[Subset], max: usize) -> Self {
        let mut mirror = Self::default();
        // The places of the slices, by their type and ports.
        let mut places = HashMap::new();
        // Each address once.
        let mut seen = HashSet::new();
        for subset in repacked(subsets) {
            let ports: Vec<Port> = subset.ports.iter().map(port).collect();
            let groups = [AddressType::Ipv4, AddressType::Ipv6].map(|address_type| {
                *places.entry((address_type, port_key(&ports))).or_insert_with(|| {
                    let ports = ports.clone();
                    mirror.slices.push(Wanted { address_type, ports, endpoints: Vec::new() });
                    mirror.slices.len() - 1
                })
            });
            let ready = subset.addresses.iter().map(|address| (address, true));
            let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
            let (mut total, mut mirrored) = (0, 0);
            for (address, ready) in all {
                total += 1;
                if mirrored >= max {
                    continue;
                }
                let Some((address_type, endpoint)) = endpoint(address, ready) else {
                    mirror.invalid += 1;
                    continue;
                };
                mirrored += 1;
                let group = groups[usize::from(address_type == AddressType::Ipv6)];
                if seen.insert((group, Member::of(&endpoint).identity)) {
                    mirror.slices[group].endpoints.push(endpoint);
                }
            }
            mirror.skipped += total - mirrored;
        }
        mirror
    }
}

/// The subsets in canonical form, as upstream's `RepackSubsets`.
///
/// Repacking pairs each address with each port of its subset, and a user can write an object with thousands of both. So one
/// port stands for all those that are in the same subsets: they have the same addresses.
fn repacked(subsets: &[Subset]) -> Vec<Subset> {
    let bundles = bundles(subsets);
    let mut repacked = repack(offers(subsets, &bundles));
    let all: HashMap<&endpoints::Port, &Vec<endpoints::Port>> =
        bundles.values().map(|ports| (&ports[0], ports)).collect();
    for subset in &mut repacked {
        let ports = subset.ports.iter().flat_map(|port| all[port]).filter(|port| port.port > 0);
        subset.ports = ports.cloned().collect();
        subset.ports.sort_by_cached_key(port_rank);
    }
    if repacked.len() > 1 {
        repacked.sort_by_cached_key(subset_rank);
    }
    repacked
}

/// The ports by the subsets that have them. Of each bundle the port with the highest number is the first.
fn bundles(subsets: &[Subset]) -> BTreeMap<Vec<usize>, Vec<endpoints::Port>> {
    let mut places: HashMap<&endpoints::Port, Vec<usize>> = HashMap::new();
    for (at, subset) in subsets.iter().enumerate() {
        for port in &subset.ports {
            let places = places.entry(port).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
    let mut bundles: BTreeMap<Vec<usize>, Vec<endpoints::Port>> = BTreeMap::new();
    for (port, places) in places {
        bundles.entry(places).or_default().push(port.clone());
    }
    bundles.values_mut().for_each(|ports| ports.sort_unstable_by_key(|port| std::cmp::Reverse(port.port)));
    bundles
}

/// The addresses of all subsets, each with the first port of each bundle of its subset.
fn offers(
    subsets: &[Subset],
    bundles: &BTreeMap<Vec<usize>, Vec<endpoints::Port>>,
) -> impl Iterator<Item = Offer> {
    let mut firsts = vec![Vec::new(); subsets.len()];
    for (places, ports) in bundles {
        places.iter().for_each(|at| firsts[*at].push(ports[0].clone()));
    }
    subsets.iter().zip(firsts).flat_map(|(subset, ports)| {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        all.map(move |(address, ready)| Offer { address: address.clone(), ready, ports: ports.clone() })
    })
}

fn port(port: &endpoints::Port) -> Port {
    Port {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// The endpoint of an address. `None` if the address is not valid.
fn endpoint(address: &endpoints::Address, ready: bool) -> Option<(AddressType, Endpoint)> {
    let ip = parse_sloppy(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string().into()],
        conditions: Conditions { ready: Some(ready), serving: None, terminating: None },
        hostname: Some(address.hostname.clone()).filter(|name| !name.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        zone: None,
        hints: None,
    };
    Some((IpFamily::of(ip).into(), endpoint))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn subset(ready: &[u8], others: &[u8], ports: &[u8]) -> Subset {
        let address = |number: &u8| endpoints::Address {
            ip: format!("10.0.0.{number}").into(),
            ..endpoints::Address::default()
        };
        let port = |number: &u8| endpoints::Port {
            name: format!("p{number}").into(),
            port: i32::from(*number),
            protocol: "TCP".into(),
            app_protocol: None,
        };
        Subset {
            addresses: ready.iter().map(address).collect(),
            not_ready_addresses: others.iter().map(address).collect(),
            ports: ports.iter().map(port).collect(),
        }
    }

    /// Each address with each port of its subset.
    fn pairs(subsets: &[Subset]) -> impl Iterator<Item = Offer> {
        subsets.iter().flat_map(|subset| {
            let ready = subset.addresses.iter().map(|address| (address, true));
            let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
            all.map(|(address, ready)| Offer { address: address.clone(), ready, ports: subset.ports.clone() })
        })
    }

    proptest! {
        #[test]
        fn repacking_bundles_of_ports_equals_repacking_each_port(
            subsets in vec((vec(1..6_u8, 0..4), vec(1..6_u8, 0..3), vec(0..5_u8, 0..4)), 0..5),
        ) {
            let subsets: Vec<_> =
                subsets.iter().map(|(ready, others, ports)| subset(ready, others, ports)).collect();
            prop_assert_eq!(repacked(&subsets), repack(pairs(&subsets)));
        }
    }

    #[test]
    fn an_object_with_many_addresses_and_many_ports_is_not_multiplied() {
        let mut large = subset(&[], &[], &[]);
        for number in 0..1000_u16 {
            let [high, low] = number.to_be_bytes();
            let ip = format!("10.0.{high}.{low}").into();
            large.addresses.push(endpoints::Address { ip, ..endpoints::Address::default() });
            large.ports.push(endpoints::Port {
                name: format!("p{number}").into(),
                port: i32::from(number) + 1,
                protocol: "TCP".into(),
                app_protocol: None,
            });
        }
        let subsets = [large];
        let bundles = bundles(&subsets);
        let pairs: usize = offers(&subsets, &bundles).map(|offer| offer.ports.len()).sum();
        assert_eq!(pairs, 1000);
        let repacked = repacked(&subsets);
        assert_eq!((repacked.len(), repacked[0].addresses.len(), repacked[0].ports.len()), (1, 1000, 1000));
    }
}
