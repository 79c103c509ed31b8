//! The wall clock.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time of day: objects are stamped with it, and tokens expire by it. Timers follow tokio's clock instead.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The clock of the machine. It goes on while the machine sleeps, and follows when its time is set.
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    /// A clock that calls a function.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// A clock for tests: begins with the present time and goes on with tokio's clock, so that stamps follow a paused clock. It
    /// stands still while the machine sleeps.
    pub fn following_tokio() -> Self {
        let (began, wall) = (Instant::now(), Timestamp::now());
        Self::from_fn(move || {
            let passed = jiff::SignedDuration::try_from(began.elapsed()).unwrap_or(jiff::SignedDuration::MAX);
            wall.saturating_add(passed).unwrap_or(Timestamp::MAX)
        })
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
