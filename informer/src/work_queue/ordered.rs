//! A set of keys with an order.

use std::collections::BTreeMap;
use std::hash::Hash;

use hashbrown::HashMap;

/// An empty index with more slots than this gives its memory back, so that a resync of 50,000 keys does not keep its memory.
const KEPT_SLOTS: usize = 1024;

/// An ordered line of keys, each at most once: the smallest `O` first, and among equals the one that came first. Every operation
/// takes logarithmic time.
pub(super) struct OrderedKeys<K, O, V> {
    /// The place of each key in `line`. Has exactly the keys of `line`.
    places: HashMap<K, Place<O>>,
    line: BTreeMap<Place<O>, (K, V)>,
    /// The ticket of the next new key.
    next_ticket: u64,
}

/// The order of a key, and the ticket that it got when it came, which decides among equals.
type Place<O> = (O, u64);

impl<K, O: Ord, V> Default for OrderedKeys<K, O, V> {
    fn default() -> Self {
        Self { places: HashMap::new(), line: BTreeMap::new(), next_ticket: 0 }
    }
}

impl<K: Clone + Eq + Hash, O: Ord + Clone, V> OrderedKeys<K, O, V> {
    /// Adds a key. A key that is in line already moves to its new order, and keeps its ticket.
    pub(super) fn insert(&mut self, key: K, order: O, value: V) {
        let ticket = match self.places.get(&key) {
            Some(place) => {
                self.line.remove(place);
                place.1
            }
            None => {
                self.next_ticket += 1;
                self.next_ticket
            }
        };
        let place = (order, ticket);
        self.places.insert(key.clone(), place.clone());
        self.line.insert(place, (key, value));
    }

    pub(super) fn get(&self, key: &K) -> Option<(&O, &V)> {
        let place = self.places.get(key)?;
        self.line.get(place).map(|(_, value)| (&place.0, value))
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<(O, V)> {
        let place = self.places.remove(key)?;
        let (_, value) = self.line.remove(&place)?;
        self.shrink();
        Some((place.0, value))
    }

    /// The order of the first key.
    pub(super) fn first(&self) -> Option<&O> {
        self.line.first_key_value().map(|(place, _)| &place.0)
    }

    pub(super) fn pop_first(&mut self) -> Option<(K, O, V)> {
        let (place, (key, value)) = self.line.pop_first()?;
        self.places.remove(&key);
        self.shrink();
        Some((key, place.0, value))
    }

    /// The keys in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &O)> {
        self.line.iter().map(|((order, _), (key, _))| (key, order))
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    fn shrink(&mut self) {
        if self.places.is_empty() && self.places.capacity() > KEPT_SLOTS {
            self.places.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_order_comes_first_and_equals_come_by_age() {
        let mut keys = OrderedKeys::default();
        for (key, order) in [("b", 2), ("a", 1), ("c", 2), ("d", 3)] {
            keys.insert(key, order, ());
        }
        keys.insert("d", 2, ());
        keys.insert("e", 2, ());
        keys.insert("b", 2, ());
        let line: Vec<_> = std::iter::from_fn(|| keys.pop_first()).map(|(key, ..)| key).collect();
        assert_eq!(line, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn a_removed_key_leaves_no_trace() {
        let mut keys = OrderedKeys::default();
        keys.insert("a", 1, "x");
        assert_eq!(keys.remove(&"a"), Some((1, "x")));
        assert_eq!((keys.len(), keys.first(), keys.get(&"a")), (0, None, None));
        assert_eq!(keys.remove(&"a"), None);
    }

    #[test]
    fn an_emptied_line_gives_its_memory_back() {
        let mut keys = OrderedKeys::default();
        (0..50_000).for_each(|key| keys.insert(key, (), ()));
        while keys.pop_first().is_some() {}
        assert!(keys.places.capacity() <= KEPT_SLOTS);
    }
}
