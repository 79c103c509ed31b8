//! Ports of the host.

use k8s_openapi::api::core::v1::{ContainerPort, Pod};

use super::Unfit;
use crate::restart_policy::is_restartable_init_container;

/// A port of the host: all addresses, or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostPort<'a> {
    address: &'a str,
    protocol: &'a str,
    port: i32,
}

const ANY: &str = "0.0.0.0";

impl HostPort<'_> {
    fn conflicts(&self, other: &Self) -> bool {
        let same_address = self.address == other.address || self.address == ANY || other.address == ANY;
        same_address && self.protocol == other.protocol && self.port == other.port
    }
}

/// A port that another pod has can't be had twice.
pub(super) fn unfit(pod: &Pod, others: &[&Pod]) -> Option<Unfit> {
    let taken: Vec<_> = others.iter().flat_map(|other| host_ports(other)).collect();
    let conflict = host_ports(pod).any(|wanted| taken.iter().any(|taken| wanted.conflicts(taken)));
    conflict.then_some(Unfit::Predicate(
        "NodePorts",
        "node(s) didn't have free ports for the requested pod ports",
    ))
}

/// Those of containers that run as long as the pod does.
fn host_ports(pod: &Pod) -> impl Iterator<Item = HostPort<'_>> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| {
        let lasting = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|container| is_restartable_init_container(container));
        lasting.chain(&spec.containers)
    });
    containers.flat_map(|container| container.ports.iter().flatten()).filter_map(host_port)
}

fn host_port(port: &ContainerPort) -> Option<HostPort<'_>> {
    Some(HostPort {
        address: or_usual(port.host_ip.as_deref(), ANY),
        protocol: or_usual(port.protocol.as_deref(), "TCP"),
        port: port.host_port.filter(|port| *port > 0)?,
    })
}

fn or_usual<'a>(text: Option<&'a str>, usual: &'a str) -> &'a str {
    text.filter(|text| !text.is_empty()).unwrap_or(usual)
}
