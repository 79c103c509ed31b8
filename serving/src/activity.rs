//! How long a connection may last.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::accept::{Evictable, Standing};

/// How long a connection may be idle before the first authorized request on it, the handshake included.
const STRANGER: Duration = Duration::from_secs(10);
/// How long such a connection may last in all, whatever it asks: the server answers such requests at once.
const STRANGER_LIFE: Duration = Duration::from_secs(60);
/// How long other connections may be idle; upstream's `IdleTimeout`, as long as clients in Go keep theirs.
const KNOWN: Duration = Duration::from_secs(90);
/// How long a request may take, unless another one begins (upstream: read and write timeouts). Upgraded connections are not bounded by it.
const BUSY: Duration = Duration::from_secs(4 * 60 * 60);

/// The activity on one connection, which decides when the connection is over.
pub struct Activity {
    state: Mutex<State>,
    changed: Notify,
    /// Shared by the connections of a server. Notified when the last request under way on any of them ends.
    idle: Arc<Notify>,
}

struct State {
    opened: Instant,
    /// Requests under way, until the last byte of their answers.
    requests: usize,
    /// When the last request began, or the connection became idle.
    since: Instant,
    /// A request on it was authorized.
    known: bool,
}

/// A request under way, until this is dropped.
pub struct Busy(Arc<Activity>);

impl Activity {
    /// The activity on a new connection. Notifies `idle` whenever the connection becomes idle.
    pub(crate) fn new(idle: Arc<Notify>) -> Arc<Self> {
        let now = Instant::now();
        let state = State { opened: now, requests: 0, since: now, known: false };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), idle })
    }

    /// Records that a request begins.
    pub fn begin(self: &Arc<Self>) -> Busy {
        let mut state = self.state.lock();
        state.requests += 1;
        state.since = Instant::now();
        if state.requests == 1 {
            self.changed.notify_one();
        }
        Busy(self.clone())
    }

    /// Records that a request was authorized: the connection is no stranger's any more.
    pub fn admitted(&self) {
        self.state.lock().known = true;
    }

    /// Returns once the connection has been idle, or busy, for too long. Only one task may wait.
    pub(super) async fn over(&self) {
        loop {
            let end = self.state.lock().end();
            tokio::select! {
                () = sleep_until(end) => if self.state.lock().end() <= Instant::now() {
                    return;
                },
                () = self.changed.notified() => {}
            }
        }
    }
}

impl State {
    fn end(&self) -> Instant {
        let end = self.since
            + match self.requests {
                0 if self.known => KNOWN,
                0 => STRANGER,
                _ => BUSY,
            };
        if self.known { end } else { end.min(self.opened + STRANGER_LIFE) }
    }
}

impl Evictable for Activity {
    fn standing(&self) -> Standing {
        let state = self.state.lock();
        match state.requests {
            _ if !state.known => Standing::Stranger(state.opened),
            0 => Standing::Idle(state.since),
            _ => Standing::Busy(state.opened),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
            self.0.changed.notify_one();
            self.0.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Arc<Activity> {
        Activity::new(Arc::default())
    }

    async fn lasts(activity: &Activity) -> Duration {
        let begin = Instant::now();
        activity.over().await;
        begin.elapsed()
    }

    fn about(found: Duration, expected: Duration) -> bool {
        found >= expected && found < expected + Duration::from_millis(10)
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_go_soon_others_later_and_who_is_served_stays() {
        assert!(about(lasts(&fresh()).await, STRANGER));
        let activity = fresh();
        activity.admitted();
        assert!(about(lasts(&activity).await, KNOWN));
        let busy = [activity.begin(), activity.begin()];
        assert!(about(lasts(&activity).await, BUSY));
        drop(busy);
        assert!(about(lasts(&activity).await, KNOWN));
        let activity = fresh();
        let (lasted, ()) = tokio::join!(lasts(&activity), async {
            tokio::time::sleep(STRANGER / 2).await;
            let busy = activity.begin();
            tokio::time::sleep(STRANGER * 2).await;
            drop(busy);
        });
        assert!(about(lasted, STRANGER * 7 / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_always_busy_stays_while_requests_begin() {
        let activity = fresh();
        activity.admitted();
        let asks = async {
            let mut under_way = activity.begin();
            for _ in 0..10 {
                tokio::time::sleep(BUSY / 2).await;
                under_way = activity.begin();
            }
            tokio::time::sleep(BUSY * 2).await;
            drop(under_way);
        };
        let lasted = tokio::select! {
            lasted = lasts(&activity) => lasted,
            () = asks => panic!("one that takes for ever is waited for"),
        };
        assert!(about(lasted, BUSY * 6), "{lasted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_goes_in_the_end_whatever_it_asks() {
        let activity = fresh();
        let asks = async {
            for _ in 0..100 {
                tokio::time::sleep(STRANGER / 2).await;
                drop(activity.begin());
            }
        };
        let lasted = tokio::select! {
            lasted = lasts(&activity) => lasted,
            () = asks => panic!("it may ask for ever"),
        };
        assert!(about(lasted, STRANGER_LIFE));
        // Nor does it help to be slow to take the answer.
        let activity = fresh();
        let _busy = activity.begin();
        assert!(about(lasts(&activity).await, STRANGER_LIFE));
        // A client that was let in meanwhile is no stranger.
        let activity = fresh();
        let busy = activity.begin();
        let (lasted, ()) = tokio::join!(lasts(&activity), async {
            tokio::time::sleep(STRANGER_LIFE / 2).await;
            activity.admitted();
            assert!(matches!(activity.standing(), Standing::Busy(_)));
            tokio::time::sleep(STRANGER_LIFE).await;
            drop(busy);
        });
        assert!(about(lasted, STRANGER_LIFE * 3 / 2 + KNOWN));
    }
}
