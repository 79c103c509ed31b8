//! Which resource a path names.

use std::sync::Arc;

use http::Method;
use percent_encoding::percent_decode_str;

use super::request::{Call, Query, Verb};
use crate::refusal::Refusal;
use crate::registry::{Resource, Resources};

/// Where a request goes.
#[derive(Clone)]
pub(crate) enum Route {
    /// To a resource.
    Resource(Call),
    /// To something else that the server knows: health, version, discovery.
    Other,
    /// Nowhere: upstream's router answers in plain text.
    Unknown,
}

/// What stands before the resource in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    None,
    /// `watch/`, as clients of old ask for a watch.
    Watch,
}

/// Finds out what a request wants.
pub(crate) fn route(
    resources: &Resources,
    method: &Method,
    path: &str,
    query: &Query,
) -> Result<Route, Refusal> {
    let mut found = find(resources, method, path, query)?;
    if let Route::Resource(call) = &mut found
        && call.subresource == "proxy"
        && path.ends_with('/')
    {
        call.path.push('/');
    }
    Ok(found)
}

fn find(resources: &Resources, method: &Method, path: &str, query: &Query) -> Result<Route, Refusal> {
    let decoded: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let segments = match segments.split_last() {
        Some((&"", rest)) => rest,
        _ => &segments[..],
    };
    let (group, version, rest) = match segments {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Ok(Route::Other),
    };
    if resources.group(group).is_none() {
        return Ok(Route::Unknown);
    }
    if resources.version(group, version).is_none() {
        return Err(Refusal::no_such_resource());
    }
    let (prefix, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (Prefix::Watch, rest),
        _ => (Prefix::None, rest),
    };
    let (namespace, rest) = match rest {
        [] => return Ok(Route::Other),
        // `namespaces/a` and its subresources are the namespace itself.
        ["namespaces", name, resource, rest @ ..]
            if group.is_empty()
                && resources.get("", version, "namespaces").is_some_and(|namespaces| {
                    namespaces.subresource(resource).is_none() || !rest.is_empty()
                }) =>
        {
            return in_namespace(resources, method, (group, version), (name, resource, rest), query, prefix);
        }
        ["namespaces", name, resource, rest @ ..] if !group.is_empty() => {
            return in_namespace(resources, method, (group, version), (name, resource, rest), query, prefix);
        }
        rest => ("", rest),
    };
    let Some(resource) = resources.get(group, version, rest[0]) else {
        return Err(Refusal::no_such_resource());
    };
    call(resource, method, namespace, &rest[1..], query, prefix)
}

fn in_namespace(
    resources: &Resources,
    method: &Method,
    (group, version): (&str, &str),
    (namespace, plural, rest): (&str, &str, &[&str]),
    query: &Query,
    prefix: Prefix,
) -> Result<Route, Refusal> {
    match resources.get(group, version, plural) {
        Some(resource) if resource.namespaced() => call(resource, method, namespace, rest, query, prefix),
        _ => Err(Refusal::no_such_resource()),
    }
}

fn call(
    resource: &Arc<Resource>,
    method: &Method,
    namespace: &str,
    rest: &[&str],
    query: &Query,
    prefix: Prefix,
) -> Result<Route, Refusal> {
    let (name, subresource) = match rest {
        [] => ("", ""),
        [name] => (*name, ""),
        [name, subresource] => (*name, *subresource),
        // Proxies have paths of their own.
        [name, "proxy", ..] => (*name, "proxy"),
        _ => return Err(Refusal::no_such_resource()),
    };
    // A name that came with an escaped slash.
    if name.contains('/') {
        return Err(Refusal::no_such_resource());
    }
    let verb = match (method.as_str(), name.is_empty()) {
        ("GET", true) if prefix == Prefix::Watch || query.is_set("watch") => Verb::Watch,
        // Under the old prefix one object can be watched: its name becomes a selector.
        ("GET", false) if prefix == Prefix::Watch && subresource.is_empty() => Verb::Watch,
        ("GET", true) => Verb::List,
        ("GET", false) => Verb::Get,
        ("POST", true) => Verb::Create,
        ("POST", false) if !subresource.is_empty() => Verb::Create,
        ("PUT", false) => Verb::Update,
        ("PATCH", false) => Verb::Patch,
        ("DELETE", true) => Verb::DeleteCollection,
        ("DELETE", false) => Verb::Delete,
        _ => return Err(Refusal::method_not_allowed()),
    };
    let allowed = if subresource.is_empty() {
        // Objects of a namespaced resource are made, and found by name, only in a namespace.
        let placed = !resource.namespaced()
            || !namespace.is_empty()
            || matches!(verb, Verb::List | Verb::Watch) && name.is_empty();
        if !placed && !matches!(verb, Verb::Create | Verb::DeleteCollection) {
            return Err(Refusal::no_such_resource());
        }
        placed && resource.allows(verb.as_str())
    } else {
        let known = resource.subresource(subresource).ok_or_else(Refusal::no_such_resource)?;
        known.verbs.iter().any(|allowed| allowed == verb.as_str())
    };
    if !allowed {
        return Err(Refusal::method_not_allowed());
    }
    Ok(Route::Resource(Call {
        verb,
        resource: Arc::clone(resource),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: rest.get(2..).unwrap_or_default().join("/"),
    }))
}
