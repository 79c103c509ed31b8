//! Limits on reviews that are under way and that wait.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::ReviewError;

/// Maximum number of reviews of one kind that are under way. Bounds what strangers may cost the API server.
const AT_A_TIME: usize = 16;
/// Maximum number of requests that wait for a review of one kind. Each keeps its head in memory meanwhile.
const WAITING: usize = 64;
/// How long a request waits for its turn. Clients give a request 10 seconds or more.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The turns of reviews of one kind. A request takes one for its review, after a bounded wait in a bounded queue.
pub(super) struct Turns {
    under_way: Semaphore,
    /// One for each review under way and each request that waits.
    places: Semaphore,
}

/// The turn of one review, until it is dropped.
pub(super) struct Turn<'a> {
    _turn: SemaphorePermit<'a>,
    _place: SemaphorePermit<'a>,
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

impl Turns {
    pub(super) fn new() -> Self {
        Self { under_way: Semaphore::new(AT_A_TIME), places: Semaphore::new(AT_A_TIME + WAITING) }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`NoReview::Busy`]: at once if the queue is full, and once the wait has been too long.
    pub(super) async fn take(&self) -> Result<Turn<'_>, NoReview> {
        let place = self.places.try_acquire().map_err(|_| NoReview::Busy)?;
        let turn = timeout(LONGEST_WAIT, self.under_way.acquire()).await.map_err(|_| NoReview::Busy)?;
        Ok(Turn { _turn: turn.expect("the semaphore must stay open"), _place: place })
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_few_and_the_queue_for_them_is_bounded_in_length_and_time() {
        let turns = Turns::new();
        let mut taken = join_all((0..AT_A_TIME).map(|_| turns.take())).await;
        assert!(taken.iter().all(Result::is_ok));
        let began = Instant::now();
        let beyond = async {
            assert!(turns.take().await.is_err(), "the queue is full");
            assert_eq!(began.elapsed(), Duration::ZERO);
            taken.pop();
        };
        // Polled in this order: those that wait come first.
        let (waited, ()) = tokio::join!(biased; join_all((0..WAITING).map(|_| turns.take())), beyond);
        assert!(began.elapsed() >= LONGEST_WAIT);
        assert_eq!(waited.iter().filter(|turn| turn.is_ok()).count(), 1, "only one turn became free");
        // Those who gave up left their places.
        drop((waited, taken));
        assert!(join_all((0..AT_A_TIME).map(|_| turns.take())).await.iter().all(Result::is_ok));
    }
}
