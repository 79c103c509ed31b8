//! Conditions: the entries of an object's `status.conditions`, at most one of each type.

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Time;

#[cfg(test)]
mod tests;

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The writer can't tell whether the condition holds. Any other text decodes to this, too.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ConditionStatus {
    /// The text in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<&str> for ConditionStatus {
    fn from(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// A condition with the fields that every kind's conditions have.
///
/// Serializes them in upstream's order and leaves out an empty reason or message. A kind whose conditions have more
/// fields (`lastProbeTime`, `lastUpdateTime`, `observedGeneration`) declares its own struct and implements [`Entry`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: ArcStr,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why the status is what it is: one word in CamelCase, for programs.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub reason: ArcStr,
    /// The same in a sentence, for people.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub message: ArcStr,
}

/// A condition that [`find`], [`is_true`], [`set`] and [`remove`] can work on: a struct, or an object in JSON.
pub trait Entry: PartialEq {
    /// The condition's type.
    fn kind(&self) -> &str;
    /// The condition's status, as the API spells it.
    fn status(&self) -> &str;
    /// Sets `lastTransitionTime` to that of `old`.
    fn keep_transition_time(&mut self, old: &Self);
}

impl Entry for Condition {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn status(&self) -> &str {
        self.status.as_str()
    }

    fn keep_transition_time(&mut self, old: &Self) {
        self.last_transition_time = old.last_transition_time;
    }
}

/// A condition in JSON. A type or a status that is missing counts as empty.
impl Entry for Value {
    fn kind(&self) -> &str {
        self["type"].as_str().unwrap_or_default()
    }

    fn status(&self) -> &str {
        self["status"].as_str().unwrap_or_default()
    }

    /// Sets `null`, which is how Go writes a time that is not set, if `old` has no transition time.
    ///
    /// # Panics
    /// If this value is not an object.
    fn keep_transition_time(&mut self, old: &Self) {
        self["lastTransitionTime"] = old["lastTransitionTime"].clone();
    }
}

/// The first condition of type `kind`.
pub fn find<'a, C: Entry>(conditions: &'a [C], kind: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.kind() == kind)
}

/// Whether the list has a condition of type `kind` whose status is `True`.
pub fn is_true<C: Entry>(conditions: &[C], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status() == "True")
}

/// Replaces the condition of `new`'s type, or appends `new` if the list has none. Returns whether the list changed.
///
/// The caller fills in the transition time, which is usually the current time. `set` overwrites it with that of the old
/// condition if the status stays the same. All other fields become those of `new`, and a difference in any of them
/// counts as a change. The place in the list stays.
///
/// These are the rules of upstream's `meta.SetStatusCondition`, and of the API server's `podutil.UpdatePodCondition`
/// and `SetCRDCondition`. Some controllers have other rules, and can't use this function: `ensureJobConditionStatus`
/// renews the time with the reason; `SetDeploymentCondition` ignores a new message, and moves what it changes to the
/// end.
pub fn set<C: Entry>(conditions: &mut Vec<C>, mut new: C) -> bool {
    let Some(old) = conditions.iter_mut().find(|old| old.kind() == new.kind()) else {
        conditions.push(new);
        return true;
    };
    if old.status() == new.status() {
        new.keep_transition_time(old);
    }
    let changed = *old != new;
    *old = new;
    changed
}

/// Removes all conditions of type `kind`. Returns whether the list had any.
pub fn remove<C: Entry>(conditions: &mut Vec<C>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.kind() != kind);
    conditions.len() != before
}
