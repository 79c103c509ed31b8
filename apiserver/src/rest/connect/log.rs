//! What is wanted of a log (`PodLogOptions`).

use jiff::Timestamp;
use url::form_urlencoded::Serializer;

use crate::field::FieldError;
use crate::meta;
use crate::refusal::{Refusal, Result};
use crate::rest::Query;

/// As the client asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Empty where none is named.
    pub(super) container: String,
    follow: bool,
    previous: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    timestamps: bool,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    /// The node's certificate is not looked at.
    pub(super) trusting: bool,
    /// One of the streams is asked for, which nodes need not be able to tell apart yet.
    stream: bool,
}

impl Options {
    /// From the parameters of a request.
    ///
    /// # Errors
    /// A value is not of its type.
    pub(super) fn parse(query: &Query) -> Result<Self> {
        Ok(Self {
            container: query.get("container").unwrap_or_default().to_owned(),
            follow: query.is_set("follow"),
            previous: query.is_set("previous"),
            since_seconds: number(query, "sinceSeconds")?,
            since_time: time(query, "sinceTime")?,
            timestamps: query.is_set("timestamps"),
            tail_lines: number(query, "tailLines")?,
            limit_bytes: number(query, "limitBytes")?,
            trusting: query.is_set("insecureSkipTLSVerifyBackend"),
            stream: query.all("stream").next().is_some(),
        })
    }

    /// # Errors
    /// The values can't be meant.
    pub(super) fn validate(&self, pod_name: &str) -> Result<()> {
        let mut errors = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            errors.push(FieldError::invalid("tailLines", lines, "must be greater than or equal to 0"));
        }
        if let Some(bytes) = self.limit_bytes.filter(|bytes| *bytes < 1) {
            errors.push(FieldError::invalid("limitBytes", bytes, "must be greater than 0"));
        }
        match self.since_seconds {
            Some(_) if self.since_time.is_some() => {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.push(FieldError::forbidden("[]", why));
            }
            Some(seconds) if seconds < 1 => {
                errors.push(FieldError::invalid("sinceSeconds", seconds, "must be greater than 0"));
            }
            _ => {}
        }
        if self.stream {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Refusal::invalid_kind("", "PodLogOptions", pod_name, &errors))
    }

    /// What follows the question mark when the node is asked.
    pub(super) fn node_query(&self) -> String {
        let flag = |set: bool| set.then(|| "true".to_owned());
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let mut query = Serializer::new(String::new());
        for (name, value) in [
            ("follow", flag(self.follow)),
            ("limitBytes", number(self.limit_bytes)),
            ("previous", flag(self.previous)),
            ("sinceSeconds", number(self.since_seconds)),
            ("sinceTime", self.since_time.map(meta::stamp)),
            ("tailLines", number(self.tail_lines)),
            ("timestamps", flag(self.timestamps)),
        ] {
            if let Some(value) = value {
                query.append_pair(name, &value);
            }
        }
        query.finish()
    }
}

fn number(query: &Query, name: &str) -> Result<Option<i64>> {
    let Some(text) = query.all(name).next() else { return Ok(None) };
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Refusal::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}

fn time(query: &Query, name: &str) -> Result<Option<Timestamp>> {
    match query.get(name) {
        None | Some("null") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|error| Refusal::bad_request(format!("parsing time {text:?}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node_query(query: &str) -> std::result::Result<String, String> {
        let options = Options::parse(&Query::parse(query)).map_err(|refusal| refusal.status.message)?;
        options.validate("p").map_err(|refusal| refusal.status.message)?;
        Ok(options.node_query())
    }

    #[test]
    fn the_node_is_asked_for_what_the_client_asked_for() {
        for (query, asked) in [
            ("", ""),
            ("container=a&pretty=1", ""),
            ("follow=true&previous=1&timestamps=yes", "follow=true&previous=true&timestamps=true"),
            ("follow=&previous=0&timestamps=False", "follow=true"),
            ("tailLines=3&sinceSeconds=5&limitBytes=10", "limitBytes=10&sinceSeconds=5&tailLines=3"),
            ("sinceTime=2020-01-01T02:00:00%2B02:00", "sinceTime=2020-01-01T00%3A00%3A00Z"),
            ("sinceTime=", ""),
        ] {
            assert_eq!(node_query(query).as_deref(), Ok(asked), "{query}");
        }
    }

    #[test]
    fn what_can_not_be_meant_is_refused_in_upstreams_words() {
        for (query, why) in [
            ("sinceSeconds=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("tailLines=", "strconv.ParseInt: parsing \"\": invalid syntax"),
            (
                "tailLines=9223372036854775808",
                "strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
            ),
            (
                "tailLines=-1&limitBytes=0&sinceSeconds=0",
                "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, \
                 limitBytes: Invalid value: 0: must be greater than 0, \
                 sinceSeconds: Invalid value: 0: must be greater than 0]",
            ),
            (
                "sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
                "PodLogOptions \"p\" is invalid: []: Forbidden: \
                 at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            ("stream=All", "PodLogOptions \"p\" is invalid: stream: Forbidden: may not be specified"),
        ] {
            assert_eq!(node_query(query).unwrap_err(), why, "{query}");
        }
        let at_noon = node_query("sinceTime=noon").unwrap_err();
        assert!(at_noon.starts_with("parsing time \"noon\""), "{at_noon}");
    }
}
