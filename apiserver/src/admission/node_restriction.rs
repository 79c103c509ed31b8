//! What a node may write (upstream's plugin `NodeRestriction`): its own Node, Lease and CSINode, what its own pods became, and pods
//! that show what it runs by itself. Pure. Roles and the [authorizer](crate::access) go by the path of a request; this goes by
//! what is in it.
//!
//! Nobody else is held to it. The sentences are upstream's.

use serde_json::{Map, Value};
use steersman_api::node_labels;

use super::{SIGNING_REQUESTS, certificates};
use crate::access::{NODE_LEASES, Named, is_any, mounts_token_for};
use crate::meta::is_mirror;
use crate::object::{self, at, is_true, list_at, text_at};

/// A write that a node requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// Create this object.
    Create(&'a Value),
    /// Replace the state `old` by `new`, through a subresource or (if that is empty) none.
    Update { subresource: &'a str, new: &'a Value, old: &'a Value },
    /// Delete this object.
    Delete(&'a Value),
}

impl<'a> Change<'a> {
    fn operation(self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE",
            Self::Update { .. } => "UPDATE",
            Self::Delete(_) => "DELETE",
        }
    }

    /// The object: the new state of a create or update, the last state of a delete.
    pub(super) fn object(self) -> &'a Value {
        match self {
            Self::Create(object) | Self::Update { new: object, .. } | Self::Delete(object) => object,
        }
    }
}

/// Why `node` may not change an object of that table in that way. `own_uid` finds the uid of the node's own Node.
pub(super) fn forbidden(
    node: &str,
    table: &str,
    change: Change<'_>,
    own_uid: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let object = change.object();
    let name = text_at(object, "metadata.name");
    match (table, change) {
        ("pods", Change::Create(pod)) => forbidden_mirror(node, pod, own_uid),
        ("pods", Change::Update { subresource: "status", new, old }) => forbidden_status(node, new, old),
        ("pods", Change::Update { subresource: "", .. }) => Some(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            change.operation()
        )),
        ("pods", Change::Update { subresource, .. }) => Some(format!(
            "unexpected pod subresource {subresource:?}, only 'status' and 'eviction' are allowed"
        )),
        ("pods", Change::Delete(pod)) => (text_at(pod, "spec.nodeName") != node)
            .then(|| format!("node {node:?} can only delete pods with spec.nodeName set to itself")),
        ("nodes", _) if name != node => Some(format!("node {node:?} is not allowed to modify node {name:?}")),
        ("nodes", Change::Create(new)) => forbidden_node(node, new),
        ("nodes", Change::Update { new, old, .. }) => forbidden_change_of_node(node, new, old),
        ("persistentvolumeclaims", Change::Update { subresource: "status", new, old }) => {
            (without_growth(new) != without_growth(old)).then(|| {
                format!("node {node:?} is not allowed to update fields other than status.quantity and status.conditions")
            })
        }
        ("persistentvolumeclaims", _) => Some("may only update PVC status".to_owned()),
        ("leases.coordination.k8s.io", _) if text_at(object, "metadata.namespace") != NODE_LEASES => {
            Some(format!("can only access leases in the {NODE_LEASES:?} system namespace"))
        }
        ("leases.coordination.k8s.io", _) if name != node => {
            Some("can only access node lease with the same name as the requesting node".to_owned())
        }
        ("csinodes.storage.k8s.io", _) if name != node => {
            Some("can only access CSINode with the same name as the requesting node".to_owned())
        }
        ("resourceslices.resource.k8s.io", change) if !is_slice_of(node, change) => {
            let verb = change.operation().to_ascii_lowercase();
            Some(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
        }
        (SIGNING_REQUESTS, Change::Create(request)) => forbidden_certificate(node, request),
        _ => None,
    }
}

/// Why a node may not evict a pod.
pub(super) fn forbidden_eviction(node: &str, pod: &Value) -> Option<String> {
    (text_at(pod, "spec.nodeName") != node)
        .then(|| format!("node {node} can only evict pods with spec.nodeName set to itself"))
}

