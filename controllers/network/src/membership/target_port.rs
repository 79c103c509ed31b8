//! What a pod offers to a service: the number of a port, and a name in DNS.

use steersman_api::ArcStr;
use steersman_informer::View;
use steersman_informer::wire::IntOrString;
use steersman_kinds::pod::{DnsName, Offer};
use steersman_kinds::ports::NamedPort;
use steersman_kinds::service::ServicePort;

use super::{RoutedService, ServedPod};

/// The number of the pod's port for a port of the service, as upstream's `FindPort`. Looks up a named target port in the
/// containers, then in the sidecars. `None` if no container port has that name and protocol.
pub(crate) fn target_port(port: &ServicePort, offer: &Offer) -> Option<i32> {
    match &port.target_port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let fits = |named: &&NamedPort| named.name == name.as_str() && named.protocol == port.protocol;
            Some(offer.ports.iter().chain(offer.sidecar_ports.iter()).find(fits)?.port)
        }
    }
}

/// The pod's hostname, if the pod names this service as its subdomain; else empty.
pub(crate) fn hostname(service: &View<RoutedService>, pod: &View<ServedPod>) -> ArcStr {
    let (name, meta) = (pod.get::<DnsName>(), service.meta());
    if name.subdomain == meta.key.name.as_str() && pod.meta().key.namespace == meta.key.namespace {
        name.hostname.clone()
    } else {
        ArcStr::new()
    }
}
