//! Upstream's authorizer `Node`: what nodes may do beside what roles allow them.
//!
//! A node may read what the pods that are bound to it name, and nothing else of that kind: their Secrets, ConfigMaps, claims and
//! volumes. What it may change is its own; [admission](crate::admission) sees to what a path does not tell. The rest is the
//! ClusterRole `system:node`, which is bound to nobody: an administrator may change it, where upstream's authorizer keeps a copy of
//! its own.
//!
//! Nothing is indexed: whether a node may read a Secret takes a look at the pods of the Secret's namespace. Upstream's
//! authorizer keeps a graph, for clusters larger than those that this API server is for.

mod references;
mod related;

use serde_json::json;

use self::related::Related;
use super::attributes::{Attributes, Target};
use super::{Identity, role_of, rules};
use crate::object::list_at;
use crate::store::Store;

pub(crate) use references::{Named, claims, is_any, mounts_token_for};

/// The group of all nodes.
pub(crate) const NODES: &str = "system:nodes";
/// What the user names of nodes begin with; the node's name follows.
const USER: &str = "system:node:";
/// Where nodes keep their leases.
pub(crate) const LEASES: &str = "kube-node-lease";
/// The rights that do not depend on which node it is.
const ROLE: &str = "system:node";

/// The name of the node that somebody is, which is empty if the user's name lacks it. `None` for everybody else.
pub(crate) fn node_of(who: &Identity) -> Option<&str> {
    who.user.strip_prefix(USER).filter(|_| who.is_in(NODES))
}

/// Whether a node of that name may do that.
pub(super) fn allows(store: &Store, node: &str, wanted: &Attributes) -> bool {
    if node.is_empty() {
        return false;
    }
    let Target::Resource { group, resource, subresource, namespace, name } = &wanted.target else {
        return allows_every_node(store, wanted);
    };
    let related = Related::new(store, node);
    let one_of = |verbs: &[&str]| verbs.contains(&wanted.verb.as_str());
    // A path that names an object is about that object, whatever the selector says.
    let only_own =
        |field: &str| name.is_empty() && wanted.fields.iter().any(|(of, value)| of == field && value == node);
    let is_named = |kind: Named| !name.is_empty() && related.is_named(kind, namespace, name);
    match (group.as_str(), resource.as_str(), subresource.as_str()) {
        ("", "secrets", "") => {
            let reads = one_of(&["get", "list", "watch"]) && !namespace.is_empty() && !name.is_empty();
            reads && (is_named(Named::Secret) || related.has_volume_with_secret(namespace, name))
        }
        ("", "configmaps", "") => {
            one_of(&["get", "list", "watch"]) && !namespace.is_empty() && is_named(Named::ConfigMap)
        }
        ("", "persistentvolumeclaims", "status") => one_of(&["update", "patch"]) && is_named(Named::Claim),
        ("", "persistentvolumeclaims", "") => one_of(&["get"]) && is_named(Named::Claim),
        ("", "persistentvolumes", "") => one_of(&["get"]) && related.has_volume(name),
        ("", "serviceaccounts", "") => one_of(&["get"]) && is_named(Named::Account),
        ("", "serviceaccounts", "token") => one_of(&["create"]) && is_named(Named::Account),
        ("", "nodes", "") => {
            one_of(&["create", "update", "patch"]) || (one_of(&["get", "list", "watch"]) && name == node)
        }
        ("", "nodes", "status") => one_of(&["update", "patch"]),
        ("", "pods", "") => {
            one_of(&["create", "delete"])
                || (one_of(&["list", "watch"]) && only_own("spec.nodeName"))
                || (one_of(&["get", "list", "watch"]) && related.has_pod(namespace, name))
        }
        ("", "pods", "status") => one_of(&["update", "patch"]),
        ("", "pods", "eviction") => one_of(&["create"]),
        ("resource.k8s.io", "resourceclaims", "") => one_of(&["get"]) && is_named(Named::DeviceClaim),
        ("resource.k8s.io", "resourceslices", "") => {
            one_of(&["create"])
                || (one_of(&["list", "watch", "deletecollection"]) && only_own("spec.nodeName"))
                || (one_of(&["get", "update", "patch", "delete"])
                    && related.is_of_node("resourceslices.resource.k8s.io", name))
        }
        ("storage.k8s.io", "volumeattachments", "") => {
            one_of(&["get"]) && related.is_of_node("volumeattachments.storage.k8s.io", name)
        }
        ("storage.k8s.io", "csinodes", "") => is_own(&one_of, name, node),
        ("coordination.k8s.io", "leases", _) => namespace == LEASES && is_own(&one_of, name, node),
        (
            "",
            "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "persistentvolumes"
            | "serviceaccounts"
            | "nodes"
            | "pods",
            _,
        )
        | ("resource.k8s.io", "resourceclaims" | "resourceslices", _)
        | ("storage.k8s.io", "volumeattachments" | "csinodes", _)
        | ("certificates.k8s.io", "podcertificaterequests", _) => false,
        _ => allows_every_node(store, wanted),
    }
}

/// Whether what is written or read has the node's name. A create's path has no name: admission looks at the object.
fn is_own(one_of: &dyn Fn(&[&str]) -> bool, name: &str, node: &str) -> bool {
    one_of(&["create"]) || (one_of(&["get", "update", "patch", "delete"]) && name == node)
}

fn allows_every_node(store: &Store, wanted: &Attributes) -> bool {
    let role = role_of(store, &json!({"kind": "ClusterRole", "name": ROLE}), "");
    role.is_some_and(|role| list_at(role.kept(), "rules").iter().any(|rule| rules::allows(rule, wanted)))
}

#[cfg(test)]
mod tests;
