//! The ports of slices: which are the same, and their order.

use std::fmt::Write;

use steersman_kinds::endpoint_slice::Port;

use crate::endpoints::canonical::rank;

/// The ports in an order that does not depend on the given one. Two slices have the same ports if this is the same for both.
pub fn port_key(ports: &[Port]) -> Vec<Port> {
    let mut key = ports.to_vec();
    key.sort_unstable();
    key
}

/// Sorts the ports of a new slice as upstream's `portsInOrder`: by a hash of the text in which Go prints them.
pub fn canonical_order(ports: &mut [Port]) {
    ports.sort_by_cached_key(|Port { name, protocol, port, app_protocol }| {
        rank(|out| {
            let text = |text: &Option<_>| text.as_ref().map_or_else(|| "<nil>".to_owned(), ToString::to_string);
            let (name, protocol, app_protocol) = (text(name), text(protocol), text(app_protocol));
            let port = port.map_or_else(|| "<nil>".to_owned(), |port| port.to_string());
            write!(
                out,
                "(v1.EndpointPort){{Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){port} \
                 AppProtocol:(*string){app_protocol}}}"
            )
        })
    });
}
