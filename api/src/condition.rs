//! Conditions: what a status says of an object, one type at a time.

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};

use crate::Time;

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell; also what any other text is read as.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ConditionStatus {
    /// As the API writes it.
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

/// A condition as most kinds have it (`JobCondition`, `PodCondition`, `metav1.Condition`), without the stamps that only
/// some of them carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Such as `Ready`; one entry of a type at the most.
    #[serde(rename = "type")]
    pub kind: ArcStr,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When it was last looked at, for the kinds that say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// One word for programs.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub reason: ArcStr,
    /// A sentence for people.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub message: ArcStr,
}

/// The condition of that type, if the list has one.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Whether the list has that condition with status `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == ConditionStatus::True)
}
