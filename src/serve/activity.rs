//! How long a connection has been idle.

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::limits::Limits;

/// What last happened on one connection.
///
/// Handlers answer at once, so a connection counts as idle from the moment its request came: also while the client reads the
/// answer.
pub(super) struct Activity(Mutex<Last>);

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
    /// A connection was accepted.
    pub(super) fn accepted() -> Self {
        Self(Mutex::new(Last::Accepted(Instant::now())))
    }

    /// The head of a request came.
    pub(super) fn asked(&self) {
        *self.0.lock() = Last::Asked(Instant::now());
    }

    /// When the connection was accepted, or its last request came.
    pub(super) fn idle_since(&self) -> Instant {
        match *self.0.lock() {
            Last::Accepted(at) | Last::Asked(at) => at,
        }
    }

    /// Returns once the connection has been idle for longer than `limits` allow.
    pub(super) async fn expired(&self, limits: &Limits) {
        loop {
            let expiry = self.0.lock().expiry(limits);
            if expiry <= Instant::now() {
                return;
            }
            sleep_until(expiry).await;
        }
    }
}
