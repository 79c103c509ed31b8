//! What follows which failure: pure.

use std::time::Duration;

use steersman_api::{ResourceVersion, Status};

use super::Resume;
use crate::list_watch::{Error, Freshness};
use crate::wire::frames::FrameError;

/// How lists are asked for. A reflector steps down from streamed to whole lists where a server can't stream them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMode {
    /// As a watch that begins with what exists (`sendInitialEvents`): the server needs no memory for it.
    Streamed,
    /// In one body, from the server's cache.
    Whole,
    /// In pages.
    Paged,
}

/// What it was at when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A list of that freshness, begun or under way.
    Listing(Freshness),
    /// A watch that was refused.
    OpeningWatch,
    /// A watch under way.
    Watching,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    pub(super) resume: Resume,
    pub(super) mode: ListMode,
    pub(super) wait: Wait,
}

/// When it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    None,
    Backoff,
    /// The back-off, but not less than the server asks for.
    AtLeast(Duration),
}

/// Decides what follows a failure; `seen` is the last version that was handed on, if any.
pub(super) fn after(phase: Phase, mode: ListMode, seen: ResourceVersion, error: &Error) -> After {
    if let Phase::Listing(freshness) = phase
        && mode == ListMode::Streamed
        && cannot_stream(error)
    {
        return After { resume: Resume::List(freshness), mode: ListMode::Whole, wait: Wait::None };
    }
    let status = error.status();
    // It was compacted, or the server's cache is behind it, or the store was restored from a backup.
    let unavailable = status.is_some_and(|status| status.is_expired() || is_too_large_version(status));
    let relist = Resume::List(if seen == ResourceVersion::ANY {
        Freshness::Any
    } else {
        Freshness::NotOlderThan(seen)
    });
    let resume = match (phase, status) {
        // Of the most recent list only a later page can be too old: it took too long.
        (Phase::Listing(Freshness::MostRecent), _) if unavailable => relist,
        (Phase::Listing(_), _) if unavailable => {
            return After { resume: Resume::List(Freshness::MostRecent), mode, wait: Wait::None };
        }
        (Phase::Listing(freshness), _) => Resume::List(freshness),
        (_, Some(status)) if status.code == 429 || (status.retry_after().is_some() && !unavailable) => {
            Resume::Watch(seen)
        }
        (_, Some(_)) => relist,
        // What can't be read would come again from a watch, and would be as unreadable.
        (_, None) if is_unreadable(error) => relist,
        (_, None) => Resume::Watch(seen),
    };
    let wait = match status.and_then(Status::retry_after) {
        Some(said) => Wait::AtLeast(said),
        None => Wait::Backoff,
    };
    After { resume, mode, wait }
}

/// That the server does not know of streamed lists: it says so, or does not begin to send, or sends only changes.
fn cannot_stream(error: &Error) -> bool {
    match error {
        Error::Status(status) => matches!(status.code, 400 | 405 | 422),
        Error::Idle(_) | Error::NotStreamed => true,
        _ => false,
    }
}

/// That the bytes are at fault, not the connection.
fn is_unreadable(error: &Error) -> bool {
    match error {
        Error::Frame(frame) => !matches!(frame, FrameError::Truncated),
        Error::NoVersion | Error::LostDeletion(_) => true,
        _ => false,
    }
}

/// "Too large resource version": the server was asked for a version that it has not reached.
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
            assert_eq!(after, After { resume: expected, mode: ListMode::Streamed, wait }, "{error}");
        }
    }

    #[test]
    fn a_server_that_cannot_stream_lists_is_asked_for_plain_ones_at_once() {
        let silent = Error::Idle(Duration::from_secs(190));
        for error in [answer(400, "BadRequest"), answer(422, "Invalid"), silent, Error::NotStreamed] {
            let after = after(Phase::Listing(Freshness::Any), ListMode::Streamed, SEEN, &error);
            let expected =
                After { resume: Resume::List(Freshness::Any), mode: ListMode::Whole, wait: Wait::None };
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn a_list_that_fails_is_asked_for_again_in_the_same_way() {
        for error in [answer(403, "Forbidden"), answer(500, ""), FrameError::Truncated.into()] {
            let after = after(Phase::Listing(Freshness::Any), ListMode::Whole, ResourceVersion::ANY, &error);
            let expected =
                After { resume: Resume::List(Freshness::Any), mode: ListMode::Whole, wait: Wait::Backoff };
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn a_version_that_the_server_has_not_reached_leads_to_the_most_recent_list() {
        let error = answer(504, "Timeout");
        let Error::Status(mut status) = error else { unreachable!() };
        status.message = "Too large resource version: 9, current: 3".to_owned();
        let phase = Phase::Listing(Freshness::NotOlderThan(SEEN));
        let after = after(phase, ListMode::Whole, SEEN, &Error::Status(status));
        let expected =
            After { resume: Resume::List(Freshness::MostRecent), mode: ListMode::Whole, wait: Wait::None };
        assert_eq!(after, expected);
    }

    #[test]
    fn no_list_is_asked_for_again_at_once_for_ever() {
        let phase = Phase::Listing(Freshness::MostRecent);
        let after = after(phase, ListMode::Paged, SEEN, &answer(410, "Expired"));
        let resume = Resume::List(Freshness::NotOlderThan(SEEN));
        assert_eq!(after, After { resume, mode: ListMode::Paged, wait: Wait::Backoff });
    }
}
