//! Answers to requests.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};

/// What an answer consists of. Where one can't be completed it says so itself.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Answer = Response<Body>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Words.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    of_type(status, TEXT, Full::new(text.into()).boxed_unsync())
}

/// JSON that is written already.
pub(super) fn json(bytes: impl Into<Bytes>) -> Answer {
    of_type(StatusCode::OK, JSON, Full::new(bytes.into()).boxed_unsync())
}

/// Words that come as they come.
pub(super) fn stream(body: Body) -> Answer {
    of_type(StatusCode::OK, TEXT, body)
}

/// Words in the form of Go's `http.Error`: with a line's end.
pub(super) fn error(status: StatusCode, message: &str) -> Answer {
    text(status, format!("{message}\n"))
}

pub(super) fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Nothing follows on the connection.
pub(super) fn last(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

pub(super) fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// Keeps `kept` until the answer has been sent, or given up.
pub(super) fn keeping(answer: Answer, kept: impl Send + 'static) -> Answer {
    answer.map(|body| {
        body.map_frame(move |frame| {
            let _ = &kept;
            frame
        })
        .boxed_unsync()
    })
}

fn of_type(status: StatusCode, of: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, of);
    answer
}
