//! What the wall clock says.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time that objects are stamped with. Timers do not go by it: they go by tokio's clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Asks a function.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Begins with the present time and goes on with tokio's clock, so that stamps follow a paused clock.
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
