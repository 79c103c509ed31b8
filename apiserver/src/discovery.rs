//! What the server tells about itself: groups, resources, version, health.

use http::{HeaderMap, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use steersman_api::schema;

use crate::codec;
use crate::refusal::Refusal;
use crate::registry::{Group, Resource, Resources, Version};
use crate::rest::{Query, ResponseBody, answer, refuse, unknown_path};

/// Answers what is not about a resource.
pub(crate) fn answer_other(
    resources: &Resources,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    query: &Query,
) -> Response<ResponseBody> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return refuse(&Refusal::method_not_allowed(), codec::Format::Json);
    }
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments[..] {
        ["healthz" | "livez" | "readyz"] => health(segments[0], query),
        ["version"] => json_answer(&version()),
        ["api"] if wants_aggregated(headers) => aggregated(resources, |group| group.name.is_empty()),
        ["apis"] if wants_aggregated(headers) => aggregated(resources, |group| !group.name.is_empty()),
        ["api"] => json_answer(&json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => {
            let groups: Vec<Value> =
                resources.groups().iter().filter(|group| !group.name.is_empty()).map(group).collect();
            json_answer(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => match resources.group(name).filter(|group| !group.name.is_empty()) {
            Some(found) => {
                let mut found = group(found);
                found["kind"] = "APIGroup".into();
                found["apiVersion"] = "v1".into();
                json_answer(&found)
            }
            None => unknown_path(),
        },
        ["api", version] => resource_list(resources, "", version),
        ["apis", group, version] => resource_list(resources, group, version),
        _ => unknown_path(),
    }
}

fn json_answer(value: &Value) -> Response<ResponseBody> {
    answer(StatusCode::OK, "application/json", ResponseBody::full(codec::json(value)))
}

fn health(check: &str, query: &Query) -> Response<ResponseBody> {
    let text = if query.switch("verbose").is_some() {
        format!("[+]ping ok\n{check} check passed\n")
    } else {
        "ok".to_owned()
    };
    answer(StatusCode::OK, "text/plain; charset=utf-8", ResponseBody::full(text))
}

/// As `/version` tells it.
fn version() -> Value {
    let version = schema::table().kubernetes_version();
    let mut numbers = version.trim_start_matches('v').split('.');
    // As Go calls them.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": numbers.next().unwrap_or_default(),
        "minor": numbers.next().unwrap_or_default(),
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{architecture}", std::env::consts::OS),
    })
}

fn group(group: &Group) -> Value {
    let version = |version: &Version| {
        json!({
            "groupVersion": format!("{}/{}", group.name, version.name),
            "version": version.name.as_str(),
        })
    };
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({
        "name": group.name.as_str(),
        "preferredVersion": versions.first(),
        "versions": versions,
    })
}

fn resource_list(resources: &Resources, group: &str, version: &str) -> Response<ResponseBody> {
    let Some(found) = resources.version(group, version) else { return unknown_path() };
    let mut list = Vec::new();
    for resource in sorted(found) {
        let mut entry = json!({
            "name": resource.plural.as_str(),
            "singularName": resource.singular.as_str(),
            "namespaced": resource.namespaced(),
            "kind": resource.kind.as_str(),
            "verbs": texts(&resource.verbs),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = texts(&resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = texts(&resource.categories);
        }
        list.push(entry);
        for sub in &resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name),
                "singularName": "",
                "namespaced": resource.namespaced(),
                "kind": sub.kind.as_str(),
                "verbs": texts(&sub.verbs),
            });
            if sub.group != resource.group || sub.version != resource.version {
                entry["group"] = sub.group.as_str().into();
                entry["version"] = sub.version.as_str().into();
            }
            list.push(entry);
        }
    }
    let group_version = crate::registry::api_version(group, version);
    let mut answer = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version.as_str(),
        "resources": list,
    });
    // Upstream leaves it out for the core group.
    if !group.is_empty() {
        answer["apiVersion"] = "v1".into();
    }
    json_answer(&answer)
}

fn sorted(version: &Version) -> Vec<&Resource> {
    let mut resources: Vec<&Resource> = version.resources.values().map(AsRef::as_ref).collect();
    resources.sort_by(|a, b| a.plural.cmp(&b.plural));
    resources
}

fn texts(texts: &[arcstr::ArcStr]) -> Value {
    texts.iter().map(|text| Value::from(text.as_str())).collect()
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = accept.split(',').next().unwrap_or_default();
    let has = |pair: &str| first.split(';').any(|part| part.trim() == pair);
    first.trim_start().starts_with("application/json")
        && has("as=APIGroupDiscoveryList")
        && has("g=apidiscovery.k8s.io")
        && has("v=v2")
}

/// All groups with all their resources in one answer.
fn aggregated(resources: &Resources, wanted: impl Fn(&Group) -> bool) -> Response<ResponseBody> {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let resource = |resource: &Resource| {
        let subresources: Vec<Value> = resource
            .subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name.as_str(),
                    "responseKind": kind(&sub.group, &sub.version, &sub.kind),
                    "verbs": texts(&sub.verbs),
                })
            })
            .collect();
        let mut entry = json!({
            "resource": resource.plural.as_str(),
            "responseKind": kind(&resource.group, &resource.version, &resource.kind),
            "scope": if resource.namespaced() { "Namespaced" } else { "Cluster" },
            "singularResource": resource.singular.as_str(),
            "verbs": texts(&resource.verbs),
        });
        for (name, value) in [
            ("shortNames", texts(&resource.short_names)),
            ("categories", texts(&resource.categories)),
            ("subresources", subresources.into()),
        ] {
            if value.as_array().is_some_and(|list| !list.is_empty()) {
                entry[name] = value;
            }
        }
        entry
    };
    let version = |version: &Version| {
        let resources: Vec<Value> = sorted(version).into_iter().map(resource).collect();
        json!({"version": version.name.as_str(), "freshness": "Current", "resources": resources})
    };
    let group = |group: &Group| {
        let versions: Vec<Value> = group.versions.iter().map(version).collect();
        let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name.as_str()}) };
        json!({"metadata": metadata, "versions": versions})
    };
    let items: Vec<Value> = resources.groups().iter().filter(|group| wanted(group)).map(group).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let media_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    answer(StatusCode::OK, media_type, ResponseBody::full(codec::json(&list)))
}
