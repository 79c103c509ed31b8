//! What events say of a resize. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use crate::kuberuntime::go_json;

/// A resize began.
pub(super) const STARTED: &str = "Pod resize started";
/// It is done.
pub(super) const COMPLETED: &str = "Pod resize completed";
/// It failed, and is tried again.
pub(super) const FAILED: &str = "Pod resize error";

/// Members in upstream's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Named<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Named<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    resources: Resources<'a>,
}

#[derive(Default, Serialize)]
struct Resources<'a> {
    #[serde(skip_serializing_if = "is_empty")]
    limits: Option<&'a BTreeMap<String, Quantity>>,
    #[serde(skip_serializing_if = "is_empty")]
    requests: Option<&'a BTreeMap<String, Quantity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<&'a Vec<ResourceClaim>>,
}

fn is_empty(list: &Option<&BTreeMap<String, Quantity>>) -> bool {
    list.is_none_or(BTreeMap::is_empty)
}

/// What happened, with the resources that the pod's spec has, the generation they are of, and what went wrong, if anything.
pub(super) fn message(what: &str, pod: &Pod, generation: Option<i64>, error: &str) -> String {
    let spec = pod.spec.as_ref();
    let summary = Summary {
        init_containers: spec
            .and_then(|spec| spec.init_containers.as_ref())
            .into_iter()
            .flatten()
            .map(named)
            .collect(),
        containers: spec.into_iter().flat_map(|spec| &spec.containers).map(named).collect(),
        generation: generation.unwrap_or_default(),
        error,
    };
    format!("{what}: {}", go_json::to_string(&summary))
}

fn named(container: &Container) -> Named<'_> {
    let resources = container.resources.as_ref().map(|resources| Resources {
        limits: resources.limits.as_ref(),
        requests: resources.requests.as_ref(),
        claims: resources.claims.as_ref().filter(|claims| !claims.is_empty()),
    });
    Named { name: &container.name, resources: resources.unwrap_or_default() }
}
