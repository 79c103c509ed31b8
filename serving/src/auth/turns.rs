//! Limits on reviews that are under way and that wait.

use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::ReviewError;
use crate::shares::Shares;

/// Maximum number of reviews of one kind that are under way. Bounds what strangers may cost the API server.
const AT_A_TIME: usize = 16;
/// Maximum number of requests that wait for a review of one kind. Each keeps its head in memory meanwhile.
const WAITING: usize = 64;
/// How long a request waits for its turn. Clients give a request 10 seconds or more.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The turns of reviews of one kind. A request takes one for its review, after a bounded wait in a bounded queue.
///
/// Clients of kind `C` share both: a client may have as many requests under way, and as many in the queue, as remain for all
/// others. So a client that floods the server with requests to be reviewed keeps none but itself out.
pub(super) struct Turns<C: Clone + Eq + Hash> {
    shares: Mutex<Both<C>>,
    /// Notified when a review ends.
    ended: Notify,
}

struct Both<C> {
    under_way: Shares<C>,
    /// One for each review under way and each request that waits.
    places: Shares<C>,
}

/// The turn of one review, until it is dropped.
pub(super) struct Turn<'a, C: Clone + Eq + Hash> {
    turns: &'a Turns<C>,
    client: C,
    /// Whether the review is under way; it waits otherwise.
    is_under_way: bool,
}

/// Why a review gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReview {
    /// Too many reviews are under way or wait. The client should try again later.
    #[error("too many reviews are under way")]
    Busy,
    /// The reviewer failed.
    #[error(transparent)]
    Failed(#[from] ReviewError),
}

impl<C: Clone + Eq + Hash> Turns<C> {
    pub(super) fn new() -> Self {
        // One more of each, since the last one is never taken.
        let both = Both { under_way: Shares::of(AT_A_TIME + 1), places: Shares::of(AT_A_TIME + WAITING + 1) };
        Self { shares: Mutex::new(both), ended: Notify::new() }
    }

    /// Waits for a turn of a client.
    ///
    /// # Errors
    /// [`NoReview::Busy`]: at once if the queue has no place for the client, and once the wait has been too long.
    pub(super) async fn take(&self, client: C) -> Result<Turn<'_, C>, NoReview> {
        if !self.shares.lock().places.take(&client, 1) {
            return Err(NoReview::Busy);
        }
        let mut turn = Turn { turns: self, client, is_under_way: false };
        timeout(LONGEST_WAIT, turn.begin()).await.map_err(|_| NoReview::Busy)?;
        Ok(turn)
    }
}

impl<C: Clone + Eq + Hash> Turn<'_, C> {
    /// Waits until the review may begin.
    async fn begin(&mut self) {
        loop {
            let mut ended = std::pin::pin!(self.turns.ended.notified());
            // Before the look, so that no end between the two is missed.
            ended.as_mut().enable();
            if self.turns.shares.lock().under_way.take(&self.client, 1) {
                self.is_under_way = true;
                return;
            }
            ended.await;
        }
    }
}

impl<C: Clone + Eq + Hash> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        let mut both = self.turns.shares.lock();
        both.places.give_back(&self.client, 1);
        if self.is_under_way {
            both.under_way.give_back(&self.client, 1);
            drop(both);
            self.turns.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;

    /// One turn for each of these clients.
    async fn take(
        turns: &Turns<usize>,
        clients: impl IntoIterator<Item = usize>,
    ) -> Vec<Result<Turn<'_, usize>, NoReview>> {
        join_all(clients.into_iter().map(|client| turns.take(client))).await
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_few_and_the_queue_for_them_is_bounded_in_length_and_time() {
        let turns = Turns::new();
        let mut taken = take(&turns, 0..AT_A_TIME).await;
        assert!(taken.iter().all(Result::is_ok));
        let began = Instant::now();
        let beyond = async {
            assert!(turns.take(1000).await.is_err(), "the queue is full");
            assert_eq!(began.elapsed(), Duration::ZERO);
            taken.pop();
        };
        // Polled in this order: those that wait come first.
        let (waited, ()) = tokio::join!(biased; take(&turns, 100..100 + WAITING), beyond);
        assert!(began.elapsed() >= LONGEST_WAIT);
        assert_eq!(waited.iter().filter(|turn| turn.is_ok()).count(), 1, "only one turn became free");
        // Those who gave up left their places.
        drop((waited, taken));
        assert!(take(&turns, 0..AT_A_TIME).await.iter().all(Result::is_ok));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_whose_reviews_take_long_keeps_no_other_out() {
        let turns = Turns::new();
        // Polled once: those that get no turn wait.
        let mut flood = std::pin::pin!(take(&turns, std::iter::repeat_n(0, AT_A_TIME + WAITING)));
        assert!(flood.as_mut().now_or_never().is_none());
        let others = take(&turns, 1..5).now_or_never().expect("they do not wait");
        assert!(others.iter().all(Result::is_ok));
        drop(others);
        // It has half of the turns, and of its other requests some waited in vain, and the rest were refused at once.
        let got = flood.await.iter().filter(|turn| turn.is_ok()).count();
        assert_eq!(got, AT_A_TIME / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_gets_its_turn_when_a_review_ends() {
        let turns = Turns::new();
        let mut taken = take(&turns, std::iter::repeat_n(0, AT_A_TIME / 2)).await;
        let mut next = std::pin::pin!(turns.take(0));
        assert!(next.as_mut().now_or_never().is_none());
        taken.pop();
        assert!(next.now_or_never().is_some_and(|turn| turn.is_ok()));
    }
}
