//! Whether a controller may act on what its caches show.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use steersman_api::{ObjectKey, Uid};
use steersman_informer::wire::Object;

use super::{Children, Owns};
use crate::controller::SyncError;

/// Whether an observation shows everything that any process has written on behalf of an owner.
///
/// The caches of a new leader may not show what the previous leader has written, and no version tells the new leader so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// The observation shows it: the controller may act on it.
    Sure,
    /// The observation may lack some: before the controller acts, it must call [`Children::confirm`].
    Unsure,
}

/// The owners about whom the caches have been confirmed in this term.
#[derive(Default)]
pub(super) struct Confirmed {
    all: AtomicBool,
    owners: Mutex<HashMap<ObjectKey, Uid>>,
}

impl Confirmed {
    /// Records that the caches show everything that was written before this term.
    pub(super) fn all(&self) {
        self.all.store(true, Ordering::Release);
        *self.owners.lock() = HashMap::new();
    }

    /// Records that the owner was read from the API server, or that no other process has ever acted on it.
    pub(super) fn owner(&self, key: &ObjectKey, uid: &Uid) {
        if !self.all.load(Ordering::Acquire) {
            self.owners.lock().insert(key.clone(), uid.clone());
        }
    }

    fn is(&self, key: &ObjectKey, uid: &Uid) -> bool {
        self.all.load(Ordering::Acquire) || self.owners.lock().get(key) == Some(uid)
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.owners.lock().remove(key);
    }

    pub(super) fn clear(&self) {
        self.all.store(false, Ordering::Release);
        *self.owners.lock() = HashMap::new();
    }
}

impl<O: Owns> Children<O> {
    /// Whether the caches can be trusted about an owner. An owner that was created in this term and has not changed since
    /// needs no look: no other process has acted on it.
    pub(super) async fn grounds(&self, owner: &O::Kind) -> Result<Grounds, SyncError> {
        let meta = owner.meta();
        if self.confirmed.is(&meta.key, &meta.uid) {
            return Ok(Grounds::Sure);
        }
        if meta.generation > 1 || !O::is_untouched(owner) {
            return Ok(Grounds::Unsure);
        }
        if meta.resource_version <= self.first_looks.horizon(self.owner_client.resource()).await? {
            return Ok(Grounds::Unsure);
        }
        self.confirmed.owner(&meta.key, &meta.uid);
        Ok(Grounds::Sure)
    }
}
