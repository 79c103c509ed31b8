//! One condition picked out of an object's list of them.

use std::marker::PhantomData;

use steersman_api::Time;
use steersman_api::condition::ConditionStatus;
use steersman_informer::projection;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

/// The name of a type of condition.
pub trait ConditionType: Default {
    /// As the API has it.
    const TYPE: &'static str;
}

/// `Ready`, of pods and of nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready;

impl ConditionType for Ready {
    const TYPE: &'static str = "Ready";
}

/// `DisruptionTarget`: the pod is about to end for a reason that is not its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct DisruptionTarget;

impl ConditionType for DisruptionTarget {
    const TYPE: &'static str = "DisruptionTarget";
}

/// The condition of type `T`, picked out of a list of conditions: the others are not kept.
///
/// The first of its type counts, as for upstream's `GetPodCondition`. Declared as the field of the list, in a
/// projection of anything whose conditions have the numbers that those of pods, nodes and jobs have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Picked<T> {
    /// Whether it holds; `None` if the list has no such condition.
    pub status: Option<ConditionStatus>,
    /// When that last changed.
    pub last_transition_time: Option<Time>,
    of: PhantomData<T>,
}

impl<T> Picked<T> {
    /// Whether the condition is there and holds.
    pub fn is_true(&self) -> bool {
        self.status == Some(ConditionStatus::True)
    }
}

projection! {
    /// An entry of the list. In protobuf it is read by hand, so that the types of the others cost nothing.
    struct Entry {
        pub kind: steersman_api::ArcStr = 1 "type",
        pub status: ConditionStatus = 2 "status",
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
    }
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
