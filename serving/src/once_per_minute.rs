//! Keeps a frequent event from filling the log.

use std::time::Duration;

use tokio::time::Instant;

/// Allows one log line a minute, however often its cause occurs.
#[derive(Debug, Default)]
pub struct OncePerMinute(Option<Instant>);

impl OncePerMinute {
    /// Whether the line may be logged now. If so, the next one is due in a minute.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.0.is_none_or(|told| now >= told + Duration::from_secs(60));
        if due {
            self.0 = Some(now);
        }
        due
    }
}
