//! The labels of a request's metrics.

use arcstr::ArcStr;
use http::Method;
use http::header::CONTENT_TYPE;
use http::request::Parts;

use crate::refusal::Result;
use crate::rest::{Call, Route, Verb};

/// The labels of a request, as upstream names them.
///
/// Clients choose none of the values freely, but for who may define custom resources: a request for a resource that there is not
/// has no labels, and is not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    verb: &'static str,
    dry_run: &'static str,
    group: ArcStr,
    version: ArcStr,
    resource: ArcStr,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

impl Labels {
    /// The names of [`values`](Self::values), which are those of `apiserver_longrunning_requests`.
    pub(super) const NAMES: [&'static str; 7] =
        ["verb", "group", "version", "resource", "subresource", "scope", "component"];

    /// Of a request to that route. `None` if it leads nowhere.
    pub(super) fn of(parts: &Parts, route: &Result<Route>, is_dry: bool) -> Option<Self> {
        let dry_run = if is_dry { "All" } else { "" };
        match route {
            Ok(Route::Resource(call)) => Some(Self {
                verb: verb(call, parts),
                dry_run,
                group: call.resource.group.clone(),
                version: call.resource.version.clone(),
                resource: call.resource.plural.clone(),
                subresource: call.subresource.clone(),
                scope: scope(call),
                component: "apiserver",
            }),
            Ok(Route::Other) => Some(Self {
                verb: if parts.method == Method::GET { "GET" } else { "other" },
                dry_run,
                group: ArcStr::new(),
                version: ArcStr::new(),
                resource: ArcStr::new(),
                subresource: String::new(),
                scope: "",
                component: "",
            }),
            Ok(Route::Unknown) | Err(_) => None,
        }
    }

    /// The values, without that of `dry_run`.
    pub(super) fn values(&self) -> [&str; 7] {
        let Self { verb, group, version, resource, subresource, scope, component, .. } = self;
        [verb, group, version, resource, subresource, scope, component]
    }

    /// `All` if nothing was to be stored.
    pub(super) fn dry_run(&self) -> &'static str {
        self.dry_run
    }
}

fn verb(call: &Call, parts: &Parts) -> &'static str {
    match (call.subresource.as_str(), call.verb) {
        ("exec" | "attach" | "portforward" | "proxy" | "log", _) => "CONNECT",
        (_, Verb::Create) => "POST",
        (_, Verb::Get) if parts.method == Method::HEAD => "HEAD",
        (_, Verb::Get) => "GET",
        (_, Verb::List) => "LIST",
        (_, Verb::Watch) => "WATCH",
        (_, Verb::Update) => "PUT",
        (_, Verb::Patch) if is_apply(parts) => "APPLY",
        (_, Verb::Patch) => "PATCH",
        (_, Verb::Delete) => "DELETE",
        (_, Verb::DeleteCollection) => "DELETECOLLECTION",
    }
}

fn is_apply(parts: &Parts) -> bool {
    let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.starts_with("application/apply-patch+"))
}

fn scope(call: &Call) -> &'static str {
    if !call.name.is_empty() || call.verb == Verb::Create {
        "resource"
    } else if !call.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}
