//! How long a request may take.

use std::time::Duration;

use steersman_api::GoDuration;
use steersman_api::duration::InvalidDuration;
use tokio::time::{Instant, timeout_at};

use super::request::{Call, Query, Verb};
use super::route::Route;
use crate::refusal::Result;

/// When a request must be answered: an extension of requests that have an end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Of a request that begins now; `None` if it takes as long as its client likes. The client may ask for less than the
    /// longest.
    ///
    /// # Errors
    /// What the client asks for is no duration. In upstream's words.
    pub(super) fn of(
        route: &Result<Route>,
        query: &Query,
        longest: Option<Duration>,
    ) -> std::result::Result<Option<Self>, String> {
        if matches!(route, Ok(Route::Resource(call)) if is_endless(call)) {
            return Ok(None);
        }
        let asked = match query.get("timeout").map(str::parse) {
            Some(Ok(GoDuration(asked))) => Some(asked).filter(|asked| !asked.is_zero()),
            None | Some(Err(InvalidDuration::Negative(_))) => None,
            Some(Err(why)) => return Err(format!("invalid timeout specified in the request URL - {why}")),
        };
        let least = asked.into_iter().chain(longest).min();
        Ok(least.and_then(|least| Instant::now().checked_add(least)).map(Self))
    }

    /// What the future comes to, if it does in time.
    pub(crate) async fn met<T>(deadline: Option<Self>, future: impl Future<Output = T>) -> Option<T> {
        match deadline {
            Some(Self(until)) => timeout_at(until, future).await.ok(),
            None => Some(future.await),
        }
    }
}

/// Whether a call takes as long as its client likes.
fn is_endless(call: &Call) -> bool {
    call.verb == Verb::Watch
        || matches!(call.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy")
}
