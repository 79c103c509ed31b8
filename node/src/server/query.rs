//! What a query asks for.

use http::HeaderMap;
use http::header::{CONNECTION, UPGRADE};
use jiff::{SignedDuration, Timestamp};
use url::form_urlencoded;

use crate::logs::{LogOptions, Streams};

/// A query that asks for what there is not; the text is for the one who asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid(pub(super) String);

/// The members of a query, in order.
pub(super) struct Query(Vec<(String, String)>);

/// Which of a command's or container's streams are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamOptions {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// What is wanted of a container's log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogQuery {
    pub(super) options: LogOptions,
    /// Also what will be written.
    pub(super) follow: bool,
    /// The log of the container before the current one.
    pub(super) previous: bool,
}

/// Why the log can't be had as a query says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InvalidLogQuery {
    /// A value is of the wrong form.
    Undecodable,
    /// The values are of the right form, and can't be meant.
    Unprocessable,
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The first value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of that name, in order.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The streams that are wanted.
    pub(super) fn streams(&self) -> Result<StreamOptions, Invalid> {
        let is_set = |name| self.get(name) == Some("1");
        let tty = is_set("tty");
        // A terminal has one stream only.
        let options = StreamOptions {
            stdin: is_set("input"),
            stdout: is_set("output"),
            stderr: is_set("error") && !tty,
            tty,
        };
        if !options.stdin && !options.stdout && !options.stderr {
            return Err(Invalid("you must specify at least 1 of stdin, stdout, stderr".to_owned()));
        }
        Ok(options)
    }

    /// The ports to forward, which the query names where the protocol can't.
    pub(super) fn ports(&self, headers: &HeaderMap) -> Result<Vec<i32>, Invalid> {
        if !is_web_socket(headers) {
            return Ok(Vec::new());
        }
        let mut ports = Vec::new();
        for list in self.all("port") {
            if list.is_empty() {
                return Err(Invalid("query parameter \"port\" cannot be empty".to_owned()));
            }
            for port in list.split(',') {
                match port.parse::<u16>() {
                    Ok(0) => return Err(Invalid(format!("port {list:?} must be > 0"))),
                    Ok(port) => ports.push(i32::from(port)),
                    Err(error) => {
                        return Err(Invalid(format!("unable to parse {list:?} as a port: {error}")));
                    }
                }
            }
        }
        if ports.is_empty() {
            return Err(Invalid("query parameter \"port\" is required".to_owned()));
        }
        Ok(ports)
    }

    /// What is wanted of a log, where it is `now`.
    pub(super) fn logs(&self, now: Timestamp) -> Result<LogQuery, InvalidLogQuery> {
        use InvalidLogQuery::{Undecodable, Unprocessable};
        let tail = match self.get("tail").filter(|tail| !tail.is_empty()) {
            // The name of old, and its word for the default.
            Some("all") => None,
            Some(tail) => Some(tail.parse().map_err(|_| Undecodable)?),
            None => self.number("tailLines")?,
        };
        let (limit, seconds) = (self.number("limitBytes")?, self.number("sinceSeconds")?);
        let since_time = match self.get("sinceTime") {
            None | Some("" | "null") => None,
            Some(time) => Some(time.parse::<Timestamp>().map_err(|_| Undecodable)?),
        };
        let streams = match self.get("stream") {
            None | Some("All") => Streams::All,
            Some("Stdout") => Streams::Stdout,
            Some("Stderr") => Streams::Stderr,
            Some(_) => return Err(Unprocessable),
        };
        let at_least = |least: i64, value: Option<i64>| match value {
            Some(value) if value < least => Err(Unprocessable),
            value => Ok(value.and_then(|value| u64::try_from(value).ok())),
        };
        let (tail_lines, limit_bytes) = (at_least(0, tail)?, at_least(1, limit)?);
        at_least(1, seconds)?;
        if (seconds.is_some() && since_time.is_some()) || (streams != Streams::All && tail_lines.is_some()) {
            return Err(Unprocessable);
        }
        let since = seconds.map_or(since_time, |seconds| {
            // Before all time is all there is.
            now.checked_sub(SignedDuration::from_secs(seconds)).ok()
        });
        Ok(LogQuery {
            options: LogOptions {
                tail_lines,
                limit_bytes,
                since,
                timestamps: self.flag("timestamps"),
                streams,
            },
            follow: self.flag("follow"),
            previous: self.flag("previous"),
        })
    }

    /// As the API reads truth: whatever does not say no says yes.
    fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, InvalidLogQuery> {
        self.get(name).map(|value| value.parse().map_err(|_| InvalidLogQuery::Undecodable)).transpose()
    }
}

