//! The newest states of claims and volumes that this process knows: from the caches, or from the answers to its own writes.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_api::selector::InvalidSelector;
use steersman_api::{ArcStr, ObjectKey};
use steersman_controller::controller::SyncError;
use steersman_informer::Lister;

use super::claim::Claim;
use super::volume::Volume;
use super::volumes::{Scope, Volumes};
use super::{BoundClaim, BoundVolume};

/// The newest known states. The binder writes a claim and its volume by turns, and chooses among all volumes: if it decided on
/// a cache that does not show its last write yet, it would choose a volume twice. Each write carries the version that it was
/// decided on, so that a decision on an old state fails; the newest states keep such failures rare.
pub(super) struct State {
    volume_cache: Lister<BoundVolume>,
    claim_cache: Lister<BoundClaim>,
    volumes: Mutex<Volumes>,
    /// States of claims that the cache did not show when they were written.
    written_claims: Mutex<HashMap<ObjectKey, Claim>>,
}

impl State {
    pub(super) fn new(volume_cache: Lister<BoundVolume>, claim_cache: Lister<BoundClaim>) -> Self {
        Self { volume_cache, claim_cache, volumes: Mutex::default(), written_claims: Mutex::default() }
    }

    /// The cache shows this state of a volume.
    pub(super) fn volume_seen(&self, volume: Volume) {
        self.volumes.lock().put(volume);
    }

    /// The cache shows that a volume is gone.
    pub(super) fn volume_gone(&self, volume: &Volume) {
        self.volumes.lock().remove(volume.name(), &volume.meta().uid);
    }

    /// The API server answered a write, or a read, with this state of a volume.
    pub(super) fn volume_written(&self, volume: Volume) {
        let meta = volume.meta().clone();
        let mut volumes = self.volumes.lock();
        volumes.put(volume);
        // The cache may have shown the end of the volume before the answer came.
        let is_past = self.volume_cache.last_sync_resource_version() >= meta.resource_version;
        if is_past && self.volume_cache.meta(&meta.key).is_none_or(|shown| shown.uid != meta.uid) {
            volumes.remove(&meta.key.name, &meta.uid);
        }
    }

    /// The cache shows this state of a claim.
    pub(super) fn claim_seen(&self, claim: &Claim) {
        let mut written = self.written_claims.lock();
        let key = &claim.meta().key;
        if written.get(key).is_some_and(|known| !is_newer(known, claim)) {
            written.remove(key);
        }
    }

    /// The cache shows that a claim is gone.
    pub(super) fn claim_gone(&self, claim: &Claim) {
        let mut written = self.written_claims.lock();
        let key = &claim.meta().key;
        if written.get(key).is_some_and(|known| known.meta().uid == claim.meta().uid) {
            written.remove(key);
        }
    }

    /// The API server answered a write with this state of a claim.
    pub(super) fn claim_written(&self, claim: Claim) {
        let mut written = self.written_claims.lock();
        if self.claim_cache.last_sync_resource_version() < claim.meta().resource_version {
            written.insert(claim.meta().key.clone(), claim);
        }
    }

    /// Forgets the own writes of an earlier term.
    pub(super) fn forget_writes(&self) {
        self.written_claims.lock().clear();
    }

    /// The newest state of a claim.
    ///
    /// # Errors
    /// The cached claim can't be read.
    pub(super) fn claim(&self, key: &ObjectKey) -> Result<Option<Claim>, SyncError> {
        let written = self.written_claims.lock().get(key).cloned();
        let shown = self.claim_cache.get(key);
        let shown = shown.map_err(|_| SyncError::Unreadable(format!("PersistentVolumeClaim {key}")))?;
        let shown = shown.map(|claim| Claim(claim.object().clone()));
        Ok(match (shown, written) {
            (Some(shown), Some(written)) if is_newer(&written, &shown) => Some(written),
            (Some(shown), _) => Some(shown),
            // The cache has seen the end of the claim since it was written.
            (None, _) => None,
        })
    }

    /// The newest state of a volume.
    ///
    /// # Errors
    /// The cached volume can't be read.
    pub(super) fn volume(&self, name: &str) -> Result<Option<Volume>, SyncError> {
        let key = ObjectKey::cluster(name);
        let readable = self.volume_cache.get(&key).map(drop);
        readable.map_err(|_| SyncError::Unreadable(format!("PersistentVolume {name}")))?;
        Ok(self.volumes.lock().get(name).cloned())
    }

    /// The volume that fits a claim best.
    ///
    /// # Errors
    /// The claim's selector is invalid.
    pub(super) fn best_match(&self, claim: &Claim, scope: Scope) -> Result<Option<Volume>, InvalidSelector> {
        self.volumes.lock().best_match(claim, scope)
    }

    /// The names of the volumes that are bound to a claim of this key, or reserved for one.
    pub(super) fn volumes_of(&self, claim: &ObjectKey) -> Vec<ArcStr> {
        self.volumes.lock().of_claim(claim).cloned().collect()
    }

    /// Calls `look` with each volume.
    pub(super) fn for_each_volume(&self, look: impl FnMut(&Volume)) {
        self.volumes.lock().iter().for_each(look);
    }

    /// Calls `look` with each claim that can be read, as the cache shows it.
    pub(super) fn for_each_claim(&self, mut look: impl FnMut(&Claim)) {
        let (claims, _) = self.claim_cache.list_readable();
        claims.into_iter().for_each(|claim| look(&Claim(claim.object().clone())));
    }
}

fn is_newer(one: &Claim, other: &Claim) -> bool {
    one.meta().resource_version > other.meta().resource_version
}
