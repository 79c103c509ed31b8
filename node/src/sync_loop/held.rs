//! Pods that wait to be admitted, while room is made or the Node is read.

use std::collections::VecDeque;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::Uid;

use crate::admission::preemption::Preemption;
use crate::allocation::Trigger;
use crate::pod_workers::uid_of;

/// Who waits while others end to make room, or while the Node is read. Nobody, most of the time.
///
/// That is done for one at a time: for the first of the pods that came, or for a critical pod that is to grow. Until it is
/// done no further pod is admitted, and no other may grow: what is free then is not known before. Pods that come meanwhile
/// wait in their order. None of them gets a worker by another way, and nothing is tidied up meanwhile: it would hit what
/// these pods have.
#[derive(Debug, Default)]
pub struct Held(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    pods: VecDeque<Uid>,
    /// The pod that grows once there is room, as it was when it was looked at, and why it was.
    grows: Option<(Arc<Pod>, Trigger)>,
    /// Why resizes would have been looked at meanwhile, first.
    put_off: Option<Trigger>,
}

/// What the pods that are held wait for.
#[derive(Debug)]
pub(super) enum Need {
    /// The first, or one that grows, needs room.
    Room(MakeRoom),
    /// The Node must be read anew: the labels that are known of it are against the first.
    Node,
}

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
        let waiting = self.0.lock();
        waiting.pods.is_empty() && waiting.grows.is_none()
    }

    /// Whether that pod waits to be admitted.
    pub(super) fn has(&self, pod: &Uid) -> bool {
        self.0.lock().pods.contains(pod)
    }

    /// Has a pod wait behind the others.
    pub(super) fn push(&self, pod: &Pod) {
        let mut waiting = self.0.lock();
        let uid = uid_of(pod);
        if !waiting.pods.contains(&uid) {
            waiting.pods.push_back(uid);
        }
    }

    /// Has a pod that was taken out go before all that wait.
    pub(super) fn push_first(&self, pod: &Pod) {
        self.0.lock().pods.push_front(uid_of(pod));
    }

    /// Takes out the first.
    pub(super) fn pop(&self) -> Option<Uid> {
        self.0.lock().pods.pop_front()
    }

    /// Has a pod that runs wait for the room that it is to grow into.
    pub(super) fn set_growing(&self, pod: &Arc<Pod>, trigger: Trigger) {
        self.0.lock().grows = Some((Arc::clone(pod), trigger));
    }

    /// Takes out the pod that was to grow.
    pub(super) fn take_growing(&self) -> Option<(Arc<Pod>, Trigger)> {
        self.0.lock().grows.take()
    }

    /// Resizes would have been looked at, and are to be once nobody waits.
    pub(super) fn put_off(&self, trigger: Trigger) {
        self.0.lock().put_off.get_or_insert(trigger);
    }

    /// Why resizes are to be looked at now, if they were put off.
    pub(super) fn take_put_off(&self) -> Option<Trigger> {
        self.0.lock().put_off.take()
    }
}
