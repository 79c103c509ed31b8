//! Decides what a reflector does after a failure. Pure.

use std::time::Duration;

use steersman_api::{ResourceVersion, Status};

use super::Resume;
use crate::list_watch::{Error, Freshness};
use crate::wire::frames::FrameError;

/// The longest wait that a Retry-After can cause. Longer ones come from proxies, such as one that shows a maintenance page
/// for a day. The API server's own are 32 seconds at most (client-go waits for any).
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How a reflector asks for lists. It steps down from streamed to whole lists if streamed ones fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMode {
    /// As a watch that begins with all existing objects (`sendInitialEvents`). The server needs no memory for such a list.
    Streamed,
    /// In one body, from the server's cache.
    Whole,
    /// In pages.
    Paged,
}

/// What the reflector did when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It requested or read a list of this freshness.
    Listing(Freshness),
    /// It requested a watch.
    OpeningWatch,
    /// It read a watch that had not brought an event.
    Watching,
    /// It read a watch that had brought events.
    Watched,
}

/// What the reflector does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct After {
    pub(super) resume: Resume,
    pub(super) lists: Lists,
    pub(super) wait: Wait,
}

/// How the reflector asks for its next lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// In the same way.
    AsBefore,
    /// Whole, until one is complete.
    WholeOnce,
    /// Whole from now on.
    WholeForGood,
}

/// How long the reflector waits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    None,
    Backoff,
    /// For the back-off, and at least for as long as the server asked for.
    AtLeast(Duration),
}

/// Decides what the reflector does after a failure. `seen` is the last version that it handed on, if any.
pub(super) fn after(phase: Phase, mode: ListMode, seen: ResourceVersion, error: &Error) -> After {
    let lists = Lists::AsBefore;
    let status = error.status();
    // The version was compacted, or the server's cache is behind it, or the store was restored from a backup.
    let unavailable = status.is_some_and(|status| status.is_expired() || is_too_large_version(status));
    if let Phase::Listing(freshness) = phase
        && mode == ListMode::Streamed
        && !unavailable
        && let Some((lists, wait)) = instead_of_streamed(error)
    {
        return After { resume: Resume::List(freshness), lists, wait };
    }
    let relist = Resume::List(if seen == ResourceVersion::ANY {
        Freshness::Any
    } else {
        Freshness::NotOlderThan(seen)
    });
    let resume = match (phase, status) {
        // Only a later page of the most recent list can be too old: the paging took too long.
        (Phase::Listing(Freshness::MostRecent), _) if unavailable => relist,
        (Phase::Listing(_), _) if unavailable => {
            return After { resume: Resume::List(Freshness::MostRecent), lists, wait: Wait::None };
        }
        (Phase::Listing(freshness), _) => Resume::List(freshness),
        (_, Some(status)) if status.code == 429 || (status.retry_after().is_some() && !unavailable) => {
            Resume::Watch(seen)
        }
        (_, Some(_)) => relist,
        // A resumed watch would bring the unreadable event again.
        (_, None) if is_unreadable(error) => relist,
        (_, None) => Resume::Watch(seen),
    };
    let wait = match status.and_then(Status::retry_after) {
        Some(said) => Wait::AtLeast(said.min(MAX_RETRY_AFTER)),
        None => Wait::Backoff,
    };
    After { resume, lists, wait }
}

/// How to list after a streamed list failed. `None` to stream again: the server is busy or down. client-go decides likewise.
///
/// Other obstacles, such as a proxy in between, may break every streamed list and let plain lists pass. They do not turn
/// streamed lists off for good: the next one may pass.
fn instead_of_streamed(error: &Error) -> Option<(Lists, Wait)> {
    match error {
        Error::Status(status) if status.code == 429 || status.retry_after().is_some() => None,
        Error::Status(status) => Some(match status.code {
            400 | 405 | 422 | 501 => (Lists::WholeForGood, Wait::None),
            403 | 404 => (Lists::WholeOnce, Wait::None),
            _ => (Lists::WholeOnce, Wait::Backoff),
        }),
        Error::Call(error) if is_connection_refused(error) => None,
        // The server does not support streamed lists.
        Error::NotStreamed => Some((Lists::WholeForGood, Wait::None)),
        Error::Idle(_) | Error::Endless(_) | Error::Incomplete => Some((Lists::WholeOnce, Wait::None)),
        _ => Some((Lists::WholeOnce, Wait::Backoff)),
    }
}

/// Whether the cause of the error is a refused connection.
fn is_connection_refused(error: &kube::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).any(|error| {
        let error = error.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    })
}

/// Whether the cause of the error is the content of the body, not the connection.
fn is_unreadable(error: &Error) -> bool {
    match error {
        Error::Frame(frame) => !matches!(frame, FrameError::Truncated),
        Error::NoVersion | Error::LostDeletion(_) => true,
        _ => false,
    }
}

