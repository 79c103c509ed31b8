//! The last known status of every pod, and waiting for a newer one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Error, RuntimeError};
use crate::container::PodStatus;

/// A pod's status, or why there is none.
pub type Status = Result<Arc<PodStatus>, Error>;

/// The statuses of all pods of the runtime, with the time each was good at: the one writer's side.
///
/// Everything in it is at least as new as the time last given to [`observed_all`](Self::observed_all), but for pods that are
/// [held](Self::hold); single pods may be newer. A pod that is not in it is unknown to the runtime. When the writer is dropped,
/// all who wait are told so.
#[derive(Debug, Default)]
pub struct StatusCache {
    shared: Arc<Mutex<Shared>>,
}

/// The readers' side of a [`StatusCache`]; clones read the same.
#[derive(Clone, Debug)]
pub struct StatusReader {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    pods: HashMap<Uid, Entry>,
    /// What all pods but the held ones are at least as new as; none before the first list.
    observed: Option<Instant>,
    /// Pods known to have changed whose new status is still to come.
    held: HashSet<Uid>,
    /// Who waits for what; nobody waits for a pod that is new enough.
    waiting: HashMap<Uid, Vec<Waiting>>,
    stopped: bool,
}

#[derive(Debug)]
struct Entry {
    status: Status,
    /// When this status, or that it still holds, was last read from the runtime.
    observed: Instant,
}

#[derive(Debug)]
struct Waiting {
    newer_than: Instant,
    answer: oneshot::Sender<Status>,
}

impl StatusCache {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader of it.
    pub fn reader(&self) -> StatusReader {
        StatusReader { shared: self.shared.clone() }
    }

    /// Sets a pod's status as of `at`, or that it could not be read, and no longer holds the pod.
    pub fn set(&self, pod: &Uid, status: Result<PodStatus, RuntimeError>, at: Instant) {
        let status = status.map(Arc::new).map_err(Error::Inspect);
        let mut shared = self.shared.lock();
        shared.held.remove(pod);
        shared.pods.insert(pod.clone(), Entry { status, observed: at });
        shared.notify(pod, at);
    }

    /// Notes that a pod's status still holds at `at`. For a pod that is held this is not known, and nothing happens.
    pub fn observed(&self, pod: &Uid, at: Instant) {
        let mut shared = self.shared.lock();
        if shared.held.contains(pod) {
            return;
        }
        if let Some(entry) = shared.pods.get_mut(pod) {
            entry.observed = entry.observed.max(at);
        }
        shared.notify(pod, at);
    }

    /// Notes that the status of all pods, but the held ones, holds at `at`.
    pub fn observed_all(&self, at: Instant) {
        let mut shared = self.shared.lock();
        shared.observed = shared.observed.max(Some(at));
        let waited_for: Vec<Uid> =
            shared.waiting.keys().filter(|pod| !shared.held.contains(*pod)).cloned().collect();
        for pod in waited_for {
            shared.notify(&pod, at);
        }
    }

    /// Notes that a pod has changed and its new status is still to come: until it is [`set`](Self::set) or
    /// [`delete`](Self::delete)d, nobody who waits for a newer one is given the old.
    pub fn hold(&self, pod: &Uid) {
        self.shared.lock().held.insert(pod.clone());
    }

    /// Forgets a pod: the runtime no longer knows it. Who waits for it waits for the next list.
    pub fn delete(&self, pod: &Uid) {
        let mut shared = self.shared.lock();
        shared.held.remove(pod);
        shared.pods.remove(pod);
    }
}

impl Drop for StatusCache {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        shared.stopped = true;
        // Who waits sees its sender go.
        shared.waiting.clear();
    }
}

impl StatusReader {
    /// The last known status; an empty one for a pod that the runtime does not know.
    pub fn get(&self, pod: &Uid) -> Status {
        self.shared.lock().status(pod)
    }

    /// The pod's status once it is newer than `newer_than`.
    ///
    /// # Errors
    /// If the pod could not be inspected since, or the writer is gone.
    pub async fn get_newer_than(&self, pod: &Uid, newer_than: Instant) -> Status {
        let answered = {
            let mut shared = self.shared.lock();
            if let Some(status) = shared.status_if_newer(pod, newer_than) {
                return status;
            }
            if shared.stopped {
                return Err(Error::Stopped);
            }
            let (answer, answered) = oneshot::channel();
            shared.waiting.entry(pod.clone()).or_default().push(Waiting { newer_than, answer });
            answered
        };
        answered.await.unwrap_or(Err(Error::Stopped))
    }
}

impl Shared {
    fn status(&self, pod: &Uid) -> Status {
        let unknown = || Ok(Arc::new(PodStatus::unknown_to_runtime(pod.clone())));
        self.pods.get(pod).map_or_else(unknown, |entry| entry.status.clone())
    }

    fn status_if_newer(&self, pod: &Uid, than: Instant) -> Option<Status> {
        let all = self.observed.is_some_and(|observed| observed > than);
        let one = self.pods.get(pod).is_some_and(|entry| entry.observed > than);
        (!self.held.contains(pod) && (all || one)).then(|| self.status(pod))
    }

    /// Answers those who wait for nothing newer than `at`, and forgets those who have gone.
    fn notify(&mut self, pod: &Uid, at: Instant) {
        let Some(waiting) = self.waiting.remove(pod) else { return };
        let (due, later): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .filter(|waiting| !waiting.answer.is_closed())
            .partition(|w| w.newer_than <= at);
        for waiting in due {
            // Gone in the meantime, which is all the same.
            let _ = waiting.answer.send(self.status(pod));
        }
        if !later.is_empty() {
            self.waiting.insert(pod.clone(), later);
        }
    }
}

#[cfg(test)]
mod tests;
