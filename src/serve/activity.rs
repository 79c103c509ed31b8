//! How long a connection has been idle.

use parking_lot::Mutex;
use steersman_serving::{Evictable, Standing};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::limits::Limits;

/// The last event on one connection, and when it happened.
///
/// Handlers answer at once, so a connection counts as idle from the moment its request came, even while the client
/// reads the answer.
pub(super) struct Activity {
    last: Mutex<Last>,
    /// Wakes [`expired`](Self::expired): a request may bring the expiry closer as well as put it off.
    asked: Notify,
}

#[derive(Debug, Clone, Copy)]
enum Last {
    /// The connection was accepted.
    Accepted(Instant),
    /// The head of a request came.
    Asked(Instant),
}

impl Last {
    fn expiry(self, limits: &Limits) -> Instant {
        match self {
            Self::Accepted(at) => at + limits.first_request,
            Self::Asked(at) => at + limits.next_request,
        }
    }
}

impl Activity {
    /// Starts with a connection that has just been accepted.
    pub(super) fn accepted() -> Self {
        Self { last: Mutex::new(Last::Accepted(Instant::now())), asked: Notify::new() }
    }

    /// Records that the head of a request came.
    pub(super) fn asked(&self) {
        *self.last.lock() = Last::Asked(Instant::now());
        self.asked.notify_one();
    }

    /// Returns once the connection has been idle for longer than `limits` allow.
    pub(super) async fn expired(&self, limits: &Limits) {
        loop {
            let expiry = self.last.lock().expiry(limits);
            if expiry <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(expiry) => {}
                () = self.asked.notified() => {}
            }
        }
    }
}

/// The port authenticates nobody.
impl Evictable for Activity {
    fn standing(&self) -> Standing {
        match *self.last.lock() {
            Last::Accepted(at) | Last::Asked(at) => Standing::Stranger(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_may_bring_the_expiry_closer_or_put_it_off() {
        for (first_request, next_request, expected) in [(3600, 1, 11), (15, 60, 70)] {
            let [first_request, next_request] = [first_request, next_request].map(Duration::from_secs);
            let limits = Limits { connections: 1, first_request, next_request };
            let (activity, begin) = (Activity::accepted(), Instant::now());
            let request = async {
                tokio::time::sleep(Duration::from_secs(10)).await;
                activity.asked();
            };
            tokio::join!(activity.expired(&limits), request);
            assert_eq!(begin.elapsed().as_secs(), expected);
        }
    }
}
