//! The leadership fence: admits writes only while it is certain that this process leads.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::gate::{GateClosed, WriteGate};

/// A [`WriteGate`] that is open during a term of leadership. It closes by itself at the deadline of the term, whether
/// or not any task runs then.
///
/// The deadline is the *start* of the last successful renewal plus the renew deadline. Another candidate takes the
/// Lease, or creates a deleted one, at the earliest a lease duration after it saw that renewal or found the Lease
/// gone. That is later, so the old leader's fence closes before the new leader's fence opens.
///
/// This assumes that the leader releases the Lease only after its fence has closed, as a [`Term`] does, and that only
/// candidates write the Lease. Two fences can be open at once, for at most the renew deadline, if:
/// - a user deletes the Lease, and a candidate that has just started, and so never saw the Lease, creates another;
/// - a user changes the Lease's holder or shortens its duration;
/// - a candidate of another implementation creates a deleted Lease at once, as client-go does.
///
/// A leader that reaches the API server notices such a change at its next renewal, a retry period later.
///
/// The fence compares the deadline with the monotonic clock, which continues while a process is stopped (SIGSTOP). If
/// a leader resumes too late, [`admit`](WriteGate::admit) refuses its writes, and its writes under way are abandoned
/// when they are next polled. The clock stops while the whole machine is suspended, which affects Go controllers as
/// well. A fence can't recall what was already handed to the kernel;
/// [`write_unacknowledged`](crate::transport::Options::write_unacknowledged) makes the kernel discard it in time if the
/// network is cut. What a proxy has acknowledged, it may still deliver.
///
/// A write that was admitted in one term is abandoned when that term ends, even if the next term has begun by the
/// time the write is polled.
///
/// An [`Elector`](crate::leader_election::Elector) makes the fence, closed at first. A clone is the same fence.
///
/// [`Term`]: crate::leader_election::Term
#[derive(Clone)]
pub struct Fence {
    state: watch::Receiver<State>,
}

/// The only writer of a [`Fence`]. Opens it for one term at a time.
pub(crate) struct Keeper {
    state: Arc<watch::Sender<State>>,
    /// The number of terms so far.
    terms: AtomicU64,
}

/// One term of a [`Fence`]. Dropping it closes the fence.
pub(crate) struct Opening {
    state: Arc<watch::Sender<State>>,
    term: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Open in this term, until this deadline.
    Open {
        term: u64,
        until: Instant,
    },
}

impl State {
    /// The term that is open at `now`, and its deadline.
    fn open_at(self, now: Instant) -> Option<(u64, Instant)> {
        match self {
            State::Open { term, until } if now < until => Some((term, until)),
            State::Open { .. } | State::Closed => None,
        }
    }
}

impl Keeper {
    /// Creates a keeper and its fence, which is closed.
    pub(crate) fn new() -> (Self, Fence) {
        let (sender, state) = watch::channel(State::Closed);
        (Self { state: Arc::new(sender), terms: AtomicU64::new(0) }, Fence { state })
    }

    /// Begins a term with the deadline `until`, and ends an earlier term. Returns `None` if the deadline has passed.
    pub(crate) fn open(&self, until: Instant) -> Option<Opening> {
        if Instant::now() >= until {
            return None;
        }
        let term = self.terms.fetch_add(1, Ordering::Relaxed) + 1;
        self.state.send_replace(State::Open { term, until });
        Some(Opening { state: self.state.clone(), term })
    }
}

impl Opening {
    /// Moves the deadline of the term to `until`. Returns false if the term has ended: it can't be resumed.
    pub(crate) fn extend(&self, until: Instant) -> bool {
        self.state.send_if_modified(|state| match state.open_at(Instant::now()) {
            Some((term, before)) if term == self.term => {
                *state = State::Open { term, until: until.max(before) };
                true
            }
            _ => false,
        })
    }

    /// Ends the term now, if it has not ended.
    pub(crate) fn close(&self) {
        self.state.send_if_modified(|state| {
            let ours = matches!(state, State::Open { term, .. } if *term == self.term);
            if ours {
                *state = State::Closed;
            }
            ours
        });
    }

    /// Resolves when the term is over.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        closed(self.state.subscribe(), Some(self.term))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.close();
    }
}

impl Fence {
    /// The deadline until which writes are admitted, or `None` if they are not.
    pub fn open_until(&self) -> Option<Instant> {
        self.state.borrow().open_at(Instant::now()).map(|(_, until)| until)
    }
}

