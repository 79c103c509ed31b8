//! Computes what a pod offers to a service that selects it: an address and ports.

use std::net::IpAddr;

use steersman_informer::View;

use super::repack::Offer;
use crate::membership::{RoutedService, ServedPod, hostname, target_port};
use steersman_kinds::endpoints::{Address, Port, TargetRef};
use steersman_kinds::ip::{IpFamily, parse_sloppy};
use steersman_kinds::pod::{self, Addresses, Phase, Placement, Readiness};
use steersman_kinds::service::{Routing, ServicePort};
use steersman_kinds::shared::Shared;

/// The pod's offer to the service. `None` if the service's Endpoints must not list the pod.
pub fn offer(service: &View<RoutedService>, pod: &View<ServedPod>) -> Option<Offer> {
    let routing = service.get::<Routing>();
    let any_state = routing.publish_not_ready_addresses;
    if pod.get::<Phase>().is_terminal() || (pod.meta().is_deleting() && !any_state) {
        return None;
    }
    let ip = address(routing, pod.get::<Addresses>())?;
    let offer = pod.get::<Shared<pod::Offer>>();
    let ports: Vec<Port> = routing.ports.iter().filter_map(|port| resolve(port, offer)).collect();
    // Skip a pod that offers none of the service's ports. Only a headless service may have no ports at all.
    if ports.is_empty() && !(routing.ports.is_empty() && routing.is_headless()) {
        return None;
    }
    Some(Offer {
        address: Address {
            ip: ip.to_string().into(),
            hostname: hostname(service, pod),
            node_name: Some(pod.get::<Placement>().node.as_arc().clone()),
            target_ref: Some(TargetRef {
                kind: arcstr::literal!("Pod"),
                namespace: pod.meta().key.namespace.clone(),
                name: pod.meta().key.name.clone(),
                uid: pod.meta().uid.clone(),
                ..TargetRef::default()
            }),
        },
        ready: any_state || pod.get::<Readiness>().ready.is_true(),
        ports,
    })
}

/// The pod's address in the service's primary IP family. If the service does not name its families, this guesses the family
/// as upstream does.
fn address(routing: &Routing, addresses: &Addresses) -> Option<IpAddr> {
    let family = match routing.ip_families.first() {
        Some(family) => *family,
        None if routing.has_cluster_ip() => {
            parse_sloppy(&routing.cluster_ip).map(IpFamily::of).unwrap_or_default()
        }
        None => addresses.primary().unwrap_or_default(),
    };
    addresses.address(family)
}

/// The pod's port for a port of the service.
fn resolve(port: &ServicePort, offer: &pod::Offer) -> Option<Port> {
    Some(Port {
        name: port.name.as_arc().clone(),
        port: target_port(port, offer)?,
        protocol: port.protocol.as_arc().clone(),
        app_protocol: port.app_protocol.as_ref().map(|protocol| protocol.as_arc().clone()),
    })
}
