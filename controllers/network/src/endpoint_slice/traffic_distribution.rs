//! Hints for the field `trafficDistribution` of services.

use std::sync::Arc;

use steersman_kinds::endpoint_slice::{Hints, Place};

use super::draft::{Draft, Entry};
use super::wanted::Wanted;

/// Which endpoints the clients of a service prefer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrafficDistribution {
    /// Those in the client's zone: `PreferClose` and `PreferSameZone`.
    SameZone,
    /// Those on the client's node, then those in its zone: `PreferSameNode`.
    SameNode,
}

impl TrafficDistribution {
    /// The meaning of the field's value. `None` for a value that this version of Kubernetes does not know.
    pub(super) fn of(value: &str) -> Option<Self> {
        match value {
            "PreferClose" | "PreferSameZone" => Some(Self::SameZone),
            "PreferSameNode" => Some(Self::SameNode),
            _ => None,
        }
    }

    /// Gives each ready endpoint the hint of its own zone, and of its own node if clients prefer that. The hints of endpoints
    /// that are not ready do not matter, and stay as they are: they are no reason to write a slice.
    pub(super) fn hint(self, drafts: &mut [Draft<'_>]) {
        for draft in drafts.iter_mut().filter(|draft| draft.is_kept()) {
            let is_wrong =
                |entry: &Entry<'_>| entry.wanted.is_ready() && *entry.hints() != self.hints(entry.wanted);
            if draft.is_unchanged() && !draft.entries.iter().any(is_wrong) {
                continue;
            }
            draft.write();
            for entry in draft.entries.iter_mut().filter(|entry| entry.wanted.is_ready()) {
                let hints = self.hints(entry.wanted);
                entry.hints = (hints != Hints::default()).then(|| Arc::new(hints));
            }
        }
    }

    fn hints(self, wanted: &Wanted) -> Hints {
        let place = |name: &Option<steersman_api::ArcStr>| -> Vec<Place> {
            name.iter().map(|name| Place { name: name.as_str().into() }).collect()
        };
        let endpoint = &wanted.endpoint;
        Hints {
            for_zones: place(&endpoint.zone),
            for_nodes: if self == Self::SameNode { place(&endpoint.node_name) } else { Vec::new() },
        }
    }
}
