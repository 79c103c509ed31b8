//! Groups of fields that are equal in many objects, and cached once for all of them.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Message, WireError};

/// A group of fields of which equal values share one allocation. For groups that repeat over many objects, such as what the
/// pods of one template request.
///
/// A process-wide pool for each type finds the equal value. The last object that drops a value leaves it to the pool,
/// which frees it at its next sweep: whenever the pool has grown to twice the number of values in use.
///
/// While an object is decoded, its value is its own; [`settle`](FieldValue::settle) shares it. So declare it as a group: a field of a
/// group is never settled. Values of more than [`LARGEST`] bytes are not shared.
#[derive(Debug)]
pub struct Shared<T>(Arc<T>);

/// A type whose values can be [`Shared`].
pub trait Pooled: Clone + Default + Eq + Hash + Send + Sync + 'static {
    /// The pool of this type.
    fn pool() -> &'static Pool<Self>;
}

/// The values of one type that objects share.
pub struct Pool<T> {
    /// What objects have that lack the field.
    empty: Arc<T>,
    values: Mutex<Values<T>>,
}

struct Values<T> {
    all: HashSet<Arc<T>>,
    /// The pool sweeps when `all` has grown to this length.
    sweep_at: usize,
}

/// A pool with fewer values than this is never swept.
const SWEEP_FLOOR: usize = 256;

/// The largest value that objects share, by what it holds beside itself, in bytes. It bounds what unused values keep until a sweep: 1 MB
/// for each type. What the pods of a template request takes some 100 bytes.
pub const LARGEST: usize = 4096;

impl<T: Default + Eq + Hash> Default for Pool<T> {
    fn default() -> Self {
        let values = Mutex::new(Values { all: HashSet::new(), sweep_at: SWEEP_FLOOR });
        Self { empty: Arc::default(), values }
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// The shared copy of a value.
    fn share(&self, value: Arc<T>) -> Arc<T> {
        if value == self.empty {
            return Arc::clone(&self.empty);
        }
        let mut values = self.values.lock();
        if let Some(shared) = values.all.get(&value) {
            return Arc::clone(shared);
        }
        if values.all.len() >= values.sweep_at {
            values.all.retain(|value| Arc::strong_count(value) > 1);
            values.sweep_at = (2 * values.all.len()).max(SWEEP_FLOOR);
            let room = values.sweep_at;
            values.all.shrink_to(room);
        }
        values.all.insert(Arc::clone(&value));
        value
    }

    /// The number of values, including unused ones that no sweep has dropped yet.
    pub fn len(&self) -> usize {
        self.values.lock().all.len()
    }

    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Pooled> Shared<T> {
    /// The shared copy of a value.
    pub fn new(value: T) -> Self {
        Self(T::pool().share(Arc::new(value)))
    }

    /// A number that differs for two living values if the values differ. Of values that are not too large to be shared, it is the same for
    /// equal ones.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Pooled> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::clone(&T::pool().empty))
    }
}

/// Equal values are mostly one allocation.
impl<T: Pooled> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Pooled> Eq for Shared<T> {}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Pooled + FieldValue> FieldValue for Shared<T> {
    const FIELDS: u64 = T::FIELDS;

    fn heap_bytes(&self) -> usize {
        (size_of::<T>() + T::heap_bytes(self)) / Arc::strong_count(&self.0)
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        Arc::make_mut(&mut self.0).merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::from_json(deserializer).map(|value| Self(Arc::new(value)))
    }

    fn as_message(&mut self) -> Option<&mut impl Message> {
        Arc::make_mut(&mut self.0).as_message()
    }

    fn settle(&mut self) {
        if !Arc::ptr_eq(&self.0, &T::pool().empty) && T::heap_bytes(self) <= LARGEST {
            self.0 = T::pool().share(Arc::clone(&self.0));
        }
    }
}

/// Declares the pools of types.
macro_rules! pooled {
    ($($type:ty),* $(,)?) => { $(
        impl $crate::shared::Pooled for $type {
            fn pool() -> &'static $crate::shared::Pool<Self> {
                static POOL: ::std::sync::LazyLock<$crate::shared::Pool<$type>> =
                    ::std::sync::LazyLock::new(::std::default::Default::default);
                &POOL
            }
        }
    )* };
}
pub(crate) use pooled;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    struct Number(usize);

    pooled!(Number);

    #[test]
    fn equal_values_are_one_allocation_and_unequal_values_are_two() {
        let [one, again, other] = [1, 1, 2].map(|number| Shared::new(Number(number)));
        assert_eq!((one.id(), &one), (again.id(), &again));
        assert_ne!((one.id(), &one), (other.id(), &other));
        assert_eq!(Shared::new(Number(0)), Shared::default());
    }

    #[test]
    fn values_that_come_and_go_leave_no_trace_and_used_ones_stay() {
        let pool = Pool::<Number>::default();
        let kept = pool.share(Arc::new(Number(1)));
        for number in 2..100_000 {
            pool.share(Arc::new(Number(number)));
        }
        assert!(pool.len() <= SWEEP_FLOOR, "{}", pool.len());
        assert!(Arc::ptr_eq(&kept, &pool.share(Arc::new(Number(1)))));
    }
}
