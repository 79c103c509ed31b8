//! Which pods are to be looked at when.

use std::collections::HashMap;

use steersman_api::Uid;
use tokio::time::Instant;

/// One time for each pod: a later one replaces an earlier one, and the other way round.
#[derive(Debug, Default)]
pub(super) struct WorkQueue(HashMap<Uid, Instant>);

impl WorkQueue {
    /// The pod is due at that time.
    pub(super) fn enqueue(&mut self, pod: Uid, at: Instant) {
        self.0.insert(pod, at);
    }

    /// Takes out the pods that are due by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Uid> {
        self.0.extract_if(|_, at| *at <= now).map(|(pod, _)| pod).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_due_once_and_at_its_last_time() {
        let (mut queue, start) = (WorkQueue::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        queue.enqueue("a".into(), after(1));
        queue.enqueue("b".into(), after(1));
        queue.enqueue("b".into(), after(3));
        assert!(queue.take_due(start).is_empty());
        assert_eq!(queue.take_due(after(2)), ["a".into()]);
        assert_eq!(queue.take_due(after(3)), ["b".into()]);
        assert!(queue.take_due(after(9)).is_empty());
    }
}
