//! What the node says of itself.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::events::{EventType, Events};

/// Something to be said of the node, once what it follows from was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// Good news or bad.
    pub kind: EventType,
    /// Such as `NodeReady`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl NodeEvent {
    /// The status of the node is now `reason`.
    pub fn status(node_name: &str, reason: &'static str) -> Self {
        let message = format!("Node {node_name} status is now: {reason}");
        Self { kind: EventType::Normal, reason, message }
    }

    /// The agent has started.
    pub fn starting() -> Self {
        Self { kind: EventType::Normal, reason: "Starting", message: "Starting kubelet.".to_owned() }
    }

    /// The machine was restarted.
    pub fn rebooted(node_name: &str, boot_id: &str) -> Self {
        let message = format!("Node {node_name} has been rebooted, boot id: {boot_id}");
        Self { kind: EventType::Warning, reason: "Rebooted", message }
    }

    /// Says it.
    pub fn say(&self, involved: &ObjectReference, events: &Events) {
        events.event(involved, self.kind, self.reason, &self.message);
    }
}

/// The reference by which events name a node: without its uid, which the node learns late.
pub fn node_reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}
