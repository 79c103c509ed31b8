//! Measures how long a future keeps its thread busy.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// Runs `future` to its end. Returns its output, and the time that its polls took: without the time between polls, when it
/// waits for calls and timers.
///
/// This is the future's processor time, unless the system takes the processor from its thread during a poll. `now` is the clock.
pub(super) async fn with_busy_time<F: Future>(future: F, now: impl Fn() -> Instant) -> (F::Output, Duration) {
    let mut future = pin!(future);
    let mut busy = Duration::ZERO;
    let output = poll_fn(|cx| {
        let begun = now();
        let polled = future.as_mut().poll(cx);
        busy += now().saturating_duration_since(begun);
        polled
    })
    .await;
    (output, busy)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn polls_count_and_waits_do_not() {
        let seconds = Duration::from_secs;
        let now = Cell::new(Instant::now());
        let pass = |time| now.set(now.get() + time);
        let work = async {
            pass(seconds(2));
            yield_now().await;
            pass(seconds(3));
            "done"
        };
        let mut measured = pin!(with_busy_time(work, || now.get()));
        assert!(futures::poll!(measured.as_mut()).is_pending());
        pass(seconds(60));
        assert_eq!(measured.await, ("done", seconds(5)));
    }
}
