//! Calls of the metrics APIs, and client-go's words for those that fail.

use std::fmt::Write;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use steersman_client::Sender;
use steersman_controller::call::{Accept, Call};
use steersman_controller::controller::SyncError;

/// What a call reads, for its errors.
pub(super) struct Asked<'a> {
    /// The resource with its group. Empty if the call reads none.
    pub resource: &'a str,
    /// The object. Empty for a list.
    pub name: &'a str,
}

/// Reads JSON.
///
/// # Errors
/// Why there is no answer: the API server's own words, or those of client-go for an answer without words.
pub(super) async fn get<T: DeserializeOwned>(
    sender: &Sender,
    path: String,
    asked: &Asked<'_>,
) -> Result<T, String> {
    let what = format!("reading {}", asked.resource);
    let call = Call { what, method: Method::GET, path, accept: Accept::Json, content: None };
    let answer = call.send(sender).await.map_err(|error| words(&error, asked))?;
    answer.parse().map_err(|error| error.to_string())
}

/// Appends the parameters that are not empty to a path.
pub(super) fn query_text(path: &mut String, parameters: &[(&str, &str)]) {
    let set = parameters.iter().filter(|(_, value)| !value.is_empty());
    for (at, (name, value)) in set.enumerate() {
        let mark = if at == 0 { '?' } else { '&' };
        _ = write!(path, "{mark}{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
}

fn words(error: &SyncError, asked: &Asked<'_>) -> String {
    match error.status() {
        None => error.to_string(),
        Some(status) if !status.reason.is_empty() => status.message.clone(),
        // No Status: for instance the API server's plain 404 for a group that is not registered.
        Some(status) => generic(status.code, &status.message, asked),
    }
}

/// What client-go says of an answer that is no Status, as `NewGenericServerResponse`.
fn generic(code: i32, body: &str, asked: &Asked<'_>) -> String {
    let mut text = match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => {
            "the server has received too many requests and has asked us to try again later".to_owned()
        }
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        403 | 406 | 415 => body.to_owned(),
        500.. => format!("an error on the server ({body:?}) has prevented the request from succeeding"),
        _ => {
            format!("the server responded with the status code {code} but did not return more information")
        }
    };
    match (asked.resource, asked.name) {
        ("", _) => {}
        (resource, "") => _ = write!(text, " (get {resource})"),
        (resource, name) => _ = write!(text, " (get {resource} {name})"),
    }
    text
}
