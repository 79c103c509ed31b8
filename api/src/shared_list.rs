//! Lists that objects share.

use std::fmt;
use std::ops::Deref;

use triomphe::ThinArc;

/// An immutable list. A clone is a pointer to the same memory. An empty list allocates nothing.
///
/// Caches hold several lists for each object, and the objects of one owner mostly have equal ones.
pub struct SharedList<T>(Option<ThinArc<(), T>>);

/// What the memory of a list holds beside its elements, in bytes: the number of its users, and of its elements.
pub const HEAD: usize = 16;

impl<T> SharedList<T> {
    /// Whether both are clones of one list, or empty.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(this), Some(other)) => std::ptr::eq(&this.slice, &other.slice),
            _ => false,
        }
    }

    /// How many share the list's memory. Zero for an empty list, which has none.
    pub fn users(&self) -> usize {
        self.0.as_ref().map_or(0, ThinArc::strong_count)
    }
}

impl<T> Deref for SharedList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| &list.slice)
    }
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || **self == **other
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| ThinArc::from_header_and_iter((), list.into_iter())))
    }
}

impl<T: Clone> From<&[T]> for SharedList<T> {
    fn from(list: &[T]) -> Self {
        list.to_vec().into()
    }
}

impl<T, const LENGTH: usize> From<[T; LENGTH]> for SharedList<T> {
    fn from(list: [T; LENGTH]) -> Self {
        Self((LENGTH > 0).then(|| ThinArc::from_header_and_iter((), list.into_iter())))
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        elements.into_iter().collect::<Vec<T>>().into()
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_their_memory() {
        let list = SharedList::from(["a".to_owned(), "b".to_owned()]);
        let clone = list.clone();
        assert!(list.is_same(&clone));
        assert_eq!((list.users(), &clone[1]), (2, &"b".to_owned()));
        let equal: SharedList<String> = list.iter().cloned().collect();
        assert_eq!(list, equal);
        assert!(!list.is_same(&equal));
    }

    #[test]
    fn an_empty_list_takes_no_memory() {
        for empty in [SharedList::<u8>::default(), Vec::new().into(), [].into()] {
            assert_eq!((empty.len(), empty.users()), (0, 0));
        }
        assert_eq!(size_of::<SharedList<u64>>(), size_of::<usize>());
    }
}
