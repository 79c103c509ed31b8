//! How a reflector is doing: what it does, and when it last heard from the API server.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::list_watch::Error;

/// Maximum length of the text of an error that is kept, in bytes. The API server's messages are shorter.
const LONGEST_ERROR: usize = 1024;

/// What a reflector is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It has not been started.
    NotStarted,
    /// It requests or reads a list.
    Listing,
    /// It has requested a watch, which the API server has not answered yet.
    Opening,
    /// It reads an open watch.
    Watching,
    /// A list or a watch failed, and it waits before the next one.
    BackingOff,
    /// It has ended.
    Stopped,
}

impl fmt::Display for WatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStarted => "not started",
            Self::Listing => "listing",
            Self::Opening => "opening the watch",
            Self::Watching => "watching",
            Self::BackingOff => "backing off",
            Self::Stopped => "stopped",
        })
    }
}

/// How a reflector is doing at one moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What it is doing.
    pub state: WatchState,
    /// How long it has been doing that.
    pub in_state: Duration,
    /// How long there has been no open watch. `None` while there is one, and before the first one.
    pub unwatched_for: Option<Duration>,
    /// The time since the API server last sent an object, an event or a bookmark. `None` if it never did.
    pub silent_for: Option<Duration>,
    /// Whether a watch of this kind has brought a bookmark. The API server then sends one each minute, so that a longer
    /// silence is a fault.
    pub has_bookmarks: bool,
    /// The number of complete lists.
    pub lists: u64,
    /// The number of lists and watches that failed.
    pub failures: u64,
    /// The last failure.
    pub last_error: Option<LastError>,
    /// The number of changes that wait for the cache to take them in.
    pub queued: usize,
    /// How long ago the cache should have begun to take these in. `None` if none waits.
    pub queued_for: Option<Duration>,
}

impl Progress {
    /// The time since the last sign that the cache is up to date: an object, an event or a bookmark. If the API server sends no
    /// bookmarks of this kind, the beginning of a watch counts as well. `None` before the first sign.
    pub fn staleness(&self) -> Option<Duration> {
        let may_be_silent = self.state == WatchState::Watching && !self.has_bookmarks;
        self.silent_for.map(|silent| if may_be_silent { silent.min(self.in_state) } else { silent })
    }
}

/// The last failure of a list or a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// The error, shortened to 1 KiB.
    pub error: String,
    /// How long ago the list or watch failed.
    pub ago: Duration,
}

/// Records how a reflector is doing. Costs a lock that is free, and a look at the clock, for each event.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Record>);

#[derive(Debug)]
struct Record {
    state: WatchState,
    since: Instant,
    /// When the last watch ended, unless another one is open.
    unwatched_since: Option<Instant>,
    heard: Option<Instant>,
    has_bookmarks: bool,
    lists: u64,
    failures: u64,
    last_error: Option<(String, Instant)>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Record {
            state: WatchState::NotStarted,
            since: Instant::now(),
            unwatched_since: None,
            heard: None,
            has_bookmarks: false,
            lists: 0,
            failures: 0,
            last_error: None,
        }))
    }
}

impl Pulse {
    /// The reflector turns to something else.
    pub(crate) fn turns_to(&self, state: WatchState) {
        let now = Instant::now();
        let mut record = self.0.lock();
        if record.state == state {
            return;
        }
        if record.state == WatchState::Watching {
            record.unwatched_since = Some(now);
        }
        if state == WatchState::Watching {
            record.unwatched_since = None;
        }
        (record.state, record.since) = (state, now);
    }

    /// The API server sent an object or an event.
    pub(super) fn heard(&self) {
        self.0.lock().heard = Some(Instant::now());
    }

    /// A watch brought a bookmark.
    pub(super) fn heard_bookmark(&self) {
        let mut record = self.0.lock();
        record.heard = Some(Instant::now());
        record.has_bookmarks = true;
    }

    /// A list is complete.
    pub(super) fn listed(&self) {
        let mut record = self.0.lock();
        record.heard = Some(Instant::now());
        record.lists += 1;
    }

