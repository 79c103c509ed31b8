//! Checks of quotas that have come to rest.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_informer::work_queue::{QueueConfig, WorkQueue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::REST;

/// The quotas that are to be counted once more when they have been at rest for [`REST`].
///
/// A count can be too low: the API server charges an object before it stores it, and the cache shows the object later still.
/// A count can miss that `used` is too high: the cache of quotas may lag behind, too. While the quota changes, nothing tells
/// whether it is right; afterwards a count does.
pub(super) struct Checks {
    due: WorkQueue<ObjectKey>,
    /// When each quota last changed.
    changed: Mutex<HashMap<ObjectKey, Instant>>,
}

impl Checks {
    pub(super) fn new() -> Self {
        Self { due: WorkQueue::new(QueueConfig::new("resourcequota_checks")), changed: Mutex::default() }
    }

    /// Records that a quota has changed just now, or something that it counts, and that it must be checked.
    pub(super) fn add(&self, quota: &ObjectKey) {
        self.changed.lock().insert(quota.clone(), Instant::now());
        self.due.add_after(quota.clone(), REST);
    }

    /// Forgets a quota that is gone.
    pub(super) fn forget(&self, quota: &ObjectKey) {
        self.changed.lock().remove(quota);
    }

    /// Moves quotas that have come to rest to `queue`, until `stop` is cancelled.
    pub(super) async fn run(&self, queue: &WorkQueue<ObjectKey>, stop: &CancellationToken) {
        while let Some(Some(due)) = stop.run_until_cancelled(self.due.get()).await {
            let quota = due.key().clone();
            due.finish();
            let changed = self.changed.lock().get(&quota).copied();
            match changed.and_then(|at| REST.checked_sub(at.elapsed())).filter(|left| !left.is_zero()) {
                Some(left) => self.due.add_after(quota, left),
                None => {
                    self.changed.lock().remove(&quota);
                    queue.add(quota);
                }
            }
        }
    }
}
