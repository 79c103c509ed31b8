//! How long a request may take.

use std::time::Duration;

use steersman_api::GoDuration;
use steersman_api::duration::InvalidDuration;
use tokio::time::{Instant, timeout_at};

use super::request::{Query, Verb};
use super::route::Route;
use crate::refusal::Result;

/// When a request must be answered: an extension of requests that have an end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

/// Why an answer has no end of its own: an extension of such requests, and of their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endless {
    /// It is a watch. It keeps the objects that it has yet to tell.
    Watch,
    /// It is a log, or a connection to a container or a service.
    Stream,
}

impl Deadline {
    /// Of a request that begins now and has an end; `None` if it may take as long as it does. The client may ask for less than
    /// the longest.
    ///
    /// # Errors
    /// What the client asks for is no duration. In upstream's words.
    pub(super) fn of(query: &Query, longest: Option<Duration>) -> std::result::Result<Option<Self>, String> {
        let asked = match query.get("timeout").map(str::parse) {
            Some(Ok(GoDuration(asked))) => Some(asked).filter(|asked| !asked.is_zero()),
            None | Some(Err(InvalidDuration::Negative(_))) => None,
            Some(Err(why)) => return Err(format!("invalid timeout specified in the request URL - {why}")),
        };
        Ok(Self::after(asked.into_iter().chain(longest).min()))
    }

    /// After that long, if there is an end.
    pub(crate) fn after(longest: Option<Duration>) -> Option<Self> {
        longest.and_then(|longest| Instant::now().checked_add(longest)).map(Self)
    }

    /// What the future comes to, if it does in time.
    pub(crate) async fn met<T>(deadline: Option<Self>, future: impl Future<Output = T>) -> Option<T> {
        match deadline {
            Some(Self(until)) => timeout_at(until, future).await.ok(),
            None => Some(future.await),
        }
    }
}

impl Endless {
    /// Of a request that takes as long as its client likes; `None` for all others.
    pub(super) fn of(route: &Result<Route>) -> Option<Self> {
        let Ok(Route::Resource(call)) = route else { return None };
        match call.subresource.as_str() {
            "log" | "exec" | "attach" | "portforward" | "proxy" => Some(Self::Stream),
            _ => (call.verb == Verb::Watch).then_some(Self::Watch),
        }
    }
}
