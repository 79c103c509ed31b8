//! Pods that wait to be admitted.

use std::collections::VecDeque;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::Uid;

use crate::admission::preemption::Preemption;
use crate::pod_workers::uid_of;

/// The pods that came since a critical one found no room, in their order. None, most of the time.
///
/// While others end to make room for the first of them, no further pod is admitted: what is free then is not known before.
/// None of them gets a worker by another way, and nothing is tidied up meanwhile: it would hit what these pods have.
#[derive(Debug, Default)]
pub struct Held(Mutex<VecDeque<Uid>>);

/// Room that is to be made.
#[derive(Debug)]
pub(super) struct MakeRoom {
    /// For whom.
    pub(super) pod: Arc<Pod>,
    /// Who goes.
    pub(super) preemption: Preemption,
}

impl Held {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Whether that pod waits.
    pub(super) fn has(&self, pod: &Uid) -> bool {
        self.0.lock().contains(pod)
    }

    /// Has a pod wait behind the others.
    pub(super) fn push(&self, pod: &Pod) {
        let mut held = self.0.lock();
        let uid = uid_of(pod);
        if !held.contains(&uid) {
            held.push_back(uid);
        }
    }

    /// Has a pod that was taken out go before all that wait.
    pub(super) fn push_first(&self, pod: &Pod) {
        self.0.lock().push_front(uid_of(pod));
    }

    /// Takes out the first.
    pub(super) fn pop(&self) -> Option<Uid> {
        self.0.lock().pop_front()
    }
}
