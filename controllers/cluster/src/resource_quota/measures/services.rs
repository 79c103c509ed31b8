//! What a service uses of quotas.

use steersman_api::Quantity;
use steersman_kinds::service::Exposure;

use super::super::amounts::Amounts;

/// What a service uses. The node ports of a service are counted as it asks for them, before they are allocated.
pub(crate) fn of_service(service: &Exposure) -> Amounts {
    let ports = &service.ports;
    let (balancers, node_ports) = match &*service.kind {
        "NodePort" => (0, ports.all),
        "LoadBalancer" if service.allocate_node_ports == Some(false) => (1, ports.with_node_port),
        "LoadBalancer" => (1, ports.all),
        _ => (0, 0),
    };
    let mut usage = Amounts::one_each(["count/services", "services"]);
    usage.set("services.loadbalancers", Quantity::new(balancers));
    usage.set("services.nodeports", Quantity::new(node_ports.into()));
    usage
}
