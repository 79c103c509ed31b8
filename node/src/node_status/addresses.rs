//! `status.addresses`. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeAddress};

use super::settings::Settings;
use crate::machine::{Family, Interface, Route, node_ip};

/// What is observed of the machine's network.
#[derive(Debug, Clone, Default)]
pub struct HostNetwork {
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// Its default routes; `None` where there is no table of them.
    pub routes: Option<Vec<Route>>,
    /// The addresses to which the node's name resolves; only looked at where [`needs_lookup`] says so.
    pub resolved: Vec<IpAddr>,
}

/// Tells a cloud controller the address that the node was given.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Whether the node's name must be resolved to know its address.
pub fn needs_lookup(settings: &Settings) -> bool {
    given(settings, 0).is_none() && settings.node_name.parse::<IpAddr>().is_err()
}

/// Sets the addresses: those given, which must be the machine's own (but on a node that only its machine reaches), else that of the host's name where it is one, else the one to which the node's name
/// resolves, else that of the default route. With an external cloud provider what it has set stays.
///
/// # Errors
/// There is no address, or a given one is not the machine's; in upstream's words. The addresses stay as they were.
pub fn set(node: &mut Node, settings: &Settings, network: &HostNetwork) -> Result<(), String> {
    let (first, second) = (given(settings, 0), given(settings, 1));
    for (address, what) in [(first, "nodeIP"), (second, "secondaryNodeIP")] {
        if let Some(address) = address.filter(|address| !(settings.loopback && address.is_loopback())) {
            node_ip::validate(address, &network.interfaces)
                .map_err(|error| format!("failed to validate {what}: {error}"))?;
        }
    }
    set_annotation(node, settings, first, second);
    let addresses = &mut node.status.get_or_insert_default().addresses;
    if settings.external_cloud_provider {
        if addresses.as_ref().is_some_and(|addresses| !addresses.is_empty()) {
            return Ok(());
        }
        if settings.node_ips.is_empty() {
            *addresses = Some(vec![address("Hostname", &settings.node_name)]);
            return Ok(());
        }
    }
    let mut found = match (first, second) {
        (Some(first), Some(second)) => vec![first, second],
        (Some(first), None) => vec![first],
        (None, _) => vec![chosen(settings, network)?],
    };
    found.iter_mut().for_each(|address| *address = address.to_canonical());
    let internal = found.iter().map(|found| address("InternalIP", &found.to_string()));
    *addresses = Some(internal.chain([address("Hostname", &settings.node_name)]).collect());
    Ok(())
}

/// The address of the node where none was given.
fn chosen(settings: &Settings, network: &HostNetwork) -> Result<IpAddr, String> {
    if let Ok(address) = settings.node_name.parse() {
        return Ok(address);
    }
    let preferred = Family::preferred(&settings.node_ips);
    let valid = |address: &&IpAddr| node_ip::validate(**address, &network.interfaces).is_ok();
    let valid: Vec<_> = network.resolved.iter().filter(valid).collect();
    let resolved = valid.iter().find(|address| Family::of(***address) == preferred).or(valid.first());
    if let Some(address) = resolved {
        return Ok(**address);
    }
    node_ip::choose(network.routes.as_deref(), &network.interfaces, preferred)
        .map_err(|error| format!("can't get ip address of node {}. error: {error}", settings.node_name))
}

fn set_annotation(node: &mut Node, settings: &Settings, first: Option<IpAddr>, second: Option<IpAddr>) {
    match first.filter(|_| settings.external_cloud_provider) {
        Some(first) => {
            let text = [Some(first), second].into_iter().flatten().map(|address| address.to_string());
            let text = text.collect::<Vec<_>>().join(",");
            node.metadata.annotations.get_or_insert_default().insert(PROVIDED_NODE_IP.to_owned(), text);
        }
        None => {
            if let Some(annotations) = &mut node.metadata.annotations {
                annotations.remove(PROVIDED_NODE_IP);
            }
        }
    }
}

/// An address that was given, rather than only a family.
fn given(settings: &Settings, at: usize) -> Option<IpAddr> {
    settings.node_ips.get(at).copied().filter(|address| !address.is_unspecified())
}

fn address(kind: &str, address: &str) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}

/// The addresses as pods are told them: one of each family, that of the first address first; internal ones before
/// external ones.
pub fn host_ips(node: &Node) -> Vec<String> {
    let all = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let of = |kind| all.clone().filter(move |address| address.type_ == kind);
    let mut ips =
        of("InternalIP").chain(of("ExternalIP")).filter_map(|address| address.address.parse::<IpAddr>().ok());
    let Some(first) = ips.next() else { return Vec::new() };
    let second = ips.find(|address| Family::of(*address) != Family::of(first));
    [Some(first), second].into_iter().flatten().map(|address| address.to_string()).collect()
}
