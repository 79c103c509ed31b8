//! How long the failed pods of a node wait until they are deleted.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ArcStr, Uid};
use tokio::time::Instant;

/// After the first failure. Doubled with each that follows. From upstream's `newDaemonSetController`, as is the longest.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long after its last failure a node begins anew. Upstream: twice the longest wait.
const FORGET: Duration = Duration::from_secs(2 * 15 * 60);
/// How often expired entries are removed. Upstream: `BackoffGCInterval`.
const SWEEP: Duration = Duration::from_secs(60);

/// Remembers on which nodes pods of a DaemonSet have failed, so that the controller and a kubelet that refuses its pods do not
/// fight without end.
///
/// In memory only, as upstream's: a new leader begins anew.
#[derive(Default)]
pub(super) struct BackOff(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    entries: HashMap<Failing, Entry>,
    swept: Option<Instant>,
}

/// A DaemonSet in one generation, on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Failing {
    /// The DaemonSet's uid.
    pub set: Uid,
    /// The generation that the DaemonSet's status describes. A new one gets a new chance at once.
    pub generation: i64,
    /// The node's name.
    pub node: ArcStr,
}

#[derive(Clone, Copy)]
struct Entry {
    wait: Duration,
    since: Instant,
}

impl BackOff {
    /// How long the next failed pod must still wait. `None` if it may be deleted now.
    pub(super) fn remaining(&self, failing: &Failing) -> Option<Duration> {
        let entry = *self.0.lock().entries.get(failing)?;
        let remaining = entry.wait.saturating_sub(entry.since.elapsed());
        (!remaining.is_zero()).then_some(remaining)
    }

    /// Removes expired entries, if that was not done recently.
    pub(super) fn sweep(&self) {
        let (now, mut all) = (Instant::now(), self.0.lock());
        if all.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP) {
            all.entries.retain(|_, entry| !entry.is_over(now));
            all.swept = Some(now);
        }
    }

    /// Remembers that a failed pod is being deleted.
    pub(super) fn failed(&self, failing: Failing) {
        let (now, mut all) = (Instant::now(), self.0.lock());
        let before = all.entries.get(&failing).filter(|entry| !entry.is_over(now));
        let wait = before.map_or(FIRST, |entry| (entry.wait * 2).min(LONGEST));
        all.entries.insert(failing, Entry { wait, since: now });
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *self.0.lock() = Entries::default();
    }
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) > FORGET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(node: &str) -> Failing {
        Failing { set: "set".into(), generation: 1, node: node.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_15_minutes_and_begin_anew_after_30() {
        let back_off = BackOff::default();
        assert_eq!(back_off.remaining(&on("a")), None);
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            back_off.failed(on("a"));
            assert_eq!(back_off.remaining(&on("a")), Some(Duration::from_secs(seconds)));
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(back_off.remaining(&on("a")), None);
        }
        back_off.failed(on("b"));
        assert_eq!(back_off.remaining(&on("b")), Some(FIRST), "each node has its own");
        let later = Failing { generation: 2, ..on("a") };
        assert_eq!(back_off.remaining(&later), None, "a new generation has none");
        tokio::time::advance(FORGET + FIRST).await;
        back_off.failed(on("a"));
        assert_eq!(back_off.remaining(&on("a")), Some(FIRST));
        assert_eq!(back_off.0.lock().entries.len(), 2);
        back_off.sweep();
        assert_eq!(back_off.0.lock().entries.len(), 1, "what is over was removed");
    }
}
