//! What follows which failure: pure.

use std::time::Duration;

use steersman_api::{ResourceVersion, Status};

use super::Resume;
use crate::list_watch::{Error, Freshness};

/// How lists are asked for. A reflector steps down this list where a server can't do the better one.
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
    let status = error.status();
    if status.is_some_and(|status| status.is_expired() || is_too_large_version(status)) {
        // The version can't be had: it was compacted, or the server's cache is behind it, or the store was restored from
        // a backup. Waiting helps against none of them for sure, and asking for the newest against all.
        let wait = if matches!(phase, Phase::Listing(_)) { Wait::Backoff } else { Wait::None };
        return After { resume: Resume::List(Freshness::MostRecent), mode, wait };
    }
    if let (Phase::Listing(freshness), ListMode::Streamed, Some(status)) = (phase, mode, status)
        && matches!(status.code, 400 | 405 | 422)
    {
        return After { resume: Resume::List(freshness), mode: ListMode::Whole, wait: Wait::None };
    }
    let relist = Resume::List(if seen == ResourceVersion::ANY {
        Freshness::Any
    } else {
        Freshness::NotOlderThan(seen)
    });
    let resume = match (phase, status) {
        (Phase::Listing(freshness), _) => Resume::List(freshness),
        (_, None) => Resume::Watch(seen),
        (_, Some(status)) if status.code == 429 || status.retry_after().is_some() => Resume::Watch(seen),
        (_, Some(_)) => relist,
    };
    let wait = match status.and_then(Status::retry_after) {
        Some(said) => Wait::AtLeast(said),
        None => Wait::Backoff,
    };
    After { resume, mode, wait }
}

/// "Too large resource version": the server was asked for a version that it has not reached.
fn is_too_large_version(status: &Status) -> bool {
    status.has_cause("ResourceVersionTooLarge") || status.message.contains("Too large resource version")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frames::FrameError;
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
            (answer(410, "Expired"), Resume::List(Freshness::MostRecent), Wait::None),
            (answer(410, "Gone"), Resume::List(Freshness::MostRecent), Wait::None),
            (answer(429, "TooManyRequests"), resume, Wait::Backoff),
            (with_retry_after(429, 9), resume, Wait::AtLeast(Duration::from_secs(9))),
            (with_retry_after(503, 2), resume, Wait::AtLeast(Duration::from_secs(2))),
            (answer(500, "InternalError"), relist, Wait::Backoff),
            (answer(403, "Forbidden"), relist, Wait::Backoff),
            (answer(404, "NotFound"), relist, Wait::Backoff),
            (Error::Idle(Duration::from_secs(1)), resume, Wait::Backoff),
            (FrameError::Truncated.into(), resume, Wait::Backoff),
        ] {
            let after = after(Phase::Watching, ListMode::Streamed, SEEN, &error);
            assert_eq!(after, After { resume: expected, mode: ListMode::Streamed, wait }, "{error}");
        }
    }

    #[test]
    fn a_server_that_cannot_stream_lists_is_asked_for_plain_ones_at_once() {
        for code in [400, 422] {
            let after =
                after(Phase::Listing(Freshness::Any), ListMode::Streamed, SEEN, &answer(code, "Invalid"));
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
        assert_eq!(after.resume, Resume::List(Freshness::MostRecent));
    }
}
