//! The pods that were deleted lately.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;
use steersman_api::Uid;

/// How many pods are remembered, as upstream.
const CAPACITY: usize = 500;

/// The uids of pods that certainly are gone, so that their reservations can be dropped without a question to the API server.
#[derive(Default)]
pub(super) struct DeletedPods(Mutex<Uids>);

#[derive(Default)]
struct Uids {
    all: HashSet<Uid>,
    /// The same uids, the oldest first.
    order: VecDeque<Uid>,
}

impl DeletedPods {
    /// Remembers a pod, and forgets the oldest one if there are too many.
    pub(super) fn add(&self, pod: &Uid) {
        let mut uids = self.0.lock();
        if !uids.all.insert(pod.clone()) {
            return;
        }
        uids.order.push_back(pod.clone());
        if uids.order.len() > CAPACITY
            && let Some(oldest) = uids.order.pop_front()
        {
            uids.all.remove(&oldest);
        }
    }

    /// Whether the pod is remembered.
    pub(super) fn has(&self, pod: &Uid) -> bool {
        self.0.lock().all.contains(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_pods_are_forgotten() {
        let pods = DeletedPods::default();
        let uid = |number: usize| Uid::from(format!("pod-{number}").as_str());
        (0..=CAPACITY).for_each(|number| pods.add(&uid(number)));
        pods.add(&uid(1));
        assert!(!pods.has(&uid(0)));
        assert!((1..=CAPACITY).all(|number| pods.has(&uid(number))));
    }
}
