//! What was made of objects' bytes not long ago.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Object;

/// How many bytes may be remembered, about.
const HEAVIEST: usize = 16 * 1024 * 1024;
/// How much larger a JSON value is in memory than its text, about.
const VALUE: usize = 10;

/// Which objects have forms at hand beside their bytes: those that were written or told last.
///
/// Who writes an object gets it back, watches tell it, and the next write reads it: soon after, or not for a long time. So
/// forms are dropped in the order in which they were made, once they are too many; all who still send one share it.
pub(crate) struct Warm {
    recent: Mutex<Recent>,
    limit: usize,
}

#[derive(Default)]
struct Recent {
    /// Oldest first, with what each form weighs. An object is here once for each of its forms.
    objects: VecDeque<(Weak<Object>, usize)>,
    /// Of all of them.
    weight: usize,
}

impl Default for Warm {
    fn default() -> Self {
        Self { recent: Mutex::default(), limit: HEAVIEST }
    }
}

impl Warm {
    /// An object has its value at hand.
    pub(super) fn note_value(&self, object: &Arc<Object>) {
        self.note(object, object.weight() * VALUE);
    }

    /// An object has a form of so many bytes.
    pub(super) fn note(&self, object: &Arc<Object>, weight: usize) {
        let mut cold = Vec::new();
        // The size of an object that only this list holds.
        let weight = weight + size_of::<Object>();
        {
            let mut recent = self.recent.lock();
            recent.objects.push_back((Arc::downgrade(object), weight));
            recent.weight += weight;
            while recent.weight > self.limit {
                let Some((object, weight)) = recent.objects.pop_front() else { break };
                recent.weight -= weight;
                cold.push(object);
            }
        }
        // Not under the lock: it takes longer than all above.
        cold.iter().filter_map(Weak::upgrade).for_each(|object| object.cool());
    }
}
