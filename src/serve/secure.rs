//! The secure port: the same pages over HTTPS, each for users who may request its path.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::{any, get};
use http::{HeaderValue, Method, Request, StatusCode, Version, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use steersman_serving::answers::{self, Answer};
use steersman_serving::auth::{Attributes, Authenticator, Authorizer, NoReview, Unauthenticated, User};
use steersman_serving::{Peer, Service};
use tower::ServiceExt;

use super::health::Reasons;
use super::zpages::{self, Component};
use super::{Served, common, controllers, debug_page, not_found};
use crate::logging;

/// Maximum size of a request's body, in bytes: a number for `/debug/flags/v`.
const LARGEST_BODY: usize = 1024;

/// Whether the pages for debugging of the process are served (`--profiling`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Debugging {
    /// `/debug/flags/v` changes the verbosity of the log.
    On,
    /// There are no such pages.
    Off,
}

/// The service of the secure port.
pub(crate) struct Secure {
    authenticator: Arc<Authenticator>,
    authorizer: Authorizer,
    router: Router,
}

impl Secure {
    /// A service with these pages.
    pub(crate) fn new(
        authenticator: Arc<Authenticator>,
        authorizer: Authorizer,
        served: Served,
        component: Component,
        debugging: Debugging,
    ) -> Self {
        Self { authenticator, authorizer, router: router(served, component, debugging) }
    }

