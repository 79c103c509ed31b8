//! `/statusz` and `/flagz`: what this process is, and with which flags it was started.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::version;

const NAME: &str = "kube-controller-manager";
const GROUP: &str = "config.k8s.io";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees \
                       and is for debugging purposes only.";
/// The first segments of the paths that upstream counts as ones for debugging.
const PATHS: [&str; 8] =
    ["/configz", "/debug", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/version"];

/// What the pages say of this process.
#[derive(Debug, Clone)]
pub(crate) struct Component {
    /// When it started.
    pub started: Timestamp,
    /// Its flags and their values, those with defaults included. `None` if there is no such page (feature gate
    /// `ComponentFlagz`).
    pub flags: Option<BTreeMap<String, String>>,
    /// Whether there is a page about the process (feature gate `ComponentStatusz`).
    pub statusz: Statusz,
}

/// Whether `/statusz` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statusz {
    /// The page is served.
    On,
    /// There is no such page.
    Off,
}

/// The representation that a client accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Text,
    /// JSON of this version of the group.
    Json(&'static str),
}

/// The routes of the pages.
pub(crate) fn routes(component: Component) -> Router {
    let mut router = Router::new();
    if component.flags.is_some() {
        router = router.route("/flagz", any(flagz));
    }
    if component.statusz == Statusz::On {
        router = router.route("/statusz", any(statusz));
    }
    router.with_state(Arc::new(component))
}

async fn flagz(State(component): State<Arc<Component>>, headers: HeaderMap) -> Response {
    let empty = BTreeMap::new();
    let flags = component.flags.as_ref().unwrap_or(&empty);
    match form(&headers, "Flagz") {
        Some(Form::Text) => {
            let lines: String = flags.iter().map(|(flag, value)| format!("{flag}={value}\n")).collect();
            text(format!("\n{NAME} flagz\n{WARNING}\n{lines}"))
        }
        Some(Form::Json(version)) => structured("Flagz", version, json!({ "flags": flags })),
        None => not_acceptable(),
    }
}

async fn statusz(State(component): State<Arc<Component>>, headers: HeaderMap) -> Response {
    let started = component.started;
    let seconds = Timestamp::now().duration_since(started).as_secs().max(0);
    let info = version::info();
    let emulated = format!("{}.{}", info.major, info.minor);
    match form(&headers, "Statusz") {
        Some(Form::Text) => text(format!(
            "\n{NAME} statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: {}\n\
             Binary version: {}\nEmulation version: {emulated}\nPaths: {}\n",
            started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            info.go_version,
            version::kubernetes(),
            PATHS.join(" ")
        )),
        Some(Form::Json(version)) => {
            let status = json!({
                "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "uptimeSeconds": seconds,
                "goVersion": info.go_version,
                "binaryVersion": version::kubernetes(),
                "emulationVersion": emulated,
                "paths": PATHS,
            });
            structured("Statusz", version, status)
        }
        None => not_acceptable(),
    }
}

/// The representation that the client prefers, of those that there are. Upstream offers YAML and CBOR as well.
fn form(headers: &HeaderMap, kind: &str) -> Option<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media_type = parts.next()?;
        let parameters: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
        match (media_type, parameters.get("as")) {
            ("text/plain" | "text/*" | "*/*", None) => Some(Form::Text),
            ("application/json" | "application/*" | "*/*", Some(asked))
                if *asked == kind && parameters.get("g") == Some(&GROUP) =>
            {
                match parameters.get("v") {
                    Some(&"v1alpha1") => Some(Form::Json("v1alpha1")),
                    Some(&"v1beta1") => Some(Form::Json("v1beta1")),
                    _ => None,
                }
            }
            _ => None,
        }
    })
}

fn text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

fn structured(kind: &str, version: &str, members: Value) -> Response {
    let mut object = json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/{version}"),
        "metadata": { "name": NAME },
    });
    if let (Value::Object(object), Value::Object(members)) = (&mut object, members) {
        object.extend(members);
    }
    let media_type = format!("application/json;g={GROUP};v={version};as={kind}");
    let mut response = ([(header::CONTENT_TYPE, media_type)], format!("{object}\n")).into_response();
    if version == "v1alpha1" {
        let endpoint = kind.to_ascii_lowercase();
        let warning = format!(
            "299 - \"This version of the {endpoint} endpoint is deprecated. Please use a newer version.\""
        );
        if let Ok(warning) = warning.parse() {
            response.headers_mut().insert(header::WARNING, warning);
        }
    }
    response
}

/// The refusal of a client that accepts none of the forms. Upstream's names YAML as well.
fn not_acceptable() -> Response {
    let message = "only the following media types are accepted: application/json, text/plain";
    let status = super::secure::status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, None);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::NOT_ACCEPTABLE, headers, format!("{status}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_form() {
        for (accept, expected) in [
            ("", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("application/json", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", Some(Form::Json("v1beta1"))),
            ("application/json; v=v1alpha1; g=config.k8s.io; as=Flagz", Some(Form::Json("v1alpha1"))),
            ("application/json;v=v1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", None),
            ("application/json, text/plain", Some(Form::Text)),
            ("image/png", None),
        ] {
            let headers = [(header::ACCEPT, accept.parse().unwrap())].into_iter().collect();
            assert_eq!(form(&headers, "Flagz"), expected, "{accept}");
        }
    }
}
