//! Groups the offers of pods into subsets, in the form that upstream's `RepackSubsets` gives them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use steersman_api::{ArcStr, Uid};

use super::canonical::{port_rank, subset_rank};
use steersman_kinds::endpoints::{Address, Port, Subset};

/// The address and ports that one pod offers to one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The pod's address.
    pub address: Address,
    /// Whether the address is ready.
    pub ready: bool,
    /// The ports. Empty for a headless service without ports, whose clients only look up the pod's name.
    pub ports: Vec<Port>,
}

/// Groups offers into as few subsets as possible, in canonical form.
///
/// Each port is in one subset, with all addresses that offer it. Ports that the same addresses offer with the same
/// readiness share a subset. Addresses with the same IP and the same target's uid are merged; if they are offered both as
/// ready and as not ready, the merged address is not ready. The result does not depend on the order of the offers:
/// addresses are sorted by IP (as text) and by the target's uid, ports and subsets by their canonical rank.
pub fn repack(offers: impl IntoIterator<Item = Offer>) -> Vec<Subset> {
    let mut addresses: Vec<Address> = Vec::new();
    let mut known: HashMap<(ArcStr, Option<Uid>), usize> = HashMap::new();
    // For each port, the addresses that offer it (as indexes into `addresses`), and whether they are ready.
    let mut offered: HashMap<Option<Port>, BTreeMap<usize, bool>> = HashMap::new();
    for Offer { address, ready, ports } in offers {
        let uid = address.target_ref.as_ref().map(|target| target.uid.clone());
        let place = *known.entry((address.ip.clone(), uid)).or_insert_with(|| {
            addresses.push(address);
            addresses.len() - 1
        });
        let portless = ports.is_empty().then_some(None);
        for port in portless.into_iter().chain(ports.into_iter().map(Some)) {
            *offered.entry(port).or_default().entry(place).or_insert(true) &= ready;
        }
    }

    let mut shared: HashMap<BTreeMap<usize, bool>, Vec<Port>> = HashMap::new();
    for (port, by) in offered {
        // Ports without a number are left out.
        shared.entry(by).or_default().extend(port.filter(|port| port.port > 0));
    }

    let mut subsets: Vec<Subset> = shared
        .into_iter()
        .map(|(by, mut ports)| {
            ports.sort_by_cached_key(port_rank);
            let in_state = |wanted: bool| {
                let places = by.iter().filter(|(_, ready)| **ready == wanted);
                let mut found: Vec<Address> = places.map(|(place, _)| addresses[*place].clone()).collect();
                found.sort_by(by_ip_and_uid);
                found
            };
            Subset { addresses: in_state(true), not_ready_addresses: in_state(false), ports }
        })
        .collect();
    if subsets.len() > 1 {
        subsets.sort_by_cached_key(subset_rank);
    }
    subsets
}

