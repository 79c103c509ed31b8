//! The endpoints that the slices of a service should contain.

use std::collections::HashMap;

use steersman_api::ArcStr;
use steersman_informer::View;
use steersman_kinds::endpoint_slice::{AddressType, Conditions, Endpoint, Member, Port};
use steersman_kinds::endpoints::TargetRef;
use steersman_kinds::ip::{IpFamily, parse_sloppy};
use steersman_kinds::pod::{Addresses, Offer, Phase, Placement, Readiness};
use steersman_kinds::service::Routing;
use steersman_kinds::shared::Shared;

use super::observed::Zones;
use crate::membership::{RoutedService, ServedPod, hostname, target_port};

/// The endpoints that offer the same ports.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// The ports, in the order of the service's.
    pub ports: Vec<Port>,
    /// The endpoints. Empty if none of the pods has an address of the type.
    pub endpoints: Vec<Wanted>,
}

/// An endpoint that some slice must contain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// The endpoint, without hints.
    pub endpoint: Endpoint,
    /// The hashes of the endpoint.
    pub member: Member,
    /// The pod's name.
    pub pod: ArcStr,
}

impl Wanted {
    /// Whether the endpoint should get traffic.
    pub(super) fn is_ready(&self) -> bool {
        self.endpoint.conditions.ready == Some(true)
    }
}

/// The endpoints of one address type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Groups {
    /// The endpoints, by ports.
    pub groups: Vec<Group>,
    /// The pods that were left out since there is no node of the name that they have, with that name.
    pub lost: Vec<(ArcStr, ArcStr)>,
}

impl Groups {
    /// The endpoints of these pods.
    pub(super) fn of(
        service: &View<RoutedService>,
        pods: &[View<ServedPod>],
        zones: &Zones,
        address_type: AddressType,
    ) -> Self {
        let mut all = Self::default();
        // The places of the groups, by their ports.
        let mut places: HashMap<Vec<Port>, usize> = HashMap::new();
        for pod in pods {
            let addresses = pod.get::<Addresses>();
            let has_address = addresses.primary().is_some() || !addresses.is_empty();
            if pod.get::<Phase>().is_terminal() || !has_address {
                continue;
            }
            let group = *places.entry(ports(service, pod)).or_insert_with_key(|ports| {
                all.groups.push(Group { ports: ports.clone(), endpoints: Vec::new() });
                all.groups.len() - 1
            });
            let node = &pod.get::<Placement>().node;
            let zone = match zones.get(node.as_arc()) {
                Some(zone) => zone.clone(),
                None if service.get::<Routing>().publish_not_ready_addresses => None,
                None => {
                    all.lost.push((pod.meta().key.name.clone(), node.as_arc().clone()));
                    continue;
                }
            };
            if let Some(endpoint) = endpoint(service, pod, zone, address_type) {
                let member = Member::of(&endpoint);
                let pod = pod.meta().key.name.clone();
                all.groups[group].endpoints.push(Wanted { endpoint, member, pod });
            }
        }
        all
    }
}

/// The ports that a pod offers to the service. A named port that the pod does not have is left out.
fn ports(service: &View<RoutedService>, pod: &View<ServedPod>) -> Vec<Port> {
    let offer = pod.get::<Shared<Offer>>();
    let resolve = |port: &steersman_kinds::service::ServicePort| {
        Some(Port {
            name: Some(port.name.as_arc().clone()),
            protocol: Some(port.protocol.as_arc().clone()),
            port: Some(target_port(port, offer)?),
            app_protocol: port.app_protocol.as_ref().map(|protocol| protocol.as_arc().clone()),
        })
    };
    service.get::<Routing>().ports.iter().filter_map(resolve).collect()
}

/// The endpoint of a pod, as upstream's `podToEndpoint`. `None` if the pod has no address of that type.
fn endpoint(
    service: &View<RoutedService>,
    pod: &View<ServedPod>,
    zone: Option<ArcStr>,
    address_type: AddressType,
) -> Option<Endpoint> {
    let family = if address_type == AddressType::Ipv6 { IpFamily::V6 } else { IpFamily::V4 };
    let address = pod.get::<Addresses>().address(family)?;
    let serving = pod.get::<Readiness>().ready.is_true();
    let terminating = pod.meta().is_deleting();
    let ready = service.get::<Routing>().publish_not_ready_addresses || (serving && !terminating);
    let node = pod.get::<Placement>().node.as_arc();
    let hostname = hostname(service, pod);
    let key = &pod.meta().key;
    Some(Endpoint {
        addresses: vec![address.to_string().into()],
        conditions: Conditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        hostname: Some(hostname).filter(|name| !name.is_empty()),
        target_ref: Some(TargetRef {
            kind: arcstr::literal!("Pod"),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: pod.meta().uid.clone(),
            ..TargetRef::default()
        }),
        node_name: Some(node.clone()).filter(|node| !node.is_empty()),
        zone,
        hints: None,
    })
}

/// The address types of a service's slices, as upstream's `getAddressTypesForService`. An old API server names no families:
/// then a headless service has slices of both types.
pub(super) fn address_types(routing: &Routing) -> Vec<AddressType> {
    let mut types: Vec<AddressType> = routing.ip_families.iter().map(|family| (*family).into()).collect();
    if types.is_empty() {
        types = match parse_sloppy(&routing.cluster_ip) {
            Some(address) => vec![IpFamily::of(address).into()],
            None if routing.has_cluster_ip() => vec![AddressType::Ipv4],
            None => vec![AddressType::Ipv4, AddressType::Ipv6],
        };
    }
    types.sort_unstable();
    types.dedup();
    types
}
