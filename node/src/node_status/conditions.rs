//! `status.conditions`. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::events::NodeEvent;
use super::pressure::Pressure;
use crate::aggregate::aggregate;

/// What a pressure's condition says, under it and without it: event, reason, message.
type Words = [(&'static str, &'static str, &'static str); 2];

fn words(pressure: Pressure) -> Words {
    match pressure {
        Pressure::Memory => [
            (
                "NodeHasInsufficientMemory",
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
            ),
            (
                "NodeHasSufficientMemory",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
        ],
        Pressure::Disk => [
            (
                "NodeHasDiskPressure",
                "KubeletHasDiskPressure",
                // Upstream's message ends at the colon: its kubelet frees the space itself.
                "kubelet has disk pressure: it does not remove images or evict pods, so free disk space by hand",
            ),
            ("NodeHasNoDiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ],
        Pressure::Pid => [
            ("NodeHasInsufficientPID", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ("NodeHasSufficientPID", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ],
    }
}

/// Sets the three conditions of pressure; says what changed.
pub fn set_pressures(node: &mut Node, seen: &BTreeSet<Pressure>, now: Timestamp) -> Vec<NodeEvent> {
    let name = node.metadata.name.clone().unwrap_or_default();
    let mut events = Vec::new();
    for pressure in [Pressure::Memory, Pressure::Disk, Pressure::Pid] {
        let condition = condition_mut(node, pressure.condition());
        condition.last_heartbeat_time = Some(Time(now));
        let (status, (event, reason, message)) = match seen.contains(&pressure) {
            true => ("True", words(pressure)[0]),
            false => ("False", words(pressure)[1]),
        };
        if condition.status != status {
            status.clone_into(&mut condition.status);
            condition.reason = Some(reason.to_owned());
            condition.message = Some(message.to_owned());
            condition.last_transition_time = Some(Time(now));
            events.push(NodeEvent::status(&name, event));
        }
    }
    events
}

/// Sets the condition Ready, by what is wrong with the node (nothing: it is ready) and by what its capacity lacks. To be
/// called after all other setters: the condition comes last, and looks at the capacity. Says what changed.
pub fn set_ready(
    node: &mut Node,
    mut wrong: Vec<String>,
    required: &[&str],
    now: Timestamp,
) -> Option<NodeEvent> {
    let name = node.metadata.name.clone().unwrap_or_default();
    let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let known = |resource: &&&str| capacity.is_none_or(|capacity| !capacity.contains_key(**resource));
    let missing: Vec<_> = required.iter().filter(known).copied().collect();
    if !missing.is_empty() {
        wrong.push(format!("missing node capacity for resources: {}", missing.join(", ")));
    }
    let (status, event, reason, message) = match aggregate(wrong) {
        None => ("True", "NodeReady", "KubeletReady", "kubelet is posting ready status".to_owned()),
        Some(wrong) => ("False", "NodeNotReady", "KubeletNotReady", wrong),
    };
    let condition = condition_mut(node, "Ready");
    let known = condition.status != UNKNOWN_YET;
    let changed = condition.status != status;
    condition.last_heartbeat_time = Some(Time(now));
    if changed {
        condition.last_transition_time = Some(Time(now));
    }
    status.clone_into(&mut condition.status);
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message);
    (changed && known).then(|| NodeEvent::status(&name, event))
}

/// The condition of that type.
pub fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Whether the node says that it is ready.
pub fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

/// The status of a condition that is being made.
const UNKNOWN_YET: &str = "";

/// The condition of that type, made where it is missing, at the end.
fn condition_mut<'a>(node: &'a mut Node, kind: &str) -> &'a mut NodeCondition {
    let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
    let at = conditions.iter().position(|condition| condition.type_ == kind).unwrap_or_else(|| {
        conditions.push(NodeCondition {
            type_: kind.to_owned(),
            status: UNKNOWN_YET.to_owned(),
            ..NodeCondition::default()
        });
        conditions.len() - 1
    });
    &mut conditions[at]
}
