//! How a cached object holds a group of its fields, so that a group that is not kept, or is empty, takes little room.
//!
//! Every object of a kind has a slot for each group that any controller reads, and a cache keeps a few of them: of a pod, there
//! are 26 groups, and most pods have nothing in most of them.

use std::fmt;

use super::FieldValue;

/// The most room that a group, or the lack of it, takes within an object, in bytes. Larger groups are behind a pointer.
pub const INLINE: usize = 16;

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

impl<T: FieldValue + Clone + fmt::Debug + PartialEq> Choose<T> for Choice<true> {
    type Slot = Boxed<T>;
}

/// Holds one group of an object.
pub trait Slot<T>: Clone + fmt::Debug {
    /// The slot of a group; `None` if the cache does not keep the group.
    fn new(group: Option<T>) -> Self;

    /// The group. `None` if the cache does not keep it, or if it has its default value and the slot holds nothing for that.
    fn get(&self) -> Option<&T>;

    /// The memory that the slot holds beside itself, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// A small group, within the object.
#[derive(Clone, Debug)]
pub struct Inline<T>(Option<T>);

impl<T: FieldValue + Clone + fmt::Debug> Slot<T> for Inline<T> {
    fn new(group: Option<T>) -> Self {
        Self(group)
    }

    fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, T::heap_bytes)
    }
}

/// A large group, behind a pointer. Holds nothing for a group with its default value.
#[derive(Clone, Debug)]
pub struct Boxed<T>(Option<Box<T>>);

impl<T: FieldValue + Clone + fmt::Debug + PartialEq> Slot<T> for Boxed<T> {
    fn new(group: Option<T>) -> Self {
        Self(group.filter(|group| *group != T::default()).map(Box::new))
    }

    fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Box::<T>::heap_bytes)
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::ArcStr;

    use super::*;

    type Texts = Vec<ArcStr>;

    #[test]
    fn a_large_group_with_its_default_value_has_no_memory_and_another_one_has() {
        let empty = Boxed::<Texts>::new(Some(Texts::new()));
        assert_eq!((empty.get(), empty.heap_bytes(), size_of_val(&empty)), (None, 0, size_of::<usize>()));
        let full = Boxed::new(Some(vec![ArcStr::from("a text of its own")]));
        assert!(full.get().is_some_and(|texts| texts.len() == 1) && full.heap_bytes() > size_of::<Texts>());
    }

    #[test]
    fn a_small_group_is_held_as_it_is() {
        let slot = Inline::new(Some(0_i32));
        assert_eq!((slot.get(), Slot::<i32>::heap_bytes(&slot)), (Some(&0), 0));
        assert_eq!(Inline::<i32>::new(None).get(), None);
    }
}
