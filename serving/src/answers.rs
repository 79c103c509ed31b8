//! Answers to requests.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};

/// The body of an answer. A body that can't be completed says so itself.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;
/// The answer to a request.
pub type Answer = Response<Body>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer in plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    of_type(status, TEXT, Full::new(text.into()).boxed_unsync())
}

/// An answer with status 200 and this JSON.
pub fn json(bytes: impl Into<Bytes>) -> Answer {
    of_type(StatusCode::OK, JSON, Full::new(bytes.into()).boxed_unsync())
}

/// An answer in plain text, whose body is a stream.
pub fn stream(body: Body) -> Answer {
    of_type(StatusCode::OK, TEXT, body)
}

/// An answer in the form of Go's `http.Error`: plain text with a line end.
pub fn error(status: StatusCode, message: &str) -> Answer {
    text(status, format!("{message}\n"))
}

/// Go's answer to a path that leads nowhere.
pub fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Closes the connection after this answer.
pub fn last(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// A body without content.
pub fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// Keeps `kept` until the answer has been sent, or its connection ended.
pub fn keeping(answer: Answer, kept: impl Send + 'static) -> Answer {
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