/// The order of upstream's `LessEndpointAddress`.
fn by_ip_and_uid(a: &Address, b: &Address) -> Ordering {
    let uid = |address: &Address| address.target_ref.as_ref().map(|target| target.uid.to_string());
    a.ip.as_bytes().cmp(b.ip.as_bytes()).then_with(|| uid(a).cmp(&uid(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use steersman_informer::wire::FieldValue;
    use steersman_kinds::endpoints::{Content, TargetRef};

    fn address(ip: &str, uid: &str) -> Address {
        let target_ref = Some(TargetRef {
            kind: "Pod".into(),
            namespace: "default".into(),
            name: uid.into(),
            uid: uid.into(),
            ..TargetRef::default()
        });
        Address { ip: ip.into(), target_ref, ..Address::default() }
    }

    fn port(name: &str, port: i32) -> Port {
        Port { name: name.into(), port, protocol: "TCP".into(), app_protocol: None }
    }

    fn offer(address: Address, ready: bool, ports: &[Port]) -> Offer {
        Offer { address, ready, ports: ports.to_vec() }
    }

    /// The expected subsets are the result of upstream's `RepackSubsets` for the same offers.
    #[test]
    fn subsets_and_ports_are_in_gos_order() {
        let on_node = Address { node_name: Some("n1".into()), ..address("10.0.0.1", "u-1") };
        let named = Address { hostname: "h".into(), ..address("10.0.0.2", "u-2") };
        let bare = Address { ip: "10.0.0.3".into(), ..Address::default() };
        let ports: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| port(name, 80)).into();
        let other = Port { app_protocol: Some("k8s.io/h2c".into()), protocol: "UDP".into(), ..port("", 443) };
        let subsets = repack([
            offer(on_node, true, &ports),
            offer(bare, false, &ports[..3]),
            offer(named, true, &[other]),
        ]);
        let target = |uid| json!({"kind": "Pod", "namespace": "default", "name": uid, "uid": uid});
        let on_node = json!({"ip": "10.0.0.1", "nodeName": "n1", "targetRef": target("u-1")});
        let tcp = |name| json!({"name": name, "port": 80, "protocol": "TCP"});
        let expected = json!([
            {
                "addresses": [{"ip": "10.0.0.2", "hostname": "h", "targetRef": target("u-2")}],
                "ports": [{"port": 443, "protocol": "UDP", "appProtocol": "k8s.io/h2c"}],
            },
            {"addresses": [on_node], "ports": [tcp("f"), tcp("d"), tcp("e")]},
            {"addresses": [on_node], "notReadyAddresses": [{"ip": "10.0.0.3"}], "ports": [tcp("c"), tcp("a"), tcp("b")]},
        ]);
        assert_eq!(subsets, Vec::<Subset>::from_json(&expected).unwrap());
    }

    /// The expected order is that which kube-controller-manager 1.36.3 wrote for a service with twenty ports.
    #[test]
    fn twenty_ports_of_three_protocols_are_in_gos_order() {
        let ports = (0..20_usize).map(|at| Port {
            protocol: ["TCP", "UDP", "SCTP"][at % 3].into(),
            ..port(&format!("p{at}"), 200 + i32::try_from(at % 7).unwrap())
        });
        let subsets = repack([offer(address("10.0.0.1", "a"), true, &Vec::from_iter(ports))]);
        let order: Vec<_> = subsets[0].ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(
            order,
            [
                "p14", "p1", "p17", "p12", "p0", "p19", "p11", "p7", "p18", "p15", "p10", "p13", "p16", "p2",
                "p5", "p9", "p6", "p3", "p4", "p8"
            ]
        );
    }

    #[test]
    fn not_ready_wins_over_ready_and_one_ip_may_have_several_targets() {
        let web = [port("web", 80)];
        let subsets = repack([
            offer(address("10.0.0.1", "b"), true, &web),
            offer(address("10.0.0.1", "a"), true, &web),
            offer(address("10.0.0.2", "c"), true, &web),
            offer(address("10.0.0.2", "c"), false, &web),
        ]);
        let [subset] = &subsets[..] else { panic!("{subsets:?}") };
        assert_eq!(subset.addresses, [address("10.0.0.1", "a"), address("10.0.0.1", "b")]);
        assert_eq!(subset.not_ready_addresses, [address("10.0.0.2", "c")]);
    }

    #[test]
    fn addresses_without_ports_share_a_subset_without_ports() {
        let subsets = repack([offer(address("2", "b"), false, &[]), offer(address("10", "a"), true, &[])]);
        let [subset] = &subsets[..] else { panic!("{subsets:?}") };
        assert_eq!((subset.addresses.len(), subset.not_ready_addresses.len(), subset.ports.len()), (1, 1, 0));
    }

    /// Offers with few different addresses and ports, so that many of them share some.
    fn offers() -> impl Strategy<Value = Vec<Offer>> {
        let one =
            (0..6_u8, 0..3_u8, any::<bool>(), proptest::collection::btree_set((0..3_u8, 1..3_i32), 0..3));
        let one = one.prop_map(|(ip, uid, ready, ports)| Offer {
            address: address(&format!("10.0.0.{ip}"), &format!("u{uid}")),
            ready,
            ports: ports.into_iter().map(|(name, number)| port(&format!("p{name}"), number)).collect(),
        });
        proptest::collection::vec(one, 0..12)
    }

    /// The offers that result in these subsets.
    fn unpack(subsets: &[Subset]) -> Vec<Offer> {
        let each = subsets.iter().flat_map(|subset| {
            let ready = subset.addresses.iter().map(|address| (address, true));
            let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
            all.map(|(address, ready)| offer(address.clone(), ready, &subset.ports))
        });
        each.collect()
    }

    proptest! {
        #[test]
        fn the_order_of_offers_makes_no_difference(
            (ordered, shuffled) in offers().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
        ) {
            prop_assert_eq!(repack(ordered), repack(shuffled));
        }

        #[test]
        fn repacking_canonical_subsets_changes_nothing(offers in offers()) {
            let subsets = repack(offers);
            prop_assert_eq!(&repack(unpack(&subsets)), &subsets);
        }

        #[test]
        fn each_port_is_in_one_subset_and_the_content_is_unchanged(offers in offers()) {
            let subsets = repack(offers.clone());
            let ports: Vec<_> = subsets.iter().flat_map(|subset| &subset.ports).collect();
            for (at, port) in ports.iter().enumerate() {
                prop_assert!(!ports[..at].contains(port));
            }
            let split: Vec<Subset> = unpack(&subsets)
                .into_iter()
                .map(|offer| Subset { addresses: vec![offer.address], ports: offer.ports, ..Subset::default() })
                .collect();
            let ready: Vec<Subset> = subsets
                .iter()
                .cloned()
                .map(|mut subset| {
                    subset.addresses.append(&mut subset.not_ready_addresses);
                    subset
                })
                .collect();
            prop_assert_eq!(Content::of_subsets(&split), Content::of_subsets(&ready));
        }
    }
}