/// Why a node may not get a token that is bound to `reference`. `pod` is the pod that this names, if there is one.
pub(super) fn forbidden_binding(node: &str, reference: &Value, pod: Option<&Value>) -> Option<String> {
    let names_pod = text_at(reference, "apiVersion") == "v1" && text_at(reference, "kind") == "Pod";
    if !names_pod || text_at(reference, "name").is_empty() {
        return Some("node requested token not bound to a pod".to_owned());
    }
    let uid = text_at(reference, "uid");
    if uid.is_empty() {
        return Some("node requested token with a pod binding without a uid".to_owned());
    }
    let pod = pod?;
    if uid != text_at(pod, "metadata.uid") {
        return Some(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted \
             and then recreated"
        ));
    }
    (text_at(pod, "spec.nodeName") != node)
        .then(|| "node requested token bound to a pod scheduled on a different node".to_owned())
}

/// The audience of the token that a node asks for; the empty one is the API server.
///
/// # Errors
/// It asks for several.
pub(super) fn audience(asked: &Value) -> Result<String, String> {
    match list_at(asked, "spec.audiences") {
        [] => Ok(String::new()),
        [only] => Ok(only.as_str().unwrap_or_default().to_owned()),
        _ => Err("node may only request 0 or 1 audiences".to_owned()),
    }
}

/// Whether a pod needs tokens for that audience: for a volume, or because one of its drivers, `drivers`, wants them.
pub(super) fn needs_audience<'a>(
    pod: &Value,
    mut drivers: impl Iterator<Item = &'a Value>,
    audience: &str,
) -> bool {
    let wants = |driver: &Value| {
        list_at(driver, "spec.tokenRequests").iter().any(|request| text_at(request, "audience") == audience)
    };
    mounts_token_for(pod, audience) || drivers.any(wants)
}

/// Whether a ResourceSlice is of devices on this node alone, and stays so. Upstream leaves updates to validation, which keeps the name
/// of the node, and allows no other choice of nodes beside it.
fn is_slice_of(node: &str, change: Change<'_>) -> bool {
    let is_of = |slice: &Value| text_at(slice, "spec.nodeName") == node;
    let others = ["nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let only = |slice: &Value| {
        is_of(slice) && others.iter().all(|choice| slice["spec"].get(choice).is_none_or(Value::is_null))
    };
    match change {
        Change::Create(slice) => only(slice),
        Change::Update { new, old, .. } => is_of(old) && only(new),
        Change::Delete(slice) => is_of(slice),
    }
}

