//! EndpointSlices in the form in which the controllers write them.

use steersman_api::ArcStr;
use steersman_api::wire::{self, Writer};
use steersman_kinds::endpoint_slice::{AddressType, Conditions, Endpoint, Hints, Port};

use crate::metadata::Metadata;
use crate::metadata::write_target;

/// A complete EndpointSlice for a create or an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The metadata that a client can set.
    pub metadata: Metadata,
    /// The kind of address that the endpoints have.
    pub address_type: AddressType,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
    /// The ports that all endpoints offer.
    pub ports: Vec<Port>,
}

impl Manifest {
    /// Encodes the object as protobuf in Kubernetes's envelope.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let mut object = Writer::new();
        object.message(1, |metadata| self.metadata.write(metadata));
        for endpoint in &self.endpoints {
            object.message(2, |message| write_endpoint(message, endpoint));
        }
        for port in &self.ports {
            object.message(3, |message| write_port(message, port));
        }
        object.text(4, self.address_type.as_str());
        wire::wrap("discovery.k8s.io/v1", "EndpointSlice", &object.into_bytes())
    }
}

fn write_endpoint(message: &mut Writer, endpoint: &Endpoint) {
    let Endpoint { addresses, conditions, hostname, target_ref, node_name, zone, hints } = endpoint;
    addresses.iter().for_each(|address| message.text(1, address));
    message.message(2, |message| write_conditions(message, conditions));
    write_text(message, 3, hostname.as_ref());
    if let Some(target) = target_ref {
        message.message(4, |message| write_target(message, target));
    }
    write_text(message, 6, node_name.as_ref());
    write_text(message, 7, zone.as_ref());
    if let Some(hints) = hints {
        message.message(8, |message| write_hints(message, hints));
    }
}

fn write_conditions(message: &mut Writer, conditions: &Conditions) {
    let Conditions { ready, serving, terminating } = conditions;
    for (number, condition) in [(1, ready), (2, serving), (3, terminating)] {
        if let Some(holds) = condition {
            message.bool(number, *holds);
        }
    }
}

fn write_hints(message: &mut Writer, hints: &Hints) {
    for (number, places) in [(1, &hints.for_zones), (2, &hints.for_nodes)] {
        places.iter().for_each(|place| message.message(number, |message| message.text(1, &place.name)));
    }
}

fn write_port(message: &mut Writer, port: &Port) {
    let Port { name, protocol, port, app_protocol } = port;
    write_text(message, 1, name.as_ref());
    write_text(message, 2, protocol.as_ref());
    if let Some(port) = port {
        message.int64(3, i64::from(*port));
    }
    write_text(message, 4, app_protocol.as_ref());
}

fn write_text(message: &mut Writer, number: u32, text: Option<&ArcStr>) {
    if let Some(text) = text {
        message.text(number, text);
    }
}
