//! The way of changed results to whoever acts on them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{ProbeKind, ProbeUpdate};
use crate::container::ContainerId;

/// Changes of results, oldest first. Of a container's probe only the newest waits to be read, so there are never more
/// than probes, whoever is slow; and none is lost.
#[derive(Debug)]
pub struct ProbeUpdates {
    shared: Arc<Shared>,
}

/// Where results go in. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct UpdateSender {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    came: Notify,
}

/// `order` has each key of `by_probe` once.
#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<(ContainerId, ProbeKind)>,
    by_probe: HashMap<(ContainerId, ProbeKind), ProbeUpdate>,
}

/// A way for updates.
pub(super) fn channel() -> (UpdateSender, ProbeUpdates) {
    let shared = Arc::new(Shared::default());
    (UpdateSender { shared: Arc::clone(&shared) }, ProbeUpdates { shared })
}

impl UpdateSender {
    /// Never waits.
    pub(super) fn send(&self, update: ProbeUpdate) {
        let mut waiting = self.shared.waiting.lock();
        let key = (update.container.clone(), update.kind);
        if waiting.by_probe.insert(key.clone(), update).is_none() {
            waiting.order.push_back(key);
        }
        drop(waiting);
        self.shared.came.notify_one();
    }
}

impl ProbeUpdates {
    /// The next update, once there is one. Dropping the call loses nothing.
    pub async fn recv(&mut self) -> ProbeUpdate {
        loop {
            if let Some(update) = self.try_recv() {
                return update;
            }
            self.shared.came.notified().await;
        }
    }

    /// The next update, if there is one.
    pub fn try_recv(&mut self) -> Option<ProbeUpdate> {
        let mut waiting = self.shared.waiting.lock();
        let key = waiting.order.pop_front()?;
        waiting.by_probe.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::actions::ProbeResult;

    fn update(container: &str, kind: ProbeKind, result: ProbeResult) -> ProbeUpdate {
        ProbeUpdate { pod: "u".into(), container: ContainerId::new("r", container), kind, result }
    }

    #[tokio::test]
    async fn only_the_newest_result_of_a_probe_waits() {
        let (sender, mut updates) = channel();
        for update in [
            update("a", ProbeKind::Readiness, ProbeResult::Failure),
            update("b", ProbeKind::Readiness, ProbeResult::Failure),
            update("a", ProbeKind::Liveness, ProbeResult::Success),
            update("a", ProbeKind::Readiness, ProbeResult::Success),
        ] {
            sender.send(update);
        }
        assert_eq!(updates.recv().await, update("a", ProbeKind::Readiness, ProbeResult::Success));
        assert_eq!(updates.recv().await, update("b", ProbeKind::Readiness, ProbeResult::Failure));
        assert_eq!(updates.recv().await, update("a", ProbeKind::Liveness, ProbeResult::Success));
        assert_eq!(updates.try_recv(), None);
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let (sender, mut updates) = channel();
        let one = update("a", ProbeKind::Startup, ProbeResult::Success);
        let (read, ()) = tokio::join!(updates.recv(), async { sender.send(one.clone()) });
        assert_eq!(read, one);
    }
}
