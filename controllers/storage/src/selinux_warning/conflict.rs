//! Conflicts of pods that use the same volume in different ways.

use std::fmt;

use steersman_api::ObjectKey;

use super::uses::Manner;

/// What two pods disagree about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Property {
    /// The policy.
    ChangePolicy,
    /// The label.
    Label,
}

/// A conflict of a pod with another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Conflict {
    pub property: Property,
    /// The pod that the event is about.
    pub pod: ObjectKey,
    /// The pod's own value.
    pub value: String,
    pub other: ObjectKey,
    pub other_value: String,
}

impl Property {
    /// Both properties, in upstream's order.
    pub(super) const ALL: [Self; 2] = [Self::ChangePolicy, Self::Label];

    /// The property's name in messages and metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ChangePolicy => "SELinuxChangePolicy",
            Self::Label => "SELinuxLabel",
        }
    }

    /// The reason of events about conflicts.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::ChangePolicy => "SELinuxChangePolicyConflict",
            Self::Label => "SELinuxLabelConflict",
        }
    }

    /// Whether two pods are in conflict about this property.
    pub(super) fn differs(self, a: &Manner, b: &Manner) -> bool {
        match self {
            Self::ChangePolicy => a.policy != b.policy,
            Self::Label => a.label.conflicts_with(&b.label),
        }
    }

    /// The property's value.
    pub(super) fn of(self, manner: &Manner) -> String {
        match self {
            Self::ChangePolicy => manner.policy.as_str().to_owned(),
            Self::Label => manner.label.to_string(),
        }
    }
}

/// The message of the event, in upstream's words. It does not tell the users of one namespace about the pods of another.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, pod, value, other, other_value } = self;
        let property = property.as_str();
        if pod.namespace == other.namespace {
            write!(
                f,
                "{property} \"{value}\" conflicts with pod {} that uses the same volume as this pod with {property} \
                 \"{other_value}\". If both pods land on the same node, only one of them may access the volume.",
                other.name
            )
        } else {
            // Upstream has no space before the value.
            write!(
                f,
                "{property}\"{value}\" conflicts with another pod that uses the same volume as this pod with a different \
                 {property}. If both pods land on the same node, only one of them may access the volume."
            )
        }
    }
}
