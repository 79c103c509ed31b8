//! The taints that follow from a node's conditions.

use serde_json::{Value, json};
use steersman_api::Time;
use steersman_api::condition::ConditionStatus::{self, False, True, Unknown};
use steersman_kinds::node::Taint;
use steersman_kinds::node_conditions::NodeConditions;

/// The key of a taint that this controller manages, and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Managed {
    /// Such as `node.kubernetes.io/not-ready`.
    pub key: &'static str,
    /// `NoSchedule` or `NoExecute`.
    pub effect: &'static str,
}

const NOT_READY_KEY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE_KEY: &str = "node.kubernetes.io/unreachable";

/// Drives pods from a node whose kubelet reports that it is not ready.
pub const NOT_READY: Managed = Managed { key: NOT_READY_KEY, effect: "NoExecute" };
/// Drives pods from a node that is silent.
pub const UNREACHABLE: Managed = Managed { key: UNREACHABLE_KEY, effect: "NoExecute" };

/// The keys of the taints with the effect `NoSchedule` that this controller manages.
const NO_SCHEDULE: [&str; 7] = [
    NOT_READY_KEY,
    UNREACHABLE_KEY,
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
];

/// A change of a node's taints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintChange {
    /// The taints to add.
    pub add: Vec<Managed>,
    /// The taints to remove.
    pub remove: Vec<Managed>,
}

impl Managed {
    /// Whether the node has the taint, whatever its value.
    pub fn is_among(&self, taints: &[Taint]) -> bool {
        taints.iter().any(|taint| taint.key == self.key && taint.effect == self.effect)
    }
}

impl TaintChange {
    /// One taint in place of another.
    pub fn swap(add: Managed, remove: Managed) -> Self {
        Self { add: vec![add], remove: vec![remove] }
    }

    /// No taint for these.
    pub fn without(remove: &[Managed]) -> Self {
        Self { add: Vec::new(), remove: remove.to_vec() }
    }

    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    /// The list of taints in JSON after the change, or `None` if it is the same. A taint that is there already keeps its stamp.
    pub fn applied(&self, taints: &Value, now: Time) -> Option<Value> {
        let is = |taint: &Value, managed: &Managed| {
            taint["key"] == managed.key && taint["effect"] == managed.effect
        };
        let before = taints.as_array().cloned().unwrap_or_default();
        let mut after = before.clone();
        after.retain(|taint| !self.remove.iter().any(|removed| is(taint, removed)));
        for added in &self.add {
            if !after.iter().any(|taint| is(taint, added)) {
                after.push(json!({"key": added.key, "effect": added.effect, "timeAdded": now}));
            }
        }
        (after != before).then_some(Value::Array(after))
    }
}

/// The change of the taints with the effect `NoExecute` that a node's conditions, in JSON, ask for: none if the node is ready, or
/// if its kubelet never reported.
pub fn no_execute(conditions: &Value) -> TaintChange {
    let ready = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "Ready");
    match ready.and_then(|ready| ready["status"].as_str()) {
        Some("False") => TaintChange::swap(NOT_READY, UNREACHABLE),
        Some("Unknown") => TaintChange::swap(UNREACHABLE, NOT_READY),
        _ => TaintChange::default(),
    }
}

/// The change of the taints with the effect `NoSchedule` that a node needs. Upstream's `doNoScheduleTaintingPass`.
pub fn no_schedule(taints: &[Taint], conditions: &NodeConditions, unschedulable: bool) -> TaintChange {
    let when = |status: Option<ConditionStatus>, is: ConditionStatus| status == Some(is);
    let ready = conditions.ready.map(|ready| ready.status);
    let wanted = [
        when(ready, False),
        when(ready, Unknown),
        when(conditions.memory_pressure, True),
        when(conditions.disk_pressure, True),
        when(conditions.network_unavailable, True),
        when(conditions.pid_pressure, True),
        unschedulable,
    ];
    let mut change = TaintChange::default();
    for (key, is_wanted) in NO_SCHEDULE.into_iter().zip(wanted) {
        let taint = Managed { key, effect: "NoSchedule" };
        match (is_wanted, taint.is_among(taints)) {
            (true, false) => change.add.push(taint),
            (false, true) => change.remove.push(taint),
            _ => {}
        }
    }
    change
}
