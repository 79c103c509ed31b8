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
/// A client, which `C` identifies, may hold at most as many turns, and as many places in the queue, as remain free for all others.
/// So a client that floods the server with requests keeps out only itself.
pub(super) struct Turns<C: Clone + Eq + Hash> {
    taken: Mutex<Taken<C>>,
    /// Notified when a review ends.
    ended: Notify,
}

/// What all clients have taken.
struct Taken<C> {
    under_way: Shares<C>,
    /// One for each review under way and each request that waits.
    places: Shares<C>,
}

/// The turn of one review, until it is dropped.
pub(super) struct Turn<'a, C: Clone + Eq + Hash> {
    turns: &'a Turns<C>,
    client: C,
    /// `false` while the request waits.
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
        // `Shares` never gives away the last one.
        let taken =
            Taken { under_way: Shares::of(AT_A_TIME + 1), places: Shares::of(AT_A_TIME + WAITING + 1) };
        Self { taken: Mutex::new(taken), ended: Notify::new() }
    }

    /// Waits for a turn of a client.
    ///
    /// # Errors
    /// [`NoReview::Busy`]: at once if the queue has no place for the client, and once the wait has been too long.
    pub(super) async fn take(&self, client: C) -> Result<Turn<'_, C>, NoReview> {
        if !self.taken.lock().places.take(&client, 1) {
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
            // Notices also a review that ends between the next line and the wait.
            ended.as_mut().enable();
            if self.turns.taken.lock().under_way.take(&self.client, 1) {
                self.is_under_way = true;
                return;
            }
            ended.await;
        }
    }
}

impl<C: Clone + Eq + Hash> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        let mut taken = self.turns.taken.lock();
        taken.places.give_back(&self.client, 1);
        if self.is_under_way {
            taken.under_way.give_back(&self.client, 1);
            drop(taken);
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
        // One poll takes all turns that the client may have. Its other requests wait or are refused.
        let mut flood = std::pin::pin!(take(&turns, std::iter::repeat_n(0, AT_A_TIME + WAITING)));
        assert!(flood.as_mut().now_or_never().is_none());
        let others = take(&turns, 1..5).now_or_never().expect("they do not wait");
        assert!(others.iter().all(Result::is_ok));
        drop(others);
        // Half of the turns.
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
