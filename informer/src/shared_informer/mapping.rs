//! Key mappings: how the informer's task calls them, and how their users remove them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::ReentrantMutex;
use tokio::sync::watch;

use super::change::Raw;
use crate::wire::Object;

/// What a mapping does with a change.
pub(super) type Call<K> = Box<dyn Fn(Raw<'_, K>) + Send + Sync>;

/// The state that a mapping shares with its registration. Locked while the mapping runs, so that
/// [`MappingRegistration::remove`] can wait for it; reentrant, so that a mapping can remove itself.
#[derive(Default)]
pub(super) struct Gate {
    state: ReentrantMutex<Cell<State>>,
}

/// `New` becomes `Registered` once the informer's task has called the mapping with all that is cached. Any state becomes
/// `Removed`, for good.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    New,
    Registered,
    Removed,
}

/// A mapping as the informer's task holds it.
pub(super) struct Mapping<K> {
    gate: Arc<Gate>,
    call: Call<K>,
}

impl<K: Object> Mapping<K> {
    pub(super) fn new(gate: Arc<Gate>, call: Call<K>) -> Self {
        Self { gate, call }
    }

    /// Calls the mapping, unless it was removed. If it panics, the cache and the other mappings go on: what it should have
    /// put in its queue comes with the object's next change, or with a resync.
    pub(super) fn call(&self, change: Raw<'_, K>) {
        let state = self.gate.state.lock();
        if state.get() == State::Removed {
            return;
        }
        let object = change.object();
        if catch_unwind(AssertUnwindSafe(|| (self.call)(change))).is_err() {
            tracing::error!(key = %object.meta().key, "Key mapping panicked and misses this change");
        }
    }

    /// The mapping has been called with all that was cached.
    pub(super) fn registered(&self) {
        let state = self.gate.state.lock();
        if state.get() == State::New {
            state.set(State::Registered);
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        self.gate.state.lock().get() == State::Removed
    }
}

/// A mapping's place among the mappings of an informer. Dropping it changes nothing.
pub struct MappingRegistration {
    gate: Arc<Gate>,
    synced: watch::Receiver<bool>,
    drop_removed: Box<dyn Fn() + Send + Sync>,
}

impl MappingRegistration {
    /// `drop_removed` has the informer's task drop the mappings that were removed.
    pub(super) fn new(
        gate: Arc<Gate>,
        synced: watch::Receiver<bool>,
        drop_removed: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { gate, synced, drop_removed: Box::new(drop_removed) }
    }

    /// Whether the mapping has been called with everything that the informer's first list brought, and everything that was
    /// cached when it was registered.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow() && self.gate.state.lock().get() == State::Registered
    }

    /// Ends the calls of the mapping. Once this returns, the mapping is not running and is never called again: if it is
    /// running on another thread, this waits for its end. The informer drops the mapping soon after.
    ///
    /// A mapping may remove itself; the call that does so runs to its end. The caller must not hold a lock that the mapping
    /// takes.
    pub fn remove(&self) {
        self.gate.state.lock().set(State::Removed);
        (self.drop_removed)();
    }
}
