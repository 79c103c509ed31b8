//! The conditions of a node that tell how it fares.

use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Time};
use steersman_informer::projection;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

/// The conditions that kubelets report, and `NetworkUnavailable`. Discards messages, reasons and other conditions. If the list
/// has several of one type, the first one counts, as in upstream's `GetNodeCondition`.
///
/// Declare it as the field `conditions` in a projection of a node's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeConditions {
    /// The condition `Ready`; `None` if no kubelet ever reported.
    pub ready: Option<ReadyCondition>,
    /// The status of `MemoryPressure`.
    pub memory_pressure: Option<ConditionStatus>,
    /// The status of `DiskPressure`.
    pub disk_pressure: Option<ConditionStatus>,
    /// The status of `PIDPressure`.
    pub pid_pressure: Option<ConditionStatus>,
    /// The status of `NetworkUnavailable`.
    pub network_unavailable: Option<ConditionStatus>,
}

/// The condition `Ready` of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether the node can run pods.
    pub status: ConditionStatus,
    /// When the kubelet last reported.
    pub last_heartbeat_time: Option<Time>,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
}

projection! {
    /// An entry of a list in JSON. `merge` decodes those in protobuf by hand, to allocate nothing.
    struct Entry {
        pub kind: ArcStr = 1 "type",
        pub status: ConditionStatus = 2 "status",
        pub last_heartbeat_time: Option<Time> = 3 "lastHeartbeatTime",
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
    }
}

impl NodeConditions {
    fn take(&mut self, kind: &str, condition: ReadyCondition) {
        let status = match kind {
            "Ready" => {
                self.ready.get_or_insert(condition);
                return;
            }
            "MemoryPressure" => &mut self.memory_pressure,
            "DiskPressure" => &mut self.disk_pressure,
            "PIDPressure" => &mut self.pid_pressure,
            "NetworkUnavailable" => &mut self.network_unavailable,
            _ => return,
        };
        status.get_or_insert(condition.status);
    }
}

impl FieldValue for NodeConditions {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (mut kind, mut condition) = ("", ReadyCondition::default());
        let mut message = field.message()?;
        while let Some(field) = message.field()? {
            match field.number {
                1 => kind = field.text()?,
                2 => condition.status = ConditionStatus::from(field.text()?),
                3 => FieldValue::merge(&mut condition.last_heartbeat_time, field)?,
                4 => FieldValue::merge(&mut condition.last_transition_time, field)?,
                _ => {}
            }
        }
        self.take(kind, condition);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut conditions = Self::default();
        for entry in Vec::<Entry>::from_json(deserializer)? {
            let Entry { kind, status, last_heartbeat_time, last_transition_time } = entry;
            conditions.take(&kind, ReadyCondition { status, last_heartbeat_time, last_transition_time });
        }
        Ok(conditions)
    }
}