    /// Checks that the request is one of a user who may make it.
    ///
    /// # Errors
    /// The answer that refuses the request.
    async fn admit(&self, peer: &Peer, request: &Request<Incoming>, path: &str) -> Result<(), Answer> {
        let user = match self.authenticator.authenticate(peer, request.headers()).await {
            Ok(user) => user,
            Err(Unauthenticated::Unauthorized(reason)) => {
                tracing::debug!(peer = %peer.address, path, reason, "Unable to authenticate the request");
                let status = status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None);
                let answer = status_answer(request, StatusCode::UNAUTHORIZED, &status);
                // HTTP/2 has no such header. There, the server closes the idle connection.
                return Err(if request.version() < Version::HTTP_2 { answers::last(answer) } else { answer });
            }
            Err(Unauthenticated::Busy) => return Err(too_many_requests()),
        };
        let attributes = Attributes::of_path(request.method(), path);
        match self.authorizer.authorize(&user, &attributes).await {
            Ok(decision) if decision.allowed => {}
            Ok(decision) => return Err(forbidden(request, &user, path, &decision.reason)),
            Err(NoReview::Busy) => return Err(too_many_requests()),
            Err(NoReview::Failed(error)) => {
                tracing::error!(user = user.name, path, %error, "Authorization error");
                let uri = request.uri().path_and_query().map_or("/", |uri| uri.as_str());
                let message = format!("Internal Server Error: {uri:?}: {error}");
                let message = sanitized(&message);
                return Err(answers::error(StatusCode::INTERNAL_SERVER_ERROR, &message));
            }
        }
        if self.authorizer.makes_known(&user) {
            peer.activity.admitted();
        }
        Ok(())
    }

    async fn serve(&self, request: Request<Incoming>) -> Answer {
        let request = request.map(|body| Body::new(Limited::new(body, LARGEST_BODY)));
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        match body.collect().await {
            Ok(body) => Answer::from_parts(parts, Full::new(body.to_bytes()).boxed_unsync()),
            Err(error) => answers::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

impl Service for Secure {
    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Answer {
        let (under_way, is_head) = (peer.activity.begin(), request.method() == Method::HEAD);
        let path = percent_decode_str(request.uri().path()).decode_utf8_lossy().into_owned();
        let mut answer = match self.admit(peer, &request, &path).await {
            Ok(()) => self.serve(request).await,
            Err(refusal) => refusal,
        };
        let cache_control = HeaderValue::from_static("no-cache, private");
        answer.headers_mut().insert(header::CACHE_CONTROL, cache_control);
        if let Some(length) = answer.body().size_hint().exact() {
            answer.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
        }
        // Over HTTP/2, hyper would send the body all the same.
        let answer = if is_head { answer.map(|_| answers::empty()) } else { answer };
        // The request is over before the answer is sent: a client that leaves its answers unread, as HTTP/2 lets it, must not
        // keep a connection from being closed when there is no room for others.
        drop(under_way);
        answer
    }
}

fn router(served: Served, component: Component, debugging: Debugging) -> Router {
    let pages = get(debug_page).with_state(served.debug.clone());
    let of_controllers = get(controllers::page).with_state(Arc::clone(&served.controllers));
    let router = common(served, Reasons::Withheld)
        .route(controllers::PATH, of_controllers)
        .route("/debug/controllers/{controller}/{page}", pages);
    let router = match debugging {
        Debugging::On => router.route("/debug/flags/v", any(set_verbosity)),
        Debugging::Off => router,
    };
    router.merge(zpages::routes(component)).fallback(not_found)
}

/// Changes the verbosity of the log: upstream's `/debug/flags/v`, in its words.
async fn set_verbosity(method: Method, body: Body) -> axum::response::Response {
    let (status, text) = if method == Method::PUT {
        match axum::body::to_bytes(body, LARGEST_BODY).await {
            Ok(body) => match logging::set_verbosity(&String::from_utf8_lossy(&body)) {
                Ok(said) => (StatusCode::OK, said),
                Err(why) => (StatusCode::BAD_REQUEST, why),
            },
            Err(error) => (StatusCode::BAD_REQUEST, format!("error reading request body: {error}")),
        }
    } else {
        (StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned())
    };
    let headers = [(header::CONTENT_TYPE, "text/plain"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, format!("{text}\n")).into_response()
}

/// Refuses a request whose review would have to wait for too long, in the API server's words.
fn too_many_requests() -> Answer {
    let message = "Too many requests, please try again later.";
    let mut answer = answers::error(StatusCode::TOO_MANY_REQUESTS, message);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn forbidden(request: &Request<Incoming>, user: &User, path: &str, reason: &str) -> Answer {
    let verb = request.method().as_str().to_ascii_lowercase();
    let message = sanitized(&format!("User {:?} cannot {verb} path {path:?}", user.name));
    let message = if reason.is_empty() { message } else { format!("{message}: {reason}") };
    let status =
        status(StatusCode::FORBIDDEN, "Forbidden", &format!("forbidden: {message}"), Some(json!({})));
    let mut answer = status_answer(request, StatusCode::FORBIDDEN, &status);
    answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Escapes what could be taken for HTML, as upstream.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A failure, as the API server words it. Its fields have the order of the Go type.
pub(super) fn status(code: StatusCode, reason: &str, message: &str, details: Option<Value>) -> String {
    let details = details.map(|details| format!(r#""details":{details},"#)).unwrap_or_default();
    // As Go does, so that the text can stand in HTML.
    let message = Value::from(message).to_string();
    let message = message.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{message},"reason":"{reason}",{details}"code":{}}}"#,
        code.as_u16()
    )
}

/// An answer with a status, indented for people.
fn status_answer(request: &Request<Incoming>, code: StatusCode, status: &str) -> Answer {
    let text = if wants_indentation(request) { indented(status) } else { format!("{status}\n") };
    let mut answer = answers::json(text);
    *answer.status_mut() = code;
    answer
}

/// Whether a person reads the answer, by upstream's rules.
fn wants_indentation(request: &Request<Incoming>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    if let Some(pretty) = query.split('&').find_map(|pair| pair.strip_prefix("pretty=")) {
        return matches!(pretty, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known)))
}

/// A flat JSON object whose members are on lines of their own. Only `details` and `metadata` are objects, and empty.
fn indented(status: &str) -> String {
    let (mut out, mut in_text, mut escaped) = (String::with_capacity(status.len() + 64), false, false);
    let mut characters = status.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            _ if in_text => {
                in_text = escaped || character != '"';
                escaped = !escaped && character == '\\';
                out.push(character);
            }
            '"' => {
                in_text = true;
                out.push('"');
            }
            '{' if characters.peek() == Some(&'}') => out.push('{'),
            '{' => out += "{\n  ",
            '}' if out.ends_with('{') => out.push('}'),
            '}' => out += "\n}",
            ',' => out += ",\n  ",
            ':' => out += ": ",
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_go_writes_it() {
        let message = sanitized(r#"User "<a>" cannot get path "/x,y""#);
        let status = status(StatusCode::FORBIDDEN, "Forbidden", &message, Some(json!({})));
        let expected = concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"User \"\u0026lt;a\u0026gt;\" cannot get path \"/x,y\"","#,
            r#""reason":"Forbidden","details":{},"code":403}"#
        );
        assert_eq!(status, expected);
        let lines = [
            "{",
            r#"  "kind": "Status","#,
            r#"  "apiVersion": "v1","#,
            r#"  "metadata": {},"#,
            r#"  "status": "Failure","#,
            r#"  "message": "User \"\u0026lt;a\u0026gt;\" cannot get path \"/x,y\"","#,
            r#"  "reason": "Forbidden","#,
            r#"  "details": {},"#,
            r#"  "code": 403"#,
            "}",
        ];
        assert_eq!(indented(&status), lines.join("\n"));
    }
}