/// Whether a request wants its connection for another protocol.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONNECTION)
        .iter()
        .any(|value| value.as_bytes().to_ascii_lowercase().windows(7).any(|word| word == b"upgrade"))
}

fn is_web_socket(headers: &HeaderMap) -> bool {
    is_upgrade(headers)
        && headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn streams_are_those_that_are_set() {
        let options = |stdin, stdout, stderr, tty| StreamOptions { stdin, stdout, stderr, tty };
        for (query, wanted) in [
            ("input=1&output=1&error=1", options(true, true, true, false)),
            ("output=1&tty=1&error=1", options(false, true, false, true)),
            ("error=1&output=0", options(false, false, true, false)),
        ] {
            assert_eq!(Query::parse(query).streams(), Ok(wanted), "{query}");
        }
        for query in ["", "tty=1&error=1", "output=true"] {
            assert!(Query::parse(query).streams().is_err(), "{query}");
        }
    }

    #[test]
    fn ports_are_in_the_query_of_web_sockets_only() {
        let mut headers = HeaderMap::new();
        assert_eq!(Query::parse("port=80").ports(&headers), Ok(Vec::new()));
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        assert_eq!(Query::parse("port=80,81&port=82").ports(&headers), Ok(vec![80, 81, 82]));
        for (query, error) in [
            ("", "query parameter \"port\" is required"),
            ("port=", "query parameter \"port\" cannot be empty"),
            ("port=0", "port \"0\" must be > 0"),
            ("port=x", "unable to parse \"x\" as a port: invalid digit found in string"),
            ("port=70000", "unable to parse \"70000\" as a port: number too large to fit in target type"),
        ] {
            assert_eq!(Query::parse(query).ports(&headers), Err(Invalid(error.to_owned())), "{query}");
        }
    }

    #[test]
    fn logs_are_asked_for_as_of_the_api() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-21T10:00:00Z");
        let all = LogQuery::default;
        let with = |options| LogQuery { options, ..LogQuery::default() };
        let since = |time| with(LogOptions { since: Some(at(time)), ..Default::default() });
        let tail = |lines| with(LogOptions { tail_lines: Some(lines), ..Default::default() });
        for (query, wanted) in [
            ("", all()),
            ("follow=true&previous=1", LogQuery { follow: true, previous: true, ..all() }),
            ("follow=False&previous=0&container=c", all()),
            ("follow=", LogQuery { follow: true, ..all() }),
            ("tailLines=0", tail(0)),
            ("tailLines=7&tail=3", tail(3)),
            ("tailLines=7&tail=all", all()),
            ("limitBytes=9", with(LogOptions { limit_bytes: Some(9), ..Default::default() })),
            ("timestamps=true", with(LogOptions { timestamps: true, ..Default::default() })),
            ("sinceSeconds=60", since("2026-11-21T09:59:00Z")),
            ("sinceSeconds=9223372036854775807", all()),
            ("sinceTime=2026-11-21T08:00:00%2B01:00", since("2026-11-21T07:00:00Z")),
            ("sinceTime=", all()),
            ("stream=All&tailLines=1", tail(1)),
            ("stream=Stderr", with(LogOptions { streams: Streams::Stderr, ..Default::default() })),
        ] {
            assert_eq!(Query::parse(query).logs(now), Ok(wanted), "{query}");
        }
        for query in ["tailLines=x", "tailLines=", "limitBytes=1e3", "sinceSeconds=1.5", "sinceTime=noon"] {
            assert_eq!(Query::parse(query).logs(now), Err(InvalidLogQuery::Undecodable), "{query}");
        }
        for query in [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=2026-11-21T08:00:00Z",
            "stream=stdout",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(Query::parse(query).logs(now), Err(InvalidLogQuery::Unprocessable), "{query}");
        }
    }
}
