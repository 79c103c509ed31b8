//! All volumes, and the one that fits a claim best.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use steersman_api::selector::InvalidSelector;
use steersman_api::{ArcStr, ObjectKey, Quantity, Uid};

use super::access_modes::AccessModes;
use super::claim::Claim;
use super::volume::{AVAILABLE, Volume};

/// The volumes in their newest known states, ordered so that a claim finds its volume without a look at all of them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    by_name: HashMap<ArcStr, Volume>,
    /// The volumes without a claim, by class and access modes; in each group by size, then name.
    free: BTreeMap<(ArcStr, AccessModes), BTreeSet<(Quantity, ArcStr)>>,
    /// The names of the volumes that are bound to a claim or reserved for one, by the claim's key.
    taken: HashMap<ObjectKey, BTreeSet<ArcStr>>,
}

/// Which volumes a claim may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Any that fits.
    All,
    /// Only those that are bound to the claim or reserved for it: the scheduler chooses among the others.
    Reserved,
}

impl Volumes {
    /// The newest known state of a volume.
    pub(super) fn get(&self, name: &str) -> Option<&Volume> {
        self.by_name.get(name)
    }

    /// All volumes, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.by_name.values()
    }

    /// The names of the volumes that are bound to a claim of this key or reserved for one.
    pub(super) fn of_claim(&self, claim: &ObjectKey) -> impl Iterator<Item = &ArcStr> {
        self.taken.get(claim).into_iter().flatten()
    }

    /// Takes in a state of a volume, unless a newer one is known.
    pub(super) fn put(&mut self, volume: Volume) {
        let name = volume.name();
        if let Some(known) = self.by_name.get(name) {
            if known.meta().resource_version > volume.meta().resource_version {
                return;
            }
            self.unlist(&known.clone());
        }
        self.list(&volume);
        self.by_name.insert(name.clone(), volume);
    }

    /// Forgets a volume that is gone. Keeps a later volume of the same name.
    pub(super) fn remove(&mut self, name: &str, uid: &Uid) -> Option<Volume> {
        let known = self.by_name.get(name).filter(|known| known.meta().uid == *uid)?.clone();
        self.unlist(&known);
        self.by_name.remove(name)
    }

    fn list(&mut self, volume: &Volume) {
        match volume.claim_key() {
            Some(claim) => self.taken.entry(claim).or_default().insert(volume.name().clone()),
            None => self.free.entry(group_of(volume)).or_default().insert(rank_of(volume)),
        };
    }

    fn unlist(&mut self, volume: &Volume) {
        if let Some(claim) = volume.claim_key() {
            if let Some(names) = self.taken.get_mut(&claim) {
                names.remove(volume.name());
                if names.is_empty() {
                    self.taken.remove(&claim);
                }
            }
            return;
        }
        let group = group_of(volume);
        if let Some(ranks) = self.free.get_mut(&group) {
            ranks.remove(&rank_of(volume));
            if ranks.is_empty() {
                self.free.remove(&group);
            }
        }
    }

    /// The volume that fits a claim best, as upstream's `findBestMatchForClaim`. It looks at sets of access modes one by one,
    /// those with the fewest modes first; in each, a volume that is bound to the claim or reserved for it comes first, then
    /// the smallest that is large enough. Of volumes of one size the name decides, where upstream takes any.
    ///
    /// # Errors
    /// The claim's selector is invalid.
    pub(super) fn best_match(&self, claim: &Claim, scope: Scope) -> Result<Option<Volume>, InvalidSelector> {
        let selector = claim.selector().map(|selector| selector.to_selector()).transpose()?;
        let Some(asked) = AccessModes::asked(&claim.demand().access_modes) else { return Ok(None) };
        let reserved: Vec<&Volume> = self
            .of_claim(&claim.meta().key)
            .filter_map(|name| self.get(name))
            .filter(|volume| volume.is_for(claim) && suits(volume, claim) && volume.size() >= claim.size())
            .collect();
        let class = ArcStr::from(claim.class());
        let of_class = self.free.range((class.clone(), AccessModes::NONE)..=(class, AccessModes::ALL));
        let free: BTreeMap<_, _> = of_class.map(|((_, modes), ranks)| (*modes, ranks)).collect();
        let mut sets: Vec<AccessModes> =
            free.keys().copied().chain(reserved.iter().map(|volume| volume.access_modes())).collect();
        sets.retain(|modes| modes.has_all(asked));
        sets.sort_by_key(|modes| (modes.len(), *modes));
        sets.dedup();
        for modes in sets {
            if let Some(volume) = reserved.iter().find(|volume| volume.access_modes() == modes) {
                return Ok(Some((*volume).clone()));
            }
            if scope == Scope::Reserved {
                continue;
            }
            let ranks = free.get(&modes).into_iter();
            let large_enough = ranks.flat_map(|ranks| ranks.range((claim.size(), ArcStr::new())..));
            let found = large_enough.filter_map(|(_, name)| self.get(name)).find(|volume| {
                volume.phase() == AVAILABLE
                    && suits(volume, claim)
                    && selector.as_ref().is_none_or(|selector| selector.matches(&volume.meta().labels))
            });
            if let Some(volume) = found {
                return Ok(Some(volume.clone()));
            }
        }
        Ok(None)
    }
}

/// Whether a volume is of the right kind for a claim, whatever its size, class and labels.
fn suits(volume: &Volume, claim: &Claim) -> bool {
    volume.mode() == claim.mode()
        && volume.attributes_class() == claim.attributes_class()
        && !volume.meta().is_deleting()
}

fn group_of(volume: &Volume) -> (ArcStr, AccessModes) {
    (volume.class().into(), volume.access_modes())
}

fn rank_of(volume: &Volume) -> (Quantity, ArcStr) {
    (volume.size(), volume.name().clone())
}
