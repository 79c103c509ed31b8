//! The events of one component that wait to be written.

use std::{collections::VecDeque, fmt};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use parking_lot::Mutex;
use steersman_api::ArcStr;
use tokio::{sync::Notify, time::Instant};

use super::{
    correlator::{Correlated, Correlator, Write},
    metrics::Dropped,
};

/// Maximum number of writes that wait; client-go: `maxQueuedEvents`.
pub(super) const QUEUE_LENGTH: usize = 1000;
/// The most slots that an empty queue keeps.
const KEPT_SLOTS: usize = 16;

/// The queue of one component. Recorders push events, and the component's writer takes them in the order of their
/// first occurrence.
pub(super) struct Queue {
    component: ArcStr,
    /// The service account that writes the events.
    account: Option<ArcStr>,
    state: Mutex<State>,
    /// Wakes the writer after a push or a close.
    changed: Notify,
}

/// Empty, without allocations, until the first event.
#[derive(Default)]
struct State {
    correlator: Option<Box<Correlator>>,
    /// Of the writes with the same key, all but the first are patches of that event, and no two patches are adjacent.
    waiting: VecDeque<Correlated>,
    has_writer: bool,
    closed: bool,
}

impl Queue {
    pub(super) fn new(component: ArcStr, account: Option<ArcStr>) -> Self {
        Self { component, account, state: Mutex::default(), changed: Notify::new() }
    }

    pub(super) fn component(&self) -> &ArcStr {
        &self.component
    }

    pub(super) fn account(&self) -> Option<&ArcStr> {
        self.account.as_ref()
    }

    /// Correlates an event and adds what must be written. `now` and `stamp` are the same moment by both clocks. With
    /// the first event, calls `start`, which must start the writer and must not call this queue.
    ///
    /// # Errors
    /// Why the event is not written. If the queue is full or closed, the correlator does not count the event.
    pub(super) fn push(
        &self,
        event: Event,
        now: Instant,
        stamp: Timestamp,
        start: impl FnOnce(),
    ) -> Result<(), Dropped> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Dropped::Stopped);
        }
        if state.waiting.len() >= QUEUE_LENGTH {
            return Err(Dropped::QueueFull);
        }
        let correlator = state.correlator.get_or_insert_with(|| Box::new(Correlator::new()));
        let new = correlator.correlate(event, now, stamp).ok_or(Dropped::Spam)?;
        if let Some(earlier) = state.superseded_by(&new) {
            *earlier = new;
            return Ok(());
        }
        state.waiting.push_back(new);
        if !std::mem::replace(&mut state.has_writer, true) {
            // Under the lock, so that a close either comes first or sees that a writer was started.
            start();
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for the next write and takes it. Returns `None` if the queue is closed and empty. For the writer only:
    /// there must be one caller at a time.
    pub(super) async fn next(&self) -> Option<Write> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(next) = state.take() {
                    return Some(next);
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Makes the queue refuse new events. What waits stays until the writer takes it.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Removes all that waits. Returns the number of writes.
    pub(super) fn clear(&self) -> usize {
        std::mem::take(&mut self.state.lock().waiting).len()
    }
}

impl State {
    /// The waiting patch that becomes superfluous if `new` is written in its place.
    fn superseded_by(&mut self, new: &Correlated) -> Option<&mut Correlated> {
        let latest = self.waiting.iter_mut().rfind(|waiting| waiting.key == new.key)?;
        matches!((&latest.write, &new.write), (Write::Patch(_), Write::Patch(_))).then_some(latest)
    }

    fn take(&mut self) -> Option<Write> {
        let next = self.waiting.pop_front()?;
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT_SLOTS);
        }
        Some(next.write)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.state.lock().waiting.len();
        f.debug_struct("Queue").field("component", &self.component).field("waiting", &waiting).finish()
    }
}
