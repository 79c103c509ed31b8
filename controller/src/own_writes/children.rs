//! The children of an owner that are gone, or have lost their finalizer, though a cache may still show them.

use std::collections::HashSet;
use std::sync::Arc;

use steersman_api::{ResourceVersion, Uid};

/// The removals and the listings of an owner's children, by the number of the cache that shows the children.
#[derive(Clone, Debug, Default)]
pub(super) struct Children(Vec<(usize, OfKind)>);

#[derive(Clone, Debug, Default)]
struct OfKind {
    condemned: HashSet<Uid>,
    listing: Option<Arc<Listing>>,
}

/// The API server's list of an owner's children of one kind.
#[derive(Debug)]
pub struct Listing {
    /// The list's version: a state of a child that is as old or older is in the list, or is outdated.
    pub as_of: ResourceVersion,
    /// The children in the list; of a controller that works with finalizers, those that still had the finalizer.
    pub held: HashSet<Uid>,
}

/// The children that are gone or have lost their finalizer, though a cache may still show them otherwise. Returned by
/// [`OwnWrites::gone`](super::OwnWrites::gone).
#[derive(Debug, Default)]
pub struct Gone {
    condemned: HashSet<Uid>,
    listing: Option<Arc<Listing>>,
}

impl Gone {
    /// Whether this process removed the child or its finalizer.
    pub fn is_condemned(&self, child: &Uid) -> bool {
        self.condemned.contains(child)
    }

    /// Whether the last listing shows that a child, which a cache shows at `version`, has since gone or lost its
    /// finalizer.
    pub fn is_past(&self, child: &Uid, version: ResourceVersion) -> bool {
        let past = |listing: &Listing| version <= listing.as_of && !listing.held.contains(child);
        self.listing.as_deref().is_some_and(past)
    }
}

impl Children {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn condemn(&mut self, cache: usize, child: &Uid) {
        self.of(cache).condemned.insert(child.clone());
    }

    pub(super) fn spare(&mut self, cache: usize, child: &Uid) {
        self.of(cache).condemned.remove(child);
    }

    pub(super) fn spare_all(&mut self, spared: impl Fn(&Uid) -> bool) {
        self.0.iter_mut().for_each(|(_, kind)| kind.condemned.retain(|uid| !spared(uid)));
    }

    pub(super) fn listed(&mut self, cache: usize, listing: Listing) {
        self.of(cache).listing = Some(Arc::new(listing));
    }

    pub(super) fn gone(&mut self, cache: usize, shown: impl Fn(&Uid) -> bool) -> Gone {
        let Some((_, kind)) = self.0.iter_mut().find(|(other, _)| *other == cache) else {
            return Gone::default();
        };
        kind.condemned.retain(|uid| shown(uid));
        Gone { condemned: kind.condemned.clone(), listing: kind.listing.clone() }
    }

    /// Forgets the listings that their caches have caught up with. `reached` returns the version that a cache has reached.
    pub(super) fn forget_listings(&mut self, reached: impl Fn(usize) -> Option<ResourceVersion>) {
        for (cache, kind) in &mut self.0 {
            kind.listing.take_if(|listing| reached(*cache).is_none_or(|reached| reached >= listing.as_of));
        }
        self.0.retain(|(_, kind)| !kind.condemned.is_empty() || kind.listing.is_some());
    }

    fn of(&mut self, cache: usize) -> &mut OfKind {
        let at = self.0.iter().position(|(other, _)| *other == cache).unwrap_or_else(|| {
            self.0.push((cache, OfKind::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}
