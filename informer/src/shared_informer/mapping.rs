//! Key mappings: how the informer's task calls them, and how their users remove them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::ReentrantMutex;
use tokio::sync::watch;

use super::change::Raw;
use crate::wire::Object;

/// What a mapping does with a change.
pub(super) type Call<K> = Box<dyn Fn(Raw<'_, K>) + Send + Sync>;

/// The state that a mapping shares with its registration. The flags are set once, and never cleared.
#[derive(Default)]
pub(super) struct Gate {
    /// Locked while the mapping runs, so that [`MappingRegistration::remove`] can wait for it; reentrant, so that a mapping
    /// can remove itself.
    running: ReentrantMutex<()>,
    /// The informer's task has called the mapping with all that was cached.
    registered: AtomicBool,
    /// Set under the lock.
    removed: AtomicBool,
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
        let _running = self.gate.running.lock();
        if self.is_removed() {
            return;
        }
        let object = change.object();
        if catch_unwind(AssertUnwindSafe(|| (self.call)(change))).is_err() {
            tracing::error!(key = %object.meta().key, "Key mapping panicked and misses this change");
        }
    }

    /// The mapping has been called with all that was cached.
    pub(super) fn registered(&self) {
        self.gate.registered.store(true, Ordering::Release);
    }

    pub(super) fn is_removed(&self) -> bool {
        self.gate.removed.load(Ordering::Acquire)
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
    /// cached when it was registered. False once it is removed. Never waits for the mapping.
    pub fn has_synced(&self) -> bool {
        let Gate { registered, removed, .. } = &*self.gate;
        *self.synced.borrow() && registered.load(Ordering::Acquire) && !removed.load(Ordering::Acquire)
    }

    /// Ends the calls of the mapping. Once this returns, the mapping is not running and is never called again: if it is
    /// running on another thread, this waits for its end. The informer drops the mapping soon after.
    ///
    /// A mapping may remove itself; the call that does so runs to its end. The caller must not hold a lock that the mapping
    /// takes.
    pub fn remove(&self) {
        let running = self.gate.running.lock();
        self.gate.removed.store(true, Ordering::Release);
        drop(running);
        (self.drop_removed)();
    }
}
