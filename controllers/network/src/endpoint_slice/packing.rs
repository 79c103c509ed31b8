//! Divides the endpoints of one set of ports among slices, so that few slices are written and no endpoint moves.

use std::collections::HashMap;

use steersman_kinds::endpoint_slice::Member;

/// An endpoint that some slice must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desired<'a> {
    /// The endpoint's [`Member::identity`].
    pub identity: u64,
    /// The endpoint's [`Member::content`].
    pub content: u64,
    /// The pod's name: endpoints that are new to the slices are added in this order.
    pub name: &'a str,
}

/// A slice as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The slice's endpoints.
    pub members: &'a [Member],
    /// Whether the slice must be written for its labels.
    pub stale_labels: bool,
}

/// What becomes of a stored slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Unchanged,
    /// It gets these endpoints, as indexes of the desired ones.
    Update {
        /// The endpoints in the slice's order: first those that it has.
        endpoints: Vec<usize>,
        /// Whether the endpoints that the slice has are as they should be, and so keep their hints.
        kept: bool,
    },
    /// None of its endpoints is desired.
    Delete,
}

/// A division of endpoints among slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// What becomes of each stored slice.
    pub fates: Vec<Fate>,
    /// The endpoints of each slice to create, as indexes of the desired ones.
    pub creates: Vec<Vec<usize>>,
    /// The number of endpoints that were in no slice.
    pub added: usize,
    /// The number of endpoints that are no longer desired.
    pub removed: usize,
}

/// Divides the endpoints as upstream's `reconcileByPortMapping`:
///
/// 1. An endpoint that a slice has stays there. A slice whose endpoints or labels changed is updated; a slice that loses all
///    endpoints is deleted.
/// 2. New endpoints fill the slices that are updated anyway, the fullest first.
/// 3. If the rest is less than a slice holds and fits into one unchanged slice, it goes to the one that it fills most.
/// 4. Else a new slice takes as much of the rest as it holds, and what is left is divided by rule 3 again.
///
/// Slices that equal each other in this are taken in their given order.
pub fn pack(stored: &[Stored<'_>], desired: &[Desired<'_>], max: usize) -> Packing {
    let mut packing = Packing::default();
    // Each endpoint until a slice has it.
    let mut missing: HashMap<u64, usize> =
        desired.iter().enumerate().map(|(at, endpoint)| (endpoint.identity, at)).collect();
    for slice in stored {
        let mut changed = false;
        let mut endpoints = Vec::with_capacity(slice.members.len());
        for member in slice.members {
            if let Some(at) = missing.remove(&member.identity) {
                changed |= desired[at].content != member.content;
                endpoints.push(at);
            }
        }
        let removed = slice.members.len() - endpoints.len();
        packing.removed += removed;
        packing.fates.push(match (changed || removed > 0, slice.stale_labels) {
            (true, _) if endpoints.is_empty() => Fate::Delete,
            (true, _) => Fate::Update { endpoints, kept: false },
            (false, true) => Fate::Update { endpoints, kept: true },
            (false, false) => Fate::Unchanged,
        });
    }

    let mut missing: Vec<usize> = missing.into_values().collect();
    missing.sort_unstable_by_key(|at| (desired[*at].name, desired[*at].identity));
    packing.added = missing.len();
    let mut missing = missing.into_iter();
    let mut updated: Vec<&mut Vec<usize>> = packing.fates.iter_mut().filter_map(Fate::endpoints).collect();
    updated.sort_by_key(|endpoints| std::cmp::Reverse(endpoints.len()));
    for endpoints in updated {
        let room = max.saturating_sub(endpoints.len());
        endpoints.extend(missing.by_ref().take(room));
    }

    while missing.len() > 0 {
        match slice_to_fill(stored, &packing.fates, missing.len(), max) {
            Some(slice) => {
                let places: HashMap<u64, usize> =
                    desired.iter().enumerate().map(|(at, endpoint)| (endpoint.identity, at)).collect();
                let place = |member: &Member| places.get(&member.identity).copied();
                let mut endpoints: Vec<usize> = stored[slice].members.iter().filter_map(place).collect();
                endpoints.extend(missing.by_ref());
                packing.fates[slice] = Fate::Update { endpoints, kept: true };
            }
            None => packing.creates.push(missing.by_ref().take(max.max(1)).collect()),
        }
    }
    packing
}

impl Fate {
    fn endpoints(&mut self) -> Option<&mut Vec<usize>> {
        match self {
            Self::Update { endpoints, .. } => Some(endpoints),
            Self::Unchanged | Self::Delete => None,
        }
    }
}

/// The unchanged slice that is closest to full once it has `missing` more endpoints. `None` if they fit into none, or fill a
/// slice of their own.
fn slice_to_fill(stored: &[Stored<'_>], fates: &[Fate], missing: usize, max: usize) -> Option<usize> {
    if missing == 0 || missing >= max {
        return None;
    }
    let room = |slice: usize| max.checked_sub(missing + stored[slice].members.len());
    let unchanged = (0..stored.len()).filter(|slice| fates[*slice] == Fate::Unchanged);
    unchanged.filter_map(|slice| Some((room(slice)?, slice))).min().map(|(_, slice)| slice)
}
