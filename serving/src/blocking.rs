//! Work that may block, off the threads that serve.

use std::future::pending;
use std::panic::resume_unwind;

/// Runs `act` on a thread for blocking work. Dropping the returned future does not end the work.
///
/// # Panics
/// If `act` panics.
pub async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(act).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Never begun: the runtime is going down, and the caller with it.
            Err(_) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn values_and_panics_come_back() {
        assert_eq!(blocking(|| 1).await, 1);
        let panicked = AssertUnwindSafe(blocking(|| panic!("here"))).catch_unwind().await;
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"here"));
    }
}
