//! The slices that mirror an Endpoints object.

use std::collections::HashSet;

use steersman_kinds::endpoint_slice::{AddressType, Conditions, Endpoint, Member, Port};
use steersman_kinds::endpoints::{self, Subset};
use steersman_kinds::ip::{IpFamily, parse_sloppy};

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
        // Each address once.
        let mut seen = HashSet::new();
        for subset in repack(subsets.iter().flat_map(offers)) {
            let ports: Vec<Port> = subset.ports.iter().map(port).collect();
            let groups = [AddressType::Ipv4, AddressType::Ipv6].map(|kind| mirror.slice(kind, &ports));
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

    /// The place of the slice with these ports.
    fn slice(&mut self, address_type: AddressType, ports: &[Port]) -> usize {
        let key = port_key(ports);
        let is_it = |slice: &Wanted| slice.address_type == address_type && port_key(&slice.ports) == key;
        self.slices.iter().position(is_it).unwrap_or_else(|| {
            self.slices.push(Wanted { address_type, ports: ports.to_vec(), endpoints: Vec::new() });
            self.slices.len() - 1
        })
    }
}

fn offers(subset: &Subset) -> impl Iterator<Item = Offer> {
    let ready = subset.addresses.iter().map(|address| (address, true));
    let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
    all.map(|(address, ready)| Offer { address: address.clone(), ready, ports: subset.ports.clone() })
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
