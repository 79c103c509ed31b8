//! The versions of quotas that the cache must show before they are counted again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

/// How long a quota waits for its version. Longer than a watch lags behind a busy API server.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// For each quota, the version that the cache must reach: what an own write gave it, or, after a conflict, any that is newer
/// than the one that the cache showed.
///
/// No quota waits longer than [`PATIENCE`]. The version may never come: an admission webhook can refuse a write as a conflict,
/// and an API server that was restored from a backup counts from lower versions. A count on an old version does no harm, since
/// its write is refused.
#[derive(Debug, Default)]
pub(super) struct Awaited(Mutex<HashMap<ObjectKey, (ResourceVersion, Instant)>>);

impl Awaited {
    /// Awaits this version of a quota from now on.
    pub(super) fn add(&self, quota: &ObjectKey, version: ResourceVersion) {
        self.0.lock().insert(quota.clone(), (version, Instant::now()));
    }

    /// Whether a quota must wait, since the cache shows an older version than the awaited one.
    pub(super) fn holds(&self, quota: &ObjectKey, shown: ResourceVersion) -> bool {
        let awaited = self.0.lock().get(quota).copied();
        awaited.is_some_and(|(version, since)| shown < version && since.elapsed() < PATIENCE)
    }

    /// Whether this is the awaited version of a quota.
    pub(super) fn is(&self, quota: &ObjectKey, version: ResourceVersion) -> bool {
        self.0.lock().get(quota).is_some_and(|(awaited, _)| *awaited == version)
    }

    /// Forgets a quota that is gone.
    pub(super) fn forget(&self, quota: &ObjectKey) {
        self.0.lock().remove(quota);
    }

    /// Forgets all quotas.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
