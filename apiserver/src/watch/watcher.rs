//! One watch.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Encoder;
use crate::faults::WatchFaults;
use crate::refusal::Refusal;
use crate::rest::Reset;
use crate::select::Selection;
use crate::store::{self, Change, ChangeKind, Cursor, Object};

/// One watch. The task that sends its events drives it.
///
/// It goes through the table's history at its own pace and keeps nothing of it but what it is about to send. Once it
/// is behind what the history remembers, it says so with an ERROR event (410) and ends.
pub(crate) struct Watcher {
    cursor: Cursor,
    selection: Selection,
    encoder: Encoder,
    faults: WatchFaults,
    /// What was there when it began, yet to be sent as ADDED.
    initial: vec::IntoIter<Arc<Object>>,
    /// After `initial`, a bookmark says that they are complete as of this version.
    initial_end: Option<u64>,
    /// Changes taken from the history, yet to be sent.
    pending: vec::IntoIter<Arc<Change>>,
    /// With all of `pending` sent, the client knows everything up to here.
    known: u64,
    /// Between bookmarks; `None` if the client wants none.
    bookmarks: Option<Duration>,
    next_bookmark: Instant,
    ends: Option<Instant>,
    /// The version that the last bookmark told, so that none is told twice at the end.
    marked: u64,
    stop: CancellationToken,
    over: bool,
}

/// How a watch begins.
pub(crate) struct Start {
    /// Where the history is read from.
    pub(crate) cursor: Cursor,
    /// Sent as ADDED first. The watch's selection has been applied to them.
    pub(crate) initial: Vec<Arc<Object>>,
    /// See [`Watcher`].
    pub(crate) initial_end: Option<u64>,
    /// What the client knows when it begins.
    pub(crate) known: u64,
    /// How long it goes on.
    pub(crate) timeout: Option<Duration>,
    /// How often it is told its version; `None` for never.
    pub(crate) bookmarks: Option<Duration>,
}

impl Watcher {
    /// Ends, with a reset connection, when `stop` is cancelled.
    pub(crate) fn new(
        start: Start,
        selection: Selection,
        encoder: Encoder,
        faults: WatchFaults,
        stop: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            cursor: start.cursor,
            initial: start.initial.into_iter(),
            initial_end: start.initial_end,
            pending: vec::IntoIter::default(),
            known: start.known,
            bookmarks: start.bookmarks,
            next_bookmark: now + start.bookmarks.unwrap_or_default(),
            // What lies beyond the clock never comes.
            ends: start.timeout.and_then(|timeout| now.checked_add(timeout)),
            marked: start.known,
            selection,
            encoder,
            faults,
            stop,
            over: false,
        }
    }

    /// The bytes of the next event; `None` when the watch is over.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<Bytes>, Reset>> {
        loop {
            if self.stop.is_cancelled() && !self.over {
                self.over = true;
                return Some(Err(Reset));
            }
            if self.over || self.faults.is_cut() {
                return None;
            }
            if let Some(object) = self.initial.next() {
                self.faults.count();
                let event = self.encoder.object("ADDED", &object);
                return Some(Ok(event.unwrap_or_else(|refusal| self.fail(&refusal))));
            }
            // What has been sent takes no room for as long as the watch goes on.
            self.initial = vec::IntoIter::default();
            if let Some(version) = self.initial_end.take() {
                self.marked = version;
                let end = self.encoder.initial_end(version);
                return Some(Ok(end.unwrap_or_else(|refusal| self.fail(&refusal))));
            }
            let now = Instant::now();
            if self.ends.is_some_and(|ends| now >= ends) {
                self.over = true;
                // A last word of the version, so that the next watch need not begin far back.
                if self.bookmarks.is_some() && self.pending.as_slice().is_empty() && self.known > self.marked
                {
                    return Some(Ok(self.bookmark(self.known)));
                }
                return None;
            }
            if let Some(change) = self.pending.as_slice().first() {
                let due = change.at + self.faults.lag();
                if due > now {
                    self.pause(due).await;
                    continue;
                }
                let change = self.pending.next();
                if let Some((kind, object)) = change.and_then(|change| self.shown(&change)) {
                    self.faults.count();
                    let event = self.encoder.change(kind, &object);
                    return Some(Ok(event.unwrap_or_else(|refusal| self.fail(&refusal))));
                }
                continue;
            }
            match self.cursor.take() {
                Ok(batch) => {
                    self.known = batch.version;
                    self.pending = batch.changes.into_iter();
                    if !self.pending.as_slice().is_empty() {
                        continue;
                    }
                }
                Err(error) => {
                    self.over = true;
                    let store::Error::Compacted(oldest) = error else {
                        return Some(Ok(self.encoder.error(&Refusal::internal(error))));
                    };
                    return Some(Ok(self.encoder.error(&Refusal::expired(self.known, oldest))));
                }
            }
            if let Some(interval) = self.bookmarks
                && now >= self.next_bookmark
            {
                self.next_bookmark = now + interval;
                return Some(Ok(self.bookmark(self.known)));
            }
            self.idle().await;
        }
    }

    /// Waits for a change, a timer or the end.
    async fn idle(&mut self) {
        let timer = match (self.ends, self.bookmarks.map(|_| self.next_bookmark)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timer = async {
            match timer {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cursor.changed() => {}
            () = timer => {}
            () = self.stop.cancelled() => {}
            () = self.faults.changed() => {}
        }
    }

    async fn pause(&mut self, until: Instant) {
        let until = self.ends.map_or(until, |ends| ends.min(until));
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.stop.cancelled() => {}
            () = self.faults.changed() => {}
        }
    }

    /// What a change looks like to this client: what comes into its sight is added, what leaves it is deleted.
    fn shown(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        let before = change.before.as_ref().is_some_and(|object| self.selection.matches(object));
        let after = change.kind != ChangeKind::Deleted && self.selection.matches(&change.object);
        match (before, after) {
            (false, true) => Some(("ADDED", Arc::clone(&change.object))),
            (true, true) => Some(("MODIFIED", Arc::clone(&change.object))),
            (true, false) if change.kind == ChangeKind::Deleted => {
                Some(("DELETED", Arc::clone(&change.object)))
            }
            (true, false) => Some(("DELETED", Arc::clone(change.before_as_of_now()?))),
            (false, false) => None,
        }
    }

    fn bookmark(&mut self, version: u64) -> Vec<Bytes> {
        self.marked = version;
        self.encoder.bookmark(version).unwrap_or_else(|refusal| self.fail(&refusal))
    }

    fn fail(&mut self, refusal: &Refusal) -> Vec<Bytes> {
        self.over = true;
        self.encoder.error(refusal)
    }
}
