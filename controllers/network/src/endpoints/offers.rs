//! Computes what a pod offers to a service that selects it: an address and ports.

use std::net::IpAddr;

use steersman_api::ArcStr;
use steersman_informer::View;
use steersman_informer::wire::IntOrString;

use super::repack::Offer;
use super::{RoutedService, ServedPod};
use steersman_kinds::endpoints::{Address, Port, TargetRef};
use steersman_kinds::ip::{IpFamily, parse_sloppy};
use steersman_kinds::pod::{self, Addresses, Phase, Placement, Readiness};
use steersman_kinds::ports::NamedPort;
use steersman_kinds::service::{Routing, ServicePort};

/// The pod's offer to the service. `None` if the service's Endpoints must not list the pod.
pub fn offer(service: &View<RoutedService>, pod: &View<ServedPod>) -> Option<Offer> {
    let routing = service.get::<Routing>();
    let any_state = routing.publish_not_ready_addresses;
    if pod.get::<Phase>().is_terminal() || (pod.meta().is_deleting() && !any_state) {
        return None;
    }
    let ip = address(routing, pod.get::<Addresses>())?;
    let ports: Vec<Port> = routing.ports.iter().filter_map(|port| resolve(port, pod.get())).collect();
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
        None => addresses.primary.0.unwrap_or_default(),
    };
    addresses.ips.of(family)
}

/// The pod's hostname, if the pod names this service as its subdomain; else empty.
fn hostname(service: &View<RoutedService>, pod: &View<ServedPod>) -> ArcStr {
    let offer = pod.get::<pod::Offer>();
    let meta = service.meta();
    if offer.subdomain == meta.key.name.as_str() && pod.meta().key.namespace == meta.key.namespace {
        offer.hostname.clone()
    } else {
        ArcStr::new()
    }
}

/// The pod's port for a port of the service. Looks up a named target port in the containers, then in the sidecars. `None`
/// if no container port has that name and protocol.
fn resolve(port: &ServicePort, offer: &pod::Offer) -> Option<Port> {
    let number = match &port.target_port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let fits = |named: &&NamedPort| named.name == name.as_str() && named.protocol == port.protocol;
            offer.ports.iter().chain(offer.sidecar_ports.iter()).find(fits)?.port
        }
    };
    Some(Port {
        name: port.name.as_arc().clone(),
        port: number,
        protocol: port.protocol.as_arc().clone(),
        app_protocol: port.app_protocol.as_ref().map(|protocol| protocol.as_arc().clone()),
    })
}
