//! The requests of a connection, as far as they decide whether the connection is still worth its place.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Limits;

/// The requests of one connection that are under way.
///
/// A request is under way from its last header until its answer is sent, or given up. Cheap to clone; all clones are the
/// same.
#[derive(Clone)]
pub(super) struct Activity(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when the last request under way ends.
    idle: Arc<Notify>,
}

struct State {
    /// How many are under way; those of `unread` are among them.
    under_way: usize,
    /// Since when there is none.
    idle_since: Instant,
    /// Answers that must end, each since when it is there to be read.
    unread: BTreeMap<u64, Instant>,
    /// Answers without an end. The connection ends those that the client does not read.
    watches: BTreeMap<u64, Weak<dyn Watched>>,
    /// The number of the next request.
    next: u64,
}

/// An answer without an end, as its connection sees it.
pub(super) trait Watched: Send + Sync {
    /// Gives the answer up if its client has read nothing of it for so long. Otherwise says when that will be; `None` if the
    /// client has read all that there is.
    fn give_up_after(&self, unread: Duration, now: Instant) -> Option<Instant>;
}

/// What is to be done about a connection.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing before that time.
    Fine(Instant),
    /// It ends.
    Over(Overdue),
}

/// Why a connection ends that its client would leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// It has had no request for too long.
    Idle,
    /// An answer has been there for too long, and not been read.
    Unread,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "no request came for too long",
            Self::Unread => "an answer was not read for too long",
        })
    }
}

impl Activity {
    /// Of a connection that begins. Notifies `idle` whenever it has no more requests under way.
    pub(super) fn begin(idle: Arc<Notify>) -> Self {
        let idle_since = Instant::now();
        let (unread, watches) = (BTreeMap::new(), BTreeMap::new());
        let state = Mutex::new(State { under_way: 0, idle_since, unread, watches, next: 0 });
        Self(Arc::new(Shared { state, idle }))
    }

    /// Since when no request is under way; `None` if there is one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.0.state.lock();
        (state.under_way == 0).then_some(state.idle_since)
    }

    /// A request has come.
    pub(super) fn request(&self) -> UnderWay {
        let mut state = self.0.state.lock();
        state.under_way += 1;
        state.next += 1;
        UnderWay { number: state.next, activity: self.clone() }
    }

    /// If nothing is under way, its time begins anew.
    pub(super) fn stir(&self) {
        self.0.state.lock().idle_since = Instant::now();
    }

    /// Resolves once the connection exceeds a limit. Ends the watches that the client does not read, meanwhile.
    pub(super) async fn overdue(&self, limits: &Limits) -> Overdue {
        loop {
            let now = Instant::now();
            // Not under the lock: an answer that is given up takes it when it goes.
            let watches: Vec<_> = self.0.state.lock().watches.values().filter_map(Weak::upgrade).collect();
            let of_watches = watches.iter().filter_map(|watch| watch.give_up_after(limits.unread, now)).min();
            drop(watches);
            let verdict = self.0.state.lock().verdict(limits, now);
            match verdict {
                Verdict::Fine(until) => {
                    sleep_until(of_watches.map_or(until, |sooner| sooner.min(until))).await
                }
                Verdict::Over(overdue) => return overdue,
            }
        }
    }
}

impl State {
    fn verdict(&self, limits: &Limits, now: Instant) -> Verdict {
        // Whatever begins from now on is not over before the sooner of these.
        let next = now + limits.idle.min(limits.unread);
        let unread = self.unread.values().min().map(|since| *since + limits.unread);
        let idle = (self.under_way == 0).then(|| self.idle_since + limits.idle);
        for (end, overdue) in [(unread, Overdue::Unread), (idle, Overdue::Idle)] {
            if end.is_some_and(|end| now >= end) {
                return Verdict::Over(overdue);
            }
        }
        Verdict::Fine([unread, idle].into_iter().flatten().fold(next, Instant::min))
    }
}

/// A request that is under way, until this is dropped.
pub(super) struct UnderWay {
    number: u64,
    activity: Activity,
}

impl UnderWay {
    /// The answer is there, and it has an end: its client has to read it.
    pub(super) fn answered(&self) {
        self.activity.0.state.lock().unread.insert(self.number, Instant::now());
    }

    /// The answer is there, and it is a watch.
    pub(super) fn watched(&self, watch: Weak<dyn Watched>) {
        self.activity.0.state.lock().watches.insert(self.number, watch);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.activity.0.state.lock();
        state.unread.remove(&self.number);
        state.watches.remove(&self.number);
        state.under_way -= 1;
        if state.under_way == 0 {
            state.idle_since = Instant::now();
            self.activity.0.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> Limits {
        Limits { idle: SECOND * 90, unread: SECOND * 60, ..Limits::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ends_on_time() {
        let began = Instant::now();
        assert_eq!(Activity::begin(Arc::default()).overdue(&limits()).await, Overdue::Idle);
        assert_eq!(began.elapsed(), SECOND * 90);
    }

    #[tokio::test(start_paused = true)]
    async fn its_time_begins_anew_when_the_last_request_ends() {
        let (activity, limits, began) = (Activity::begin(Arc::default()), limits(), Instant::now());
        let one = activity.request();
        let other = activity.request();
        one.answered();
        drop(one);
        advance(SECOND * 80).await;
        drop(other);
        assert_eq!(activity.overdue(&limits).await, Overdue::Idle);
        assert_eq!(began.elapsed(), SECOND * 170);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_and_an_answer_that_nobody_reads_does_not() {
        let (activity, limits) = (Activity::begin(Arc::default()), limits());
        let _watch = activity.request();
        let hour = tokio::time::timeout(SECOND * 3600, activity.overdue(&limits));
        hour.await.expect_err("a watch is no reason to end");
        let began = Instant::now();
        let unread = activity.request();
        unread.answered();
        assert_eq!(activity.overdue(&limits).await, Overdue::Unread);
        assert_eq!(began.elapsed(), SECOND * 60);
        drop(unread);
        let hour = tokio::time::timeout(SECOND * 3600, activity.overdue(&limits));
        hour.await.expect_err("it was read after all");
    }
}
