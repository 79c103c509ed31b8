//! What is served, told in OpenAPI v3: `kubectl explain`, `apply` and validation read it.
//!
//! `/openapi/v3` lists a document for each group version. A document is made from the schema table (or, for custom
//! resources, from their definitions) whenever somebody asks, and not kept: clients do that, under the hash that its
//! address in the list has. There are no descriptions; version 2 and the protobuf form are not served.

mod custom;
mod document;
mod index;
mod paths;
mod schemas;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::codec::{self, Format};
use crate::refusal::Refusal;
use crate::registry::Resources;
use crate::rest::{Query, ResponseBody, answer, refuse, unknown_path};
use crate::store::Store;
use index::Index;

/// What a document is sent as.
const JSON: &str = "application/json";

/// What is looked at for an answer.
pub(crate) struct Server<'a> {
    /// What is served.
    pub(crate) resources: &'a Resources,
    /// Holds the definitions of custom resources.
    pub(crate) store: &'a Store,
    /// The time.
    pub(crate) now: Timestamp,
}

impl Server<'_> {
    /// Answers a request for something under `/openapi`.
    pub(crate) fn answer(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        query: &Query,
    ) -> Response<ResponseBody> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return refuse(&Refusal::method_not_allowed(), Format::Json);
        }
        let Some(path) = path.trim_matches('/').strip_prefix("openapi/v3") else { return unknown_path() };
        let index = Index::of(self.resources, self.store);
        let path = path.trim_start_matches('/');
        if path.is_empty() {
            // As upstream, whose list is of that type for no better reason than that its handler sniffs it.
            return answer(StatusCode::OK, "text/plain; charset=utf-8", json_body(&index.list()));
        }
        let Some(entry) = index.get(path) else { return empty(StatusCode::NOT_FOUND) };
        if !accepts_json(headers) {
            return refuse(&Refusal::not_acceptable(), Format::Json);
        }
        let asked = query.get("hash");
        let mut answer = match asked {
            Some(other) if other != entry.hash => {
                let mut moved = empty(StatusCode::MOVED_PERMANENTLY);
                set(&mut moved, header::LOCATION, &entry.url());
                moved
            }
            _ if knows(headers, &entry.hash) => empty(StatusCode::NOT_MODIFIED),
            _ => answer(StatusCode::OK, JSON, json_body(&document::of(entry))),
        };
        set(&mut answer, header::ETAG, &format!("\"{}\"", entry.hash));
        set(&mut answer, header::VARY, "Accept");
        if asked.is_some_and(|asked| asked == entry.hash) {
            set(&mut answer, header::CACHE_CONTROL, "public, immutable");
            set(&mut answer, header::EXPIRES, &in_a_year(self.now));
        }
        answer
    }
}

fn json_body(value: &serde_json::Value) -> ResponseBody {
    ResponseBody::full(codec::json(value))
}

fn empty(code: StatusCode) -> Response<ResponseBody> {
    answer(code, JSON, json_nothing())
}

fn json_nothing() -> ResponseBody {
    ResponseBody::full(bytes::Bytes::new())
}

fn set(answer: &mut Response<ResponseBody>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// Whether the client has the document of that hash already.
fn knows(headers: &HeaderMap, hash: &str) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    known.split(',').any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == hash)
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let media_types = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let mut media_types = media_types.filter(|media_type| !media_type.is_empty()).peekable();
    media_types.peek().is_none()
        || media_types.any(|media_type| matches!(media_type, "*/*" | "application/*" | JSON))
}

/// As HTTP writes moments.
fn in_a_year(now: Timestamp) -> String {
    let then = now.saturating_add(jiff::SignedDuration::from_hours(24 * 365)).unwrap_or(Timestamp::MAX);
    then.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
