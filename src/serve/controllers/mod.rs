//! `/debug/controllers`: what each controller and each cache is doing, for people and as JSON.
//!
//! The page names objects and shows errors of the API server, so not everybody may read it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

mod html;
pub(crate) mod report;

use report::Report;

/// The path of the page.
pub(super) const PATH: &str = "/debug/controllers";
/// Lets a browser apply the page's own styles, and load or run nothing.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Makes a report of this moment.
pub(crate) type Reporter = Arc<dyn Fn() -> Report + Send + Sync>;

/// The form of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
}

/// The page, for clients that may read it.
pub(super) async fn page(
    State(reporter): State<Reporter>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let form = form(query.as_deref().unwrap_or_default(), accept);
    let report = reporter();
    let nosniff = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    match form {
        Form::Html => {
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
                nosniff,
            ];
            (headers, html::page(&report)).into_response()
        }
        Form::Json => match serde_json::to_string_pretty(&report) {
            Ok(text) => ([(header::CONTENT_TYPE, "application/json"), nosniff], text + "\n").into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        },
    }
}

/// The page over plain HTTP: only clients on the same machine get it.
pub(super) async fn local_page(
    reporter: State<Reporter>,
    query: RawQuery,
    peer: Option<Extension<SocketAddr>>,
    headers: HeaderMap,
) -> Response {
    if !super::is_local(peer) {
        return StatusCode::FORBIDDEN.into_response();
    }
    page(reporter, query, headers).await
}

/// The form that a client asks for: by `format` in the query, or else by the first of the media types that it accepts.
fn form(query: &str, accept: &str) -> Form {
    match query.split('&').find_map(|pair| pair.strip_prefix("format=")) {
        Some("json") => return Form::Json,
        Some("html") => return Form::Html,
        _ => {}
    }
    let media_types = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let mut known = media_types.filter_map(|media_type| match media_type {
        "application/json" => Some(Form::Json),
        "text/html" | "application/xhtml+xml" => Some(Form::Html),
        _ => None,
    });
    known.next().unwrap_or(Form::Html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_form() {
        for (query, accept, expected) in [
            ("", "", Form::Html),
            ("", "*/*", Form::Html),
            ("", "application/json", Form::Json),
            ("", "application/json;q=0.9, */*", Form::Json),
            ("", "text/html,application/xhtml+xml,application/json;q=0.9", Form::Html),
            ("", "text/plain", Form::Html),
            ("format=json", "text/html", Form::Json),
            ("a=b&format=json", "", Form::Json),
            ("format=html", "application/json", Form::Html),
            ("format=xml", "application/json", Form::Json),
        ] {
            assert_eq!(form(query, accept), expected, "{query} {accept}");
        }
    }
}
