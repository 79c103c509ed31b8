//! Decides when a silent watch counts as dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{ApiListerWatcher, WatchEvent, WatchRequest};

/// How long one watch may be silent before its connection counts as dead.
///
/// Not every kind has bookmarks: the API server watches events without a cache, and so without bookmarks. Until the first
/// bookmark, a watch may therefore be silent for as long as the server was asked to keep it open.
pub(super) struct Silence {
    /// The initial events are complete, or the request did not ask for them.
    listed: AtomicBool,
    /// See [`ApiListerWatcher::bookmarked`].
    bookmarked: Arc<AtomicBool>,
    /// The longest silence of a watch that has bookmarks, and of a streamed list.
    idle: Duration,
    /// The time at which the server ends the watch.
    timeout: Duration,
}

impl Silence {
    /// The state of a watch that begins.
    pub(super) fn new<K>(source: &ApiListerWatcher<K>, request: &WatchRequest) -> Self {
        Self {
            listed: AtomicBool::new(!request.initial_events),
            bookmarked: Arc::clone(&source.bookmarked),
            idle: source.idle,
            timeout: request.timeout,
        }
    }

    /// The longest silence that is normal from now on.
    pub(super) fn longest(&self) -> Duration {
        if self.listed.load(Ordering::Relaxed) && !self.bookmarked.load(Ordering::Relaxed) {
            self.timeout.saturating_add(self.idle)
        } else {
            self.idle
        }
    }

    /// Records an event of the watch.
    pub(super) fn broken_by<K>(&self, event: &WatchEvent<K>) {
        match event {
            WatchEvent::InitialEventsEnd(_) => self.listed.store(true, Ordering::Relaxed),
            WatchEvent::Bookmark(_) => self.bookmarked.store(true, Ordering::Relaxed),
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => {}
        }
    }
}