    /// A list or a watch failed.
    pub(super) fn failed(&self, error: &Error) {
        let text = shortened(error.to_string());
        let mut record = self.0.lock();
        record.failures += 1;
        record.last_error = Some((text, Instant::now()));
    }

    /// How the reflector is doing now, with a log that has this many changes, the first one since `queued_since`.
    pub(crate) fn progress(&self, queued: usize, queued_since: Option<Instant>) -> Progress {
        let record = self.0.lock();
        Progress {
            state: record.state,
            in_state: record.since.elapsed(),
            unwatched_for: record.unwatched_since.map(|at| at.elapsed()),
            silent_for: record.heard.map(|at| at.elapsed()),
            has_bookmarks: record.has_bookmarks,
            lists: record.lists,
            failures: record.failures,
            last_error: record
                .last_error
                .as_ref()
                .map(|(error, at)| LastError { error: error.clone(), ago: at.elapsed() }),
            queued,
            queued_for: queued_since.map(|at| at.elapsed()),
        }
    }
}

/// The text of an error, cut at the end of a character.
fn shortened(mut text: String) -> String {
    let mut end = text.len().min(LONGEST_ERROR);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use steersman_api::{GroupVersionResource, Status};
    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::shared_informer::{AnyInformer, Config, SharedInformer};
    use crate::testing::ScriptedSource;
    use crate::wire::meta::MetaOnly;

    #[test]
    fn long_errors_are_cut_between_characters() {
        assert_eq!(shortened("short".to_owned()), "short");
        let long = shortened("€".repeat(LONGEST_ERROR));
        assert_eq!(long, "€".repeat(LONGEST_ERROR / 3));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_without_a_watch_counts_from_the_end_of_the_last_one() {
        let pulse = Pulse::default();
        let second = Duration::from_secs(1);
        let mut unwatched = Vec::new();
        for state in [
            WatchState::Listing,
            WatchState::Watching,
            WatchState::BackingOff,
            WatchState::Opening,
            WatchState::BackingOff,
            WatchState::Watching,
        ] {
            pulse.turns_to(state);
            tokio::time::advance(second).await;
            unwatched.push(pulse.progress(0, None).unwatched_for);
        }
        assert_eq!(unwatched, [None, None, Some(second), Some(2 * second), Some(3 * second), None]);
        assert_eq!(pulse.progress(0, None).in_state, second);
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_tells_what_it_does_and_what_went_wrong() {
        let source = ScriptedSource::<MetaOnly>::default();
        source.apply(json!({ "metadata": { "name": "a", "uid": "a" } }));
        let resource = GroupVersionResource::new("", "v1", "things");
        let shared = SharedInformer::new(Arc::new(source.clone()), resource, Config::default());
        assert_eq!(shared.progress().state, WatchState::NotStarted);
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(Arc::clone(&shared).run(stop.clone()));
        let second = Duration::from_secs(1);

        sleep(second).await;
        let listed = shared.progress();
        assert_eq!(
            (listed.state, listed.lists, listed.failures, listed.queued),
            (WatchState::Watching, 1, 0, 0)
        );
        assert_eq!((listed.staleness(), listed.has_bookmarks), (Some(second), false));
        source.bookmark();
        sleep(2 * second).await;
        let marked = shared.progress();
        assert_eq!((marked.silent_for, marked.has_bookmarks), (Some(2 * second), true));

        source.compact();
        source.break_watches(|| Status::failure(410, "Expired", "too old").into());
        sleep(60 * second).await;
        let relisted = shared.progress();
        assert_eq!((relisted.state, relisted.lists, relisted.failures), (WatchState::Watching, 2, 1));
        let last = relisted.last_error.unwrap();
        assert!(last.error.contains("too old") && last.ago == 60 * second, "{last:?}");
        assert!(shared.bytes() > 0);

        stop.cancel();
        tasks.join_next().await.unwrap().unwrap();
        assert_eq!(shared.progress().state, WatchState::Stopped);
    }
}
