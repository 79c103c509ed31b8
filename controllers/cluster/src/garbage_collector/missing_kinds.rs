//! The kinds of owners that the API server does not have.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use steersman_api::GroupVersionKind;
use tokio::time::Instant;

/// The first wait for a kind. The collector then looks into what the last discovery found, which costs no call.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest wait for a kind, as that of upstream's rate limiter.
const LONGEST: Duration = Duration::from_secs(1000);
/// Maximum number of kinds that the collector remembers. The wait for a forgotten kind begins anew.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(500).expect("it must not be zero");

/// Since when kinds that owner references name are missing. A kind is waited for as long again as it has been missing, so the
/// wait of each object doubles.
pub(super) struct MissingKinds(Mutex<LruCache<GroupVersionKind, Instant>>);

impl Default for MissingKinds {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl MissingKinds {
    /// Records that the API server lacks a kind. Returns the time until the caller should look for the kind again.
    pub(super) fn missed(&self, kind: GroupVersionKind) -> Duration {
        let now = Instant::now();
        let since = *self.0.lock().get_or_insert(kind, || now);
        (now - since).clamp(SHORTEST, LONGEST)
    }

    /// Records that the API server has a kind.
    pub(super) fn found(&self, kind: &GroupVersionKind) {
        self.0.lock().pop(kind);
    }

    /// Forgets all kinds.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_a_kind_doubles() {
        let kinds = MissingKinds::default();
        let kind = GroupVersionKind { group: "g".into(), version: "v1".into(), kind: "Widget".into() };
        let mut waits = Vec::new();
        for _ in 0..10 {
            let wait = kinds.missed(kind.clone());
            waits.push(wait.as_secs());
            tokio::time::advance(wait).await;
        }
        assert_eq!(waits, [10, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        kinds.found(&kind);
        assert_eq!(kinds.missed(kind), SHORTEST);
    }
}
