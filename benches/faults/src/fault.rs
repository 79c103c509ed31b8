//! The faults, and what each does to a request.

use std::time::Duration;

use clap::ValueEnum;
use http::{Method, StatusCode};
use serde_json::json;

/// A fault of the API server, as its clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Every request passes.
    None,
    /// Refuses all requests with 429 and `Retry-After`, as a full API server does. Open watches go on.
    Throttled,
    /// Refuses all requests with 429, and does not say when to come again, as some proxies do. Open watches go on.
    ThrottledBlindly,
    /// Every request takes a second longer.
    Slow,
    /// Every tenth request fails with 500.
    Failing,
    /// Every tenth request ends its connection, and with it all other requests and watches on that connection.
    Resetting,
    /// Nobody listens on the port.
    Absent,
    /// The server's certificate has expired. All connections were closed at the beginning.
    ServerCertificate,
    /// All client certificates that were issued before have expired: their requests are answered with 401. At the end, a
    /// new certificate is in the client's file.
    ClientCertificate,
    /// etcd has too much to do: all writes fail with 500, and new lists and watches are told that the cache is being
    /// filled.
    Etcd,
    /// No watch brings anything, and none ends. Watches that were open remain so when the fault is over; new ones work.
    Stalled,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// One object, or something that is no object.
    Get,
    List,
    Watch,
    Write,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The API server gets it, after this time.
    Pass(Duration),
    /// The proxy answers it.
    Answer(Answer),
    /// Its connection is cut.
    Cut,
}

/// An answer of the proxy itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) content_type: &'static str,
    /// In seconds.
    pub(crate) retry_after: Option<u32>,
    pub(crate) body: String,
}

/// How much longer a request takes from a slow server.
const LATENCY: Duration = Duration::from_secs(1);
/// One request in so many fails.
const SHARE: u64 = 10;

impl Asked {
    /// Tells it from a request's method, path and query.
    pub(crate) fn of(method: &Method, path: &str, query: &str) -> Self {
        let watch = query.split('&').any(|pair| matches!(pair, "watch" | "watch=true" | "watch=1"));
        match *method {
            Method::GET if watch => Self::Watch,
            Method::GET if is_collection(path) => Self::List,
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Get,
            _ => Self::Write,
        }
    }
}

/// Whether a path names all objects of a kind: `/api/v1/RESOURCE`, `/apis/GROUP/VERSION/RESOURCE`, or one of these with a
/// namespace before the resource.
fn is_collection(path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let rest = match segments[..] {
        ["api", _, ref rest @ ..] | ["apis", _, _, ref rest @ ..] => rest,
        _ => return false,
    };
    matches!(rest, [_] | ["namespaces", _, _])
}

/// Decides about the `number`-th request. `known` tells whether the client's certificate is valid.
pub(crate) fn judge(fault: Fault, asked: Asked, number: u64, known: bool) -> Verdict {
    if !known {
        return Verdict::Answer(Answer::status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"));
    }
    let unlucky = number.is_multiple_of(SHARE);
    match (fault, asked) {
        (Fault::Throttled, _) => Verdict::Answer(Answer::throttled(Some(1))),
        (Fault::ThrottledBlindly, _) => Verdict::Answer(Answer::throttled(None)),
        (Fault::Slow, _) => Verdict::Pass(LATENCY),
        (Fault::Failing, _) if unlucky => {
            let (code, why) =
                (StatusCode::INTERNAL_SERVER_ERROR, "an error on the server has prevented the request");
            Verdict::Answer(Answer::status(code, "InternalError", why))
        }
        (Fault::Resetting, _) if unlucky => Verdict::Cut,
        // The words of etcd, which the API server hands on without a reason.
        (Fault::Etcd, Asked::Write) => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            Verdict::Answer(Answer::status(code, "", "etcdserver: too many requests"))
        }
        (Fault::Etcd, Asked::List | Asked::Watch) => {
            let code = StatusCode::TOO_MANY_REQUESTS;
            let answer = Answer::status(code, "TooManyRequests", "storage is (re)initializing");
            Verdict::Answer(Answer { retry_after: Some(1), ..answer })
        }
        _ => Verdict::Pass(Duration::ZERO),
    }
}

impl Answer {
    /// A Status as JSON.
    fn status(code: StatusCode, reason: &str, message: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code.as_u16(),
        });
        Self { code, content_type: "application/json", retry_after: None, body: body.to_string() }
    }

    /// The API server's own text, which is no Status.
    fn throttled(retry_after: Option<u32>) -> Self {
        Self {
            code: StatusCode::TOO_MANY_REQUESTS,
            content_type: "text/plain; charset=utf-8",
            retry_after,
            body: "Too many requests, please try again later.\n".to_owned(),
        }
    }

    /// The API server could not be reached.
    pub(crate) fn unavailable(message: &str) -> Self {
        Self::status(StatusCode::BAD_GATEWAY, "", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (method, path, query, expected) in [
            (Method::GET, "/api/v1/pods", "watch=true&resourceVersion=1", Asked::Watch),
            (Method::GET, "/api/v1/pods", "limit=500", Asked::List),
            (Method::GET, "/api/v1/namespaces/a/pods", "", Asked::List),
            (Method::GET, "/apis/apps/v1/namespaces/a/deployments", "", Asked::List),
            (Method::GET, "/apis/apps/v1/deployments", "", Asked::List),
            (Method::GET, "/api/v1/namespaces/a", "", Asked::Get),
            (Method::GET, "/apis/apps/v1/namespaces/a/deployments/b", "", Asked::Get),
            (Method::GET, "/apis/apps/v1", "", Asked::Get),
            (Method::GET, "/version", "", Asked::Get),
            (Method::DELETE, "/api/v1/pods", "watch=true", Asked::Write),
            (Method::POST, "/api/v1/namespaces", "", Asked::Write),
        ] {
            assert_eq!(Asked::of(&method, path, query), expected, "{method} {path}?{query}");
        }
    }

    #[test]
    fn each_fault_has_its_requests() {
        let code = |fault, asked, number, known| match judge(fault, asked, number, known) {
            Verdict::Answer(answer) => answer.code.as_u16(),
            Verdict::Pass(_) => 200,
            Verdict::Cut => 0,
        };
        for (fault, asked, number, known, expected) in [
            (Fault::None, Asked::Write, 10, true, 200),
            (Fault::Throttled, Asked::Get, 1, true, 429),
            (Fault::Failing, Asked::Get, 10, true, 500),
            (Fault::Failing, Asked::Get, 11, true, 200),
            (Fault::Resetting, Asked::Watch, 20, true, 0),
            (Fault::Etcd, Asked::Write, 1, true, 500),
            (Fault::Etcd, Asked::Watch, 1, true, 429),
            (Fault::Etcd, Asked::Get, 1, true, 200),
            (Fault::ClientCertificate, Asked::Get, 1, false, 401),
            (Fault::ClientCertificate, Asked::Get, 1, true, 200),
        ] {
            assert_eq!(code(fault, asked, number, known), expected, "{fault:?} {asked:?} {number} {known}");
        }
        assert_eq!(judge(Fault::Slow, Asked::Get, 1, true), Verdict::Pass(LATENCY));
    }
}
