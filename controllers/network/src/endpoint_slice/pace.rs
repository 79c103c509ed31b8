//! How soon after a sync the slices of its service are written again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::ObjectKey;
use tokio::time::Instant;

/// How long a service's next sync waits for each slice that the last one wrote beyond the first. Each write goes to every node, and in a
/// rollout the next pods become ready meanwhile: kube-controller-manager, whose syncs take longer, wrote fewer slices in the rollout of
/// `benches/batch.sh` without such a wait. A sync that wrote one slice is followed by no wait, since it may have shown a single change of a
/// pod, and clients need the next change soon.
const FOR_EACH_FURTHER_SLICE: Duration = Duration::from_millis(20);

/// The longest wait.
const LONGEST: Duration = Duration::from_millis(100);

/// When the slices of services may be written again.
#[derive(Debug, Default)]
pub(super) struct WritePace {
    /// Only of services whose last sync wrote several slices.
    next: Mutex<HashMap<ObjectKey, Instant>>,
}

impl WritePace {
    /// Records that a sync of the service has ended which wrote so many slices of one address family.
    pub(super) fn wrote(&self, service: &ObjectKey, slices: usize) {
        let further = u32::try_from(slices.saturating_sub(1)).unwrap_or(u32::MAX);
        if further > 0 {
            let wait = FOR_EACH_FURTHER_SLICE.saturating_mul(further).min(LONGEST);
            self.next.lock().insert(service.clone(), Instant::now() + wait);
        }
    }

    /// How long the service's slices must not be written yet.
    pub(super) fn wait(&self, service: &ObjectKey) -> Option<Duration> {
        let mut next = self.next.lock();
        let left = next.get(service)?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            next.remove(service);
            return None;
        }
        Some(left)
    }

    /// Forgets a service that is gone.
    pub(super) fn forget(&self, service: &ObjectKey) {
        self.next.lock().remove(service);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sync_that_wrote_many_slices_is_followed_by_a_longer_wait() {
        let (pace, service) = (WritePace::default(), ObjectKey::new("default", "web"));
        let millis = Duration::from_millis;
        for (slices, wait) in
            [(0, None), (1, None), (2, Some(20)), (4, Some(60)), (10, Some(100)), (usize::MAX, Some(100))]
        {
            pace.wrote(&service, slices);
            assert_eq!(pace.wait(&service), wait.map(millis), "{slices}");
            assert_eq!(pace.wait(&ObjectKey::new("default", "other")), None);
            advance(millis(100)).await;
            assert_eq!(pace.wait(&service), None, "{slices}");
        }
        assert!(pace.next.lock().is_empty());
    }
}