impl WriteGate for Fence {
    fn admit(&self) -> Result<(), GateClosed> {
        let state = *self.state.borrow();
        match (state.open_at(Instant::now()), state) {
            (Some(_), _) => Ok(()),
            (None, State::Closed) => Err(GateClosed::because("not the leader")),
            (None, State::Open { .. }) => Err(GateClosed::because("the lease was not renewed in time")),
        }
    }

    fn closed(&self) -> BoxFuture<'static, ()> {
        let state = *self.state.borrow();
        Box::pin(closed(self.state.clone(), state.open_at(Instant::now()).map(|(term, _)| term)))
    }
}

/// Resolves when `term` is no longer open, and at once for `None`.
///
/// Each poll compares the clock first: after a pause of the process, the runtime may poll the task that holds this
/// before it runs its timers.
async fn closed(mut states: watch::Receiver<State>, term: Option<u64>) {
    let Some(term) = term else { return };
    loop {
        let until = match states.borrow_and_update().open_at(Instant::now()) {
            Some((open, until)) if open == term => until,
            _ => return,
        };
        let mut changed = std::pin::pin!(states.changed());
        let mut timer = std::pin::pin!(sleep_until(until));
        let writer_gone = std::future::poll_fn(|cx| {
            if Instant::now() >= until || timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(false);
            }
            changed.as_mut().poll(cx).map(|outcome| outcome.is_err())
        })
        .await;
        if writer_gone {
            // The state can't change any more, but the deadline still holds.
            return sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::{advance, timeout};

    use super::*;

    const TERM: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn writes_are_admitted_until_the_lease_was_not_renewed_in_time() {
        let (keeper, fence) = Keeper::new();
        assert_eq!(fence.admit(), Err(GateClosed::because("not the leader")));
        let opening = keeper.open(Instant::now() + TERM).unwrap();
        advance(TERM - Duration::from_millis(1)).await;
        fence.admit().unwrap();
        advance(Duration::from_millis(1)).await;
        assert_eq!(fence.admit(), Err(GateClosed::because("the lease was not renewed in time")));
        assert!(!opening.extend(Instant::now() + TERM), "a term that ended stays ended");
        fence.admit().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_under_way_is_given_up_at_that_moment_and_not_before() {
        let (keeper, fence) = Keeper::new();
        let start = Instant::now();
        let opening = keeper.open(start + TERM).unwrap();
        let under_way = fence.closed();
        advance(Duration::from_secs(6)).await;
        assert!(opening.extend(start + Duration::from_secs(16)));
        under_way.await;
        assert_eq!(start.elapsed(), Duration::from_secs(16));
    }

    #[tokio::test(start_paused = true)]
    async fn losing_the_lease_closes_at_once() {
        let (keeper, fence) = Keeper::new();
        let opening = keeper.open(Instant::now() + TERM).unwrap();
        let (under_way, ended) = (fence.closed(), opening.ended());
        drop(opening);
        timeout(Duration::ZERO, under_way).await.unwrap();
        timeout(Duration::ZERO, ended).await.unwrap();
        fence.admit().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_of_one_term_does_not_go_on_in_the_next() {
        let (keeper, fence) = Keeper::new();
        let first = keeper.open(Instant::now() + TERM).unwrap();
        let under_way = fence.closed();
        first.close();
        let _second = keeper.open(Instant::now() + TERM).unwrap();
        under_way.now_or_never().expect("the old write must be given up though the fence is open");
        fence.admit().unwrap();
        drop(first);
        fence.admit().expect("the end of an old term must not end the new one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_after_a_long_pause_is_refused_before_any_timer_ran() {
        let (keeper, fence) = Keeper::new();
        let _opening = keeper.open(Instant::now() + TERM).unwrap();
        let mut under_way = fence.closed();
        assert!(futures::poll!(&mut under_way).is_pending());
        advance(TERM * 2).await;
        fence.admit().unwrap_err();
        assert!(futures::poll!(&mut under_way).is_ready());
        assert!(keeper.open(Instant::now()).is_none(), "a term that is over already never begins");
    }

    #[tokio::test(start_paused = true)]
    async fn without_its_keeper_an_open_fence_still_closes_in_time() {
        let (keeper, fence) = Keeper::new();
        let opening = keeper.open(Instant::now() + TERM).unwrap();
        let under_way = fence.closed();
        std::mem::forget(opening);
        drop(keeper);
        timeout(TERM, under_way).await.unwrap();
    }
}
