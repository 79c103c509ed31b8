//! The cached fields of DeviceTaintRules, in groups.

use steersman_api::{ArcStr, Time};
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::device_taint::DeviceTaint;

projection! {
    /// A taint, and the devices that have it.
    #[derive(Eq)]
    pub struct TaintRule {
        /// The devices. `None`: no device at all.
        pub selector: Option<DeviceSelector> = 1 "deviceSelector",
        /// The taint.
        pub taint: DeviceTaint = 2 "taint",
    }

    /// Selects devices. A device must fit all fields that are set.
    #[derive(Eq)]
    pub struct DeviceSelector {
        /// The devices' driver.
        pub driver: Option<Interned> = 2 "driver",
        /// The devices' pool.
        pub pool: Option<Interned> = 3 "pool",
        /// The device's name.
        pub device: Option<Interned> = 4 "device",
    }

    /// What the rule's status says.
    #[derive(Eq)]
    pub struct RuleStatus {
        /// The condition `EvictionInProgress`.
        pub eviction: EvictionCondition = 1 "conditions",
    }

    /// A condition.
    #[derive(Eq)]
    pub struct RuleCondition {
        /// The type.
        pub kind: Interned = 1 "type",
        /// `True`, `False` or `Unknown`.
        pub status: Interned = 2 "status",
        /// The generation of the rule that the condition is about.
        pub observed_generation: i64 = 3 "observedGeneration",
        /// When the controller last wrote the condition.
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        /// Why the condition is so, in one word.
        pub reason: Interned = 5 "reason",
        /// The same for people.
        pub message: ArcStr = 6 "message",
    }
}

/// The type of the condition that tells of evictions because of a rule.
pub const EVICTION_IN_PROGRESS: &str = "EvictionInProgress";

/// The condition [`EVICTION_IN_PROGRESS`] among those of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionCondition(pub Option<RuleCondition>);

impl EvictionCondition {
    fn add(&mut self, condition: RuleCondition) {
        // Upstream takes the first one.
        if self.0.is_none() && condition.kind == EVICTION_IN_PROGRESS {
            self.0 = Some(condition);
        }
    }
}

impl FieldValue for EvictionCondition {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut condition = RuleCondition::default();
        condition.merge(field)?;
        self.add(condition);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = Self::default();
        Vec::<RuleCondition>::from_json(deserializer)?.into_iter().for_each(|one| found.add(one));
        Ok(found)
    }
}

impl DeviceSelector {
    /// Whether the selector selects a device.
    pub fn selects(&self, driver: &str, pool: &str, device: &str) -> bool {
        let fits = |wanted: &Option<Interned>, is: &str| wanted.as_ref().is_none_or(|wanted| **wanted == *is);
        fits(&self.driver, driver) && fits(&self.pool, pool) && fits(&self.device, device)
    }
}

impl TaintRule {
    /// Whether the rule taints a device.
    pub fn taints(&self, driver: &str, pool: &str, device: &str) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.selects(driver, pool, device))
    }
}

kind! {
    /// A taint that an administrator gives devices.
    pub struct DeviceTaintRule("resource.k8s.io", "v1beta2", "devicetaintrules") {
        rule: TaintRule = 2 "spec",
        status: RuleStatus = 3 "status",
    }
}