fn forbidden_mirror(node: &str, pod: &Value, own_uid: impl FnOnce() -> Option<String>) -> Option<String> {
    if !is_mirror(pod) {
        return Some(format!(
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node {node:?} can only create mirror pods"
        ));
    }
    if text_at(pod, "spec.nodeName") != node {
        return Some(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let owner = match list_at(pod, "metadata.ownerReferences") {
        [owner] => owner,
        [] => {
            return Some(format!("node {node:?} can only create pods with an owner reference set to itself"));
        }
        _ => {
            return Some(format!(
                "node {node:?} can only create pods with a single owner reference set to itself"
            ));
        }
    };
    let is = |member: &str, value: &str| text_at(owner, member) == value;
    if !(is("apiVersion", "v1") && is("kind", "Node") && is("name", node)) {
        return Some(format!("node {node:?} can only create pods with an owner reference set to itself"));
    }
    if !is_true(owner, "controller") {
        return Some(format!(
            "node {node:?} can only create pods with a controller owner reference set to itself"
        ));
    }
    if is_true(owner, "blockOwnerDeletion") {
        return Some(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let Some(uid) = own_uid() else { return Some(format!("node {node:?} not found")) };
    if !is("uid", &uid) {
        let told = text_at(owner, "uid");
        return Some(format!("node {node} UID mismatch: expected {told} got {uid}"));
    }
    refers_to(pod).map(|what| format!("node {node:?} can not create pods that reference {what}"))
}

/// What a pod names of the API's objects, if it names any.
fn refers_to(pod: &Value) -> Option<&'static str> {
    let spec = &pod["spec"];
    let named =
        [(Named::Account, "serviceaccounts"), (Named::Secret, "secrets"), (Named::ConfigMap, "configmaps")];
    if let Some((_, what)) = named.into_iter().find(|(kind, _)| is_any(pod, *kind)) {
        return Some(what);
    }
    if !list_at(spec, "resourceClaims").is_empty() {
        return Some("resourceclaims");
    }
    list_at(spec, "volumes").iter().find_map(|volume| {
        let has = |source: &&(&str, &str)| at(volume, source.0).is_some_and(|value| !value.is_null());
        let of_volume = VOLUMES.iter().find(has).map(|(_, what)| *what);
        of_volume.or_else(|| list_at(volume, "projected.sources").iter().find_map(refers_by_source))
    })
}

/// Volumes that take something from the API.
const VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// What a source of a projected volume takes from the API. A source that is not known may take anything.
fn refers_by_source(source: &Value) -> Option<&'static str> {
    const UNKNOWN: &str = "an unknown source of a projected volume";
    let members = source.as_object().into_iter().flatten();
    let members = members.filter(|(_, value)| !value.is_null()).map(|(member, _)| member.as_str());
    let mut members = members.peekable();
    if members.peek().is_none() {
        return Some(UNKNOWN);
    }
    members.find_map(|member| match member {
        "downwardAPI" => None,
        "configMap" => Some("configmaps (via projected volumes)"),
        "secret" => Some("secrets (via projected volumes)"),
        "serviceAccountToken" => Some("serviceaccounts (via projected volumes)"),
        "clusterTrustBundle" => Some("clustertrustbundles"),
        "podCertificate" => Some("podcertificates"),
        _ => Some(UNKNOWN),
    })
}

fn forbidden_status(node: &str, new: &Value, old: &Value) -> Option<String> {
    if text_at(old, "spec.nodeName") != node {
        return Some(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let protected = [
        ("metadata.labels", "labels through pod status"),
        ("status.resourceClaimStatuses", "resource claim statues"),
        ("status.extendedResourceClaimStatus", "extended resource claim status"),
    ];
    let changed = protected.into_iter().find(|(path, _)| !object::same(at(new, path), at(old, path)));
    changed.map(|(_, what)| format!("node {node:?} cannot update {what}"))
}

fn forbidden_node(node: &str, new: &Value) -> Option<String> {
    if at(new, "spec.configSource").is_some_and(|source| !source.is_null()) {
        return Some(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
    }
    let labels = forbidden_labels(new, &Value::Null);
    labels.map(|labels| format!("node {node:?} is not allowed to set the following labels: {labels}"))
}

fn forbidden_change_of_node(node: &str, new: &Value, old: &Value) -> Option<String> {
    let same = |path: &str| object::same(at(new, path), at(old, path));
    if at(new, "spec.configSource").is_some_and(|source| !source.is_null()) && !same("spec.configSource") {
        return Some(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    if !same("spec.taints") {
        return Some(format!("node {node:?} is not allowed to modify taints"));
    }
    if !same("metadata.ownerReferences") {
        return Some(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    let labels = forbidden_labels(new, old);
    labels.map(|labels| format!("is not allowed to modify labels: {labels}"))
}

/// The labels in which two states differ that a node may not change on itself, sorted.
fn forbidden_labels(new: &Value, old: &Value) -> Option<String> {
    let (none, path) = (Map::new(), "metadata.labels");
    let labels = |of| at(of, path).and_then(Value::as_object).unwrap_or(&none);
    let (new, old) = (labels(new), labels(old));
    let mut changed: Vec<&str> = new
        .keys()
        .chain(old.keys())
        .filter(|key| new.get(*key) != old.get(*key) && node_labels::is_forbidden(key))
        .map(String::as_str)
        .collect();
    changed.sort_unstable();
    changed.dedup();
    (!changed.is_empty()).then(|| changed.join(", "))
}

/// A claim without what its node tells of its volume's growth, and without what tells nothing.
fn without_growth(claim: &Value) -> Value {
    let mut rest = claim.clone();
    for member in ["resourceVersion", "managedFields"] {
        object::metadata(&mut rest).remove(member);
    }
    let status = object::members_at(&mut rest, "status");
    for member in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
        status.remove(member);
    }
    rest
}

fn forbidden_certificate(node: &str, request: &Value) -> Option<String> {
    let signer = text_at(request, "spec.signerName");
    let is_kubelets = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"]
        .contains(&signer.as_str());
    if !is_kubelets {
        return None;
    }
    match certificates::common_name(&text_at(request, "spec.request")) {
        None => Some("unable to parse csr: the request is malformed".to_owned()),
        Some(name) if name == format!("system:node:{node}") => None,
        Some(_) => Some(format!("can only create a node CSR with CN=system:node:{node}")),
    }
}

#[cfg(test)]
mod tests;
