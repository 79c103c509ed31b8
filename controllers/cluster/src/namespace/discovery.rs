//! The kinds of objects that a namespace may hold.

use std::collections::{BTreeMap, HashSet};

use steersman_api::{GroupVersion, GroupVersionResource};
use steersman_client::discovery::{Discovered, Resource, Scope};

use super::contents::{Content, Contents, Undiscovered, Verbs, is_pods};

impl Contents {
    /// The kinds whose objects are in namespaces and can be deleted, each in its preferred version. `is_unseen` tells whether
    /// a cache shows that the namespace has no object of a kind.
    ///
    /// Leaves out group versions whose discovery failed, and all kinds if that of the pods is among them: nothing may go before
    /// the pods.
    pub(super) fn of(discovered: &Discovered, is_unseen: impl Fn(&GroupVersionResource) -> bool) -> Self {
        let undiscovered = Undiscovered::of(discovered);
        let mut seen = HashSet::new();
        let is_wanted = |resource: &&Resource| {
            let GroupVersionResource { group, version, resource: name } = &resource.gvr;
            let served = GroupVersion { group: group.clone(), version: version.clone() };
            resource.scope == Scope::Namespaced
                && resource.supports("delete")
                && !discovered.sick.contains_key(&served)
                && seen.insert((group.clone(), name.clone()))
        };
        let wanted = discovered.resources().map(|resource| &**resource).filter(is_wanted);
        let mut kinds: BTreeMap<_, _> = wanted
            .map(|resource| {
                let verbs = Verbs {
                    delete_collection: resource.supports("deletecollection"),
                    list: resource.supports("list"),
                };
                (resource.gvr.clone(), Content::new(verbs, is_unseen(&resource.gvr)))
            })
            .collect();
        if undiscovered.is_some() && !kinds.keys().any(is_pods) {
            kinds.clear();
        }
        Self { kinds, undiscovered }
    }

    /// No kinds, because discovery failed as a whole.
    pub(super) fn unknown(error: String) -> Self {
        let undiscovered = Undiscovered { group_versions: None, error };
        Self { kinds: BTreeMap::new(), undiscovered: Some(undiscovered) }
    }
}

impl Undiscovered {
    fn of(discovered: &Discovered) -> Option<Self> {
        if let Some(error) = discovered.down.first() {
            return Some(Self { group_versions: None, error: error.to_string() });
        }
        let sick = discovered.sick.iter();
        let mut groups: Vec<String> =
            sick.map(|(served, sickness)| format!("{served}: {}", sickness.reason)).collect();
        groups.sort_unstable();
        let error = format!("unable to retrieve the complete list of server APIs: {}", groups.join(", "));
        (!groups.is_empty()).then_some(Self { group_versions: Some(groups.len()), error })
    }
}
