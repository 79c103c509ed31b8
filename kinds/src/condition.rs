//! Conditions in the status of an object.

use std::marker::PhantomData;

use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Time};
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

/// A type of condition.
pub trait ConditionType: Default {
    /// The type's name in the API.
    const TYPE: &'static str;
}

/// `Ready`, of pods and of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ready;

impl ConditionType for Ready {
    const TYPE: &'static str = "Ready";
}

/// `PodScheduled`, of pods: the scheduler has found a node for the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PodScheduled;

impl ConditionType for PodScheduled {
    const TYPE: &'static str = "PodScheduled";
}

/// `DisruptionTarget`, of pods: an eviction, a preemption or the like is about to end the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DisruptionTarget;

impl ConditionType for DisruptionTarget {
    const TYPE: &'static str = "DisruptionTarget";
}

/// The condition of type `T` in a list of conditions. Discards the other conditions.
///
/// If the list has several of that type, the first one counts, as in upstream's `GetPodCondition`. Declare it as the
/// list's field in a projection. It reads lists whose conditions have the protobuf field numbers of those of pods,
/// nodes and jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Picked<T> {
    /// The condition's status; `None` if the list has no such condition.
    pub status: Option<ConditionStatus>,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
    of: PhantomData<T>,
}

impl<T> Picked<T> {
    /// Whether the list has the condition with the status `True`.
    pub fn is_true(&self) -> bool {
        self.status == Some(ConditionStatus::True)
    }
}

projection! {
    /// A condition of an owner of pods. Its protobuf field numbers are those of ReplicaSets and ReplicationControllers, and
    /// differ from those of pods, nodes and jobs.
    pub struct WorkloadCondition {
        /// The condition's type, such as `ReplicaFailure`.
        pub kind: Interned = 1 "type",
        /// Whether the condition holds.
        pub status: ConditionStatus = 2 "status",
        /// When `status` last changed.
        pub last_transition_time: Option<Time> = 3 "lastTransitionTime",
        /// Why `status` last changed, in one word for programs.
        pub reason: Interned = 4 "reason",
        /// Why `status` last changed, for people.
        pub message: ArcStr = 5 "message",
    }

    /// A `metav1.Condition`, as newer kinds have it.
    pub struct MetaCondition {
        /// The condition's type, such as `DisruptionAllowed`.
        pub kind: Interned = 1 "type",
        /// Whether the condition holds.
        pub status: ConditionStatus = 2 "status",
        /// The generation of the object that the condition describes.
        pub observed_generation: i64 = 3 "observedGeneration",
        /// When `status` last changed.
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        /// Why `status` last changed, in one word for programs.
        pub reason: Interned = 5 "reason",
        /// Why `status` last changed, for people.
        pub message: ArcStr = 6 "message",
    }

    /// An entry of a list in JSON. `merge` decodes those in protobuf by hand, to allocate no type of a discarded
    /// condition.
    struct Entry {
        pub kind: ArcStr = 1 "type",
        pub status: ConditionStatus = 2 "status",
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        pub reason: Interned = 5 "reason",
    }
}

/// The reason of the condition of type `T` in a list of conditions. For lists like those of [`Picked`]; the first condition
/// of the type counts here, too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReasonOf<T> {
    /// The reason, in one word; `None` if the list has no such condition.
    pub reason: Option<Interned>,
    of: PhantomData<T>,
}

impl<T: ConditionType> FieldValue for Picked<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (mut kind, mut status, mut changed) = ("", ConditionStatus::default(), None);
        let mut message = field.message()?;
        while let Some(field) = message.field()? {
            match field.number {
                1 => kind = field.text()?,
                2 => status = ConditionStatus::from(field.text()?),
                4 => FieldValue::merge(&mut changed, field)?,
                _ => {}
            }
        }
        if kind == T::TYPE && self.status.is_none() {
            (self.status, self.last_transition_time) = (Some(status), changed);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<Entry>::from_json(deserializer)?;
        let found = entries.into_iter().find(|entry| entry.kind == T::TYPE);
        Ok(found.map_or_else(Self::default, |entry| Self {
            status: Some(entry.status),
            last_transition_time: entry.last_transition_time,
            of: PhantomData,
        }))
    }
}

impl<T: ConditionType> FieldValue for ReasonOf<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (mut kind, mut reason) = ("", "");
        let mut message = field.message()?;
        while let Some(field) = message.field()? {
            match field.number {
                1 => kind = field.text()?,
                5 => reason = field.text()?,
                _ => {}
            }
        }
        if kind == T::TYPE && self.reason.is_none() {
            self.reason = Some(reason.into());
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<Entry>::from_json(deserializer)?;
        let found = entries.into_iter().find(|entry| entry.kind == T::TYPE);
        Ok(Self { reason: found.map(|entry| entry.reason), of: PhantomData })
    }
}
