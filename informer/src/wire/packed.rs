//! Stores the groups of a cached object. Groups that the cache does not keep, or that have their default values, take no memory.
//!
//! A pod has 28 groups: one for each set of fields that some controller reads. A cache keeps a few of them, and most pods have
//! default values in some of those. An object stores a list of the other groups. Each takes 24 bytes in the list, and its own
//! size besides if that exceeds [`INLINE`].

use std::fmt;

use super::groups::GroupSet;
use super::{FieldValue, Group};

/// Maximum size of a group that is stored in the list itself, in bytes. The list has a pointer to a larger group.
pub const INLINE: usize = 16;

/// A kind whose objects store packed groups. [`kind!`](crate::kind) implements it.
pub trait Packs {
    /// An enum with a variant for each group of the kind.
    type Group: HeldGroup;
}

/// A group in an object's list.
pub trait HeldGroup: Clone + fmt::Debug + Send + Sync {
    /// The memory that the group holds beside its place in the list, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// The groups of one object.
#[derive(Clone, Debug)]
pub struct Packed<G> {
    /// The groups that the cache keeps: the lower half of a [`GroupSet`], since caches have one for each object.
    kept: u32,
    /// Those of them that differ from their defaults.
    held: u32,
    /// The held groups, in the order of their bits.
    groups: Box<[G]>,
}

impl<G: HeldGroup> Packed<G> {
    /// Packs `groups`, which has the group of each bit of `held`, in the order of the bits.
    ///
    /// # Panics
    /// If `groups` does not have one entry for each bit of `held`.
    pub fn new(kept: GroupSet, held: GroupSet, groups: Box<[G]>) -> Self {
        assert_eq!(held.count_ones() as usize, groups.len(), "each held group must have one bit");
        Self { kept: lower(kept), held: lower(held), groups }
    }

    /// Whether the cache keeps the group with this bit.
    pub fn keeps(&self, bit: GroupSet) -> bool {
        self.kept & lower(bit) != 0
    }

    /// The group with this bit. `None` if the cache does not keep it, or if it has its default value.
    pub fn get(&self, bit: GroupSet) -> Option<&G> {
        let bit = lower(bit);
        let before = (self.held & bit.wrapping_sub(1)).count_ones() as usize;
        (self.held & bit != 0).then(|| &self.groups[before])
    }

    /// The memory that the groups hold beside this value, in bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of_val::<[G]>(&self.groups) + self.groups.iter().map(G::heap_bytes).sum::<usize>()
    }
}

/// The bits of a set of groups that a kind can have: those of the first [`MOST`] groups.
fn lower(groups: GroupSet) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "kinds have groups in the lower half only")]
    let lower = groups as u32;
    lower
}

/// The maximum number of groups of a kind; [`kind!`](crate::kind) refuses to declare more. An object's two sets take eight bytes less than
/// they would with the 63 groups that a [`GroupSet`] has room for. Pods, which have the most, have 28.
pub const MOST: u32 = u32::BITS;

/// Returns the group's bit if an object must store the group, else 0. `group` is `None` if the cache does not keep it.
pub fn held<G: Group>(group: &Option<G>) -> GroupSet {
    if group.as_ref().is_some_and(|group| *group != G::default()) { G::BIT } else { 0 }
}

/// Chooses the slot for a group `T`: `LARGE` says whether it takes more room than [`INLINE`].
pub struct Choice<const LARGE: bool>;

/// The slot that a [`Choice`] gives.
pub trait Choose<T> {
    /// The slot's type.
    type Slot: Slot<T>;
}

impl<T: FieldValue + Clone + fmt::Debug> Choose<T> for Choice<false> {
    type Slot = Inline<T>;
}

impl<T: FieldValue + Clone + fmt::Debug> Choose<T> for Choice<true> {
    type Slot = Boxed<T>;
}

/// Holds one group, in at most [`INLINE`] bytes.
pub trait Slot<T>: Clone + fmt::Debug {
    /// The slot of a group.
    fn new(group: T) -> Self;

    /// The group.
    fn get(&self) -> &T;

    /// The memory that the slot holds beside itself, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// A small group.
#[derive(Clone, Debug)]
pub struct Inline<T>(T);

impl<T: FieldValue + Clone + fmt::Debug> Slot<T> for Inline<T> {
    fn new(group: T) -> Self {
        Self(group)
    }

    fn get(&self) -> &T {
        &self.0
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// A large group, behind a pointer.
#[derive(Clone, Debug)]
pub struct Boxed<T>(Box<T>);

impl<T: FieldValue + Clone + fmt::Debug> Slot<T> for Boxed<T> {
    fn new(group: T) -> Self {
        Self(Box::new(group))
    }

    fn get(&self) -> &T {
        &self.0
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Text(&'static str);

    impl HeldGroup for Text {
        fn heap_bytes(&self) -> usize {
            self.0.len()
        }
    }

    #[test]
    fn groups_with_default_values_take_no_memory() {
        let none = Packed::<Text>::new(0b1111, 0, [].into());
        let two = Packed::new(0b1111, 0b1010, [Text("one"), Text("three")].into());
        assert_eq!((none.heap_bytes(), two.heap_bytes()), (0, 2 * size_of::<Text>() + 8));
    }

    #[test]
    fn each_group_is_found_by_its_bit() {
        let groups = Packed::new(0b1111, 0b1010, [Text("one"), Text("three")].into());
        let found = [1, 2, 4, 8, 16].map(|bit| groups.get(bit));
        assert_eq!(found, [None, Some(&Text("one")), None, Some(&Text("three")), None]);
        assert_eq!([1, 2, 4, 8, 16].map(|bit| groups.keeps(bit)), [true, true, true, true, false]);
    }

    #[test]
    #[should_panic(expected = "one bit")]
    fn a_group_without_a_bit_is_refused() {
        Packed::new(0b1111, 0b0010, [Text("one"), Text("three")].into());
    }

    #[test]
    fn a_large_group_counts_with_its_own_size_and_a_small_one_without() {
        assert_eq!(
            (Slot::<i32>::heap_bytes(&Inline(0_i32)), Slot::<i32>::heap_bytes(&Boxed(Box::new(0_i32)))),
            (0, 4)
        );
    }
}
