//! Lets objects share their lists: labels and owner references.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

use parking_lot::Mutex;
use steersman_api::meta::Labels;
use steersman_api::{ArcStr, OwnerReference, SharedList};

/// Remembers lists that objects had lately, so that an object that has the same shares its memory.
///
/// The pods of one owner have the same owner references, and mostly the same labels. A list brings them one after the other, so it is
/// enough to remember the most recent lists. An object whose list is no longer remembered gets a copy of its own, which costs memory
/// and changes nothing else.
pub(crate) struct RecentLists<T> {
    hasher: RandomState,
    /// Each at the place that its hash gives. Allocated at the first use.
    places: Mutex<Box<[T]>>,
}

/// How many lists are remembered. They are not freed while they are.
const PLACES: usize = 256;

impl<T: Clone + Default> RecentLists<T> {
    /// The hash for [`share`](Self::share). It must not depend on addresses: the simulation replays a run exactly.
    fn hash(&self, key: impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The list that is remembered at the place of `hash`, if it equals `elements`. If not, a list of these elements, which is
    /// remembered there from now on.
    #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
    fn share<E>(
        &self,
        hash: u64,
        elements: Vec<E>,
        equals: fn(&T, &[E]) -> bool,
        make: fn(Vec<E>) -> T,
    ) -> T {
        let at = hash as usize % PLACES;
        let mut places = self.places.lock();
        if places.is_empty() {
            *places = vec![T::default(); PLACES].into();
        }
        let place = &mut places[at];
        if !equals(place, &elements) {
            *place = make(elements);
        }
        place.clone()
    }
}

impl<T> Default for RecentLists<T> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), places: Mutex::default() }
    }
}

/// These owner references, shared with other objects of the process where that is possible.
pub(crate) fn share_owners(owners: Vec<OwnerReference>) -> SharedList<OwnerReference> {
    static RECENT: LazyLock<RecentLists<SharedList<OwnerReference>>> = LazyLock::new(RecentLists::default);
    match owners.first() {
        None => SharedList::default(),
        Some(first) => {
            let hash = RECENT.hash(&first.uid);
            RECENT.share(hash, owners, |recent, owners| **recent == *owners, Into::into)
        }
    }
}

/// These labels, shared likewise.
pub(crate) fn share_labels(labels: Vec<(ArcStr, ArcStr)>) -> Labels {
    static RECENT: LazyLock<RecentLists<Labels>> = LazyLock::new(RecentLists::default);
    if labels.is_empty() {
        return Labels::default();
    }
    // API servers send them in this order. If one does not, the labels are right all the same, and not shared.
    let equals = |recent: &Labels, labels: &[(ArcStr, ArcStr)]| {
        recent.iter().eq(labels.iter().map(|(key, value)| (key, value)))
    };
    let make = |labels: Vec<_>| labels.into_iter().collect();
    RECENT.share(RECENT.hash(&labels), labels, equals, make)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference::controller("apps/v1", "ReplicaSet", "web", uid.into())
    }

    #[test]
    fn siblings_share_their_references() {
        let (first, second) = (share_owners(vec![owner("a")]), share_owners(vec![owner("a")]));
        assert!(first.is_same(&second));
        assert_eq!(share_owners(Vec::new()).users(), 0);
    }

    #[test]
    fn a_list_is_never_taken_for_another_one_of_the_same_place() {
        let recent = RecentLists::<SharedList<u8>>::default();
        let share =
            |list: &[u8]| recent.share(1, list.to_vec(), |recent, list| **recent == *list, Into::into);
        let (first, second, third) = (share(&[1]), share(&[2]), share(&[2]));
        assert_eq!((&*first, &*second), (&[1][..], &[2][..]));
        assert!(second.is_same(&third));
        let lax = OwnerReference { block_owner_deletion: None, ..owner("c") };
        assert_ne!(share_owners(vec![owner("c")]), share_owners(vec![lax]));
    }

    #[test]
    fn equal_labels_are_shared_and_sorted() {
        let value = ArcStr::from("a value");
        let labels = |keys: [&str; 2]| share_labels(keys.map(|key| (key.into(), value.clone())).to_vec());
        let (first, second) = (labels(["a", "b"]), labels(["a", "b"]));
        assert!(first.is_same(&second));
        assert_eq!(labels(["b", "a"]), first);
        assert!(!labels(["a", "c"]).is_same(&first));
    }
}