/// Whether the server was asked for a version that it has not reached: "Too large resource version".
fn is_too_large_version(status: &Status) -> bool {
    status.has_cause("ResourceVersionTooLarge") || status.message.contains("Too large resource version")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireError;
    use steersman_api::status::StatusDetails;

    const SEEN: ResourceVersion = ResourceVersion(7);

    fn answer(code: u16, reason: &str) -> Error {
        Status::failure(code, reason, "").into()
    }

    fn with_retry_after(code: u16, seconds: i32) -> Error {
        let mut status = Status::failure(code, "", "");
        status.details = Some(StatusDetails { retry_after_seconds: seconds, ..StatusDetails::default() });
        status.into()
    }

    #[test]
    fn each_failure_of_a_watch_has_its_outcome() {
        let relist = Resume::List(Freshness::NotOlderThan(SEEN));
        let resume = Resume::Watch(SEEN);
        for (error, expected, wait) in [
            (answer(410, "Expired"), relist, Wait::Backoff),
            (answer(410, "Gone"), relist, Wait::Backoff),
            (answer(429, "TooManyRequests"), resume, Wait::Backoff),
            (with_retry_after(429, 9), resume, Wait::AtLeast(Duration::from_secs(9))),
            (with_retry_after(503, 2), resume, Wait::AtLeast(Duration::from_secs(2))),
            (with_retry_after(503, 86_400), resume, Wait::AtLeast(Duration::from_secs(60))),
            (answer(500, "InternalError"), relist, Wait::Backoff),
            (answer(403, "Forbidden"), relist, Wait::Backoff),
            (answer(404, "NotFound"), relist, Wait::Backoff),
            (Error::Idle(Duration::from_secs(1)), resume, Wait::Backoff),
            (FrameError::Truncated.into(), resume, Wait::Backoff),
            (Error::ShortWatch, resume, Wait::Backoff),
            (FrameError::TooLarge(1 << 30).into(), relist, Wait::Backoff),
            (FrameError::Protobuf(WireError::Truncated).into(), relist, Wait::Backoff),
            (Error::LostDeletion(WireError::Truncated.into()), relist, Wait::Backoff),
        ] {
            let after = after(Phase::Watching, ListMode::Streamed, SEEN, &error);
            assert_eq!(after, After { resume: expected, lists: Lists::AsBefore, wait }, "{error}");
        }
    }

    fn broken_connection(kind: std::io::ErrorKind) -> Error {
        Error::Call(Box::new(kube::Error::Service(Box::new(std::io::Error::from(kind)))))
    }

    #[test]
    fn each_failure_of_a_streamed_list_has_its_outcome() {
        use std::io::ErrorKind::{ConnectionRefused, ConnectionReset};
        let minutes = Duration::from_secs(190);
        for (error, lists, wait) in [
            (answer(400, "BadRequest"), Lists::WholeForGood, Wait::None),
            (answer(405, "MethodNotAllowed"), Lists::WholeForGood, Wait::None),
            (answer(422, "Invalid"), Lists::WholeForGood, Wait::None),
            (answer(501, ""), Lists::WholeForGood, Wait::None),
            (Error::NotStreamed, Lists::WholeForGood, Wait::None),
            (answer(403, "Forbidden"), Lists::WholeOnce, Wait::None),
            (answer(404, "NotFound"), Lists::WholeOnce, Wait::None),
            (Error::Idle(minutes), Lists::WholeOnce, Wait::None),
            (Error::Endless(minutes), Lists::WholeOnce, Wait::None),
            (Error::Incomplete, Lists::WholeOnce, Wait::None),
            (answer(500, "InternalError"), Lists::WholeOnce, Wait::Backoff),
            (answer(502, ""), Lists::WholeOnce, Wait::Backoff),
            (answer(504, ""), Lists::WholeOnce, Wait::Backoff),
            (broken_connection(ConnectionReset), Lists::WholeOnce, Wait::Backoff),
            (FrameError::Truncated.into(), Lists::WholeOnce, Wait::Backoff),
            (FrameError::TooLarge(1 << 30).into(), Lists::WholeOnce, Wait::Backoff),
            (Error::LostDeletion(WireError::Truncated.into()), Lists::WholeOnce, Wait::Backoff),
            (broken_connection(ConnectionRefused), Lists::AsBefore, Wait::Backoff),
            (answer(429, "TooManyRequests"), Lists::AsBefore, Wait::Backoff),
            (with_retry_after(503, 2), Lists::AsBefore, Wait::AtLeast(Duration::from_secs(2))),
        ] {
            let after = after(Phase::Listing(Freshness::Any), ListMode::Streamed, SEEN, &error);
            assert_eq!(after, After { resume: Resume::List(Freshness::Any), lists, wait }, "{error}");
        }
    }

    #[test]
    fn a_plain_list_that_fails_is_asked_for_again_in_the_same_way() {
        for error in [answer(403, "Forbidden"), answer(500, ""), FrameError::Truncated.into()] {
            let after = after(Phase::Listing(Freshness::Any), ListMode::Whole, ResourceVersion::ANY, &error);
            let resume = Resume::List(Freshness::Any);
            assert_eq!(after, After { resume, lists: Lists::AsBefore, wait: Wait::Backoff });
        }
    }

    #[test]
    fn a_version_that_the_server_has_not_reached_leads_to_the_most_recent_list() {
        let error = answer(504, "Timeout");
        let Error::Status(mut status) = error else { unreachable!() };
        status.message = "Too large resource version: 9, current: 3".to_owned();
        let error = Error::Status(status);
        for mode in [ListMode::Streamed, ListMode::Whole] {
            let after = after(Phase::Listing(Freshness::NotOlderThan(SEEN)), mode, SEEN, &error);
            let resume = Resume::List(Freshness::MostRecent);
            assert_eq!(after, After { resume, lists: Lists::AsBefore, wait: Wait::None });
        }
    }

    #[test]
    fn no_list_is_asked_for_again_at_once_for_ever() {
        let phase = Phase::Listing(Freshness::MostRecent);
        let after = after(phase, ListMode::Paged, SEEN, &answer(410, "Expired"));
        let resume = Resume::List(Freshness::NotOlderThan(SEEN));
        assert_eq!(after, After { resume, lists: Lists::AsBefore, wait: Wait::Backoff });
    }
}
