use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::ObjectKey;

use super::*;
use crate::access::is_allowed;
use crate::registry::Resources;

const NODE: &str = "n1";

fn who(node: &str) -> Identity {
    Identity::authenticated(format!("{USER}{node}"), [NODES.to_owned()])
}

struct World {
    store: Arc<Store>,
    resources: Resources,
}

impl World {
    /// Pods `own` and `mirror` on the node, `other` on another one, and what is bound to their claims.
    fn new() -> Self {
        let world = Self { store: Arc::new(Store::new(100)), resources: Resources::built_in() };
        world.add("", "pods", pod("own", NODE));
        world.add("", "pods", pod("other", "n2"));
        let mut mirror = pod("mirror", NODE);
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        world.add("", "pods", mirror);
        for of in ["own", "other"] {
            let claim = json!({"namespace": "shop", "name": format!("claim-{of}")});
            let secret = |name: &str| json!({"namespace": "vault", "name": format!("{name}-{of}")});
            let csi = json!({"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": secret("stage"),
                "controllerPublishSecretRef": secret("controller")});
            let volume = json!({"metadata": {"name": format!("volume-{of}")}, "spec": {"claimRef": claim, "csi": csi}});
            world.add("", "persistentvolumes", volume);
        }
        for (name, node) in [("mine", NODE), ("theirs", "n2")] {
            let of_node = json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
            world.add("storage.k8s.io", "volumeattachments", of_node.clone());
            world.add("resource.k8s.io", "resourceslices", of_node);
        }
        let rule = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["services", "secrets"]});
        world.add(
            "rbac.authorization.k8s.io",
            "clusterroles",
            json!({"metadata": {"name": ROLE}, "rules": [rule]}),
        );
        world
    }

    fn add(&self, group: &str, plural: &str, object: Value) {
        let resource = self.resources.get(group, "v1", plural).unwrap();
        let metadata = &object["metadata"];
        let text = |member: &str| metadata[member].as_str().unwrap_or_default().to_owned();
        self.store.create(resource, ObjectKey::new(text("namespace"), text("name")), object).unwrap();
    }

    fn allows(&self, wanted: &Attributes) -> bool {
        is_allowed(&self.store, &who(NODE), wanted)
    }
}

/// `verb` on `[GROUP:]RESOURCE[/SUBRESOURCE]`, in a namespace and with a name unless these are empty.
fn wanted(verb: &str, what: &str, namespace: &str, name: &str) -> Attributes {
    let (group, resource) = match what.split_once(':') {
        Some((group, resource)) => (group, resource),
        None => ("", what),
    };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let target = Target::Resource {
        group: group.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    Attributes::new(verb, target)
}

/// A pod that names one object of each kind.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": format!("account-{name}"),
            "containers": [{"name": "app", "image": "x", "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": format!("env-{name}"), "key": "k"}}},
            ], "envFrom": [{"configMapRef": {"name": format!("map-{name}")}}]}],
            "initContainers": [{"name": "first", "image": "x", "envFrom": [
                {"secretRef": {"name": format!("init-{name}")}},
            ]}],
            "imagePullSecrets": [{"name": format!("pull-{name}")}],
            "volumes": [
                {"name": "a", "secret": {"secretName": format!("mounted-{name}")}},
                {"name": "b", "projected": {"sources": [{"configMap": {"name": format!("projected-{name}")}}]}},
                {"name": "c", "persistentVolumeClaim": {"claimName": format!("claim-{name}")}},
                {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": format!("gpu-{name}")}],
        },
    })
}

#[test]
fn a_node_reads_what_its_own_pods_name() {
    let world = World::new();
    for (what, name) in [
        ("secrets", "env"),
        ("secrets", "init"),
        ("secrets", "pull"),
        ("secrets", "mounted"),
        ("configmaps", "map"),
        ("configmaps", "projected"),
        ("persistentvolumeclaims", "claim"),
        ("resource.k8s.io:resourceclaims", "gpu"),
        ("serviceaccounts", "account"),
    ] {
        let gets = |of: &str, namespace: &str| {
            world.allows(&wanted("get", what, namespace, &format!("{name}-{of}")))
        };
        assert!(gets("own", "shop"), "{what} {name}");
        assert!(!gets("own", "vault"), "{what} {name} of another namespace");
        assert!(!gets("other", "shop"), "{what} {name} of another node's pod");
        assert!(!gets("mirror", "shop"), "{what} {name} of a pod that the node made itself");
        assert!(!world.allows(&wanted("get", what, "shop", "")), "{what} without a name");
        assert!(!world.allows(&wanted("delete", what, "shop", &format!("{name}-own"))), "{what} {name}");
    }
    assert!(world.allows(&wanted("get", "persistentvolumeclaims", "shop", "own-d")), "made for the pod");
    assert!(world.allows(&wanted("get", "persistentvolumes", "", "volume-own")));
    assert!(!world.allows(&wanted("get", "persistentvolumes", "", "volume-other")));
    for (secret, allowed) in [("stage-own", true), ("controller-own", false), ("stage-other", false)] {
        assert_eq!(world.allows(&wanted("get", "secrets", "vault", secret)), allowed, "{secret}");
    }
}

#[test]
fn what_a_node_may_do_depends_on_verb_and_name() {
    let world = World::new();
    for (verb, what, namespace, name, allowed) in [
        ("list", "secrets", "shop", "env-own", true),
        ("watch", "configmaps", "shop", "map-own", true),
        // The role would allow it to all nodes.
        ("list", "secrets", "shop", "", false),
        ("list", "secrets", "", "", false),
        ("update", "secrets", "shop", "env-own", false),
        ("list", "services", "", "", true),
        ("delete", "services", "shop", "a", false),
        ("patch", "persistentvolumeclaims/status", "shop", "claim-own", true),
        ("patch", "persistentvolumeclaims/status", "shop", "claim-other", false),
        ("get", "persistentvolumeclaims/status", "shop", "claim-own", false),
        ("create", "serviceaccounts/token", "shop", "account-own", true),
        ("create", "serviceaccounts/token", "shop", "account-other", false),
        ("create", "serviceaccounts/token", "shop", "account-mirror", false),
        ("create", "serviceaccounts", "shop", "account-own", false),
        ("create", "nodes", "", "", true),
        ("get", "nodes", "", NODE, true),
        ("get", "nodes", "", "n2", false),
        ("list", "nodes", "", "", false),
        ("watch", "nodes", "", NODE, true),
        ("delete", "nodes", "", NODE, false),
        ("patch", "nodes/status", "", NODE, true),
        ("get", "nodes/proxy", "", NODE, false),
        ("get", "pods", "shop", "own", true),
        ("get", "pods", "shop", "other", false),
        ("watch", "pods", "shop", "own", true),
        ("list", "pods", "", "", false),
        ("create", "pods", "shop", "", true),
        ("delete", "pods", "shop", "own", true),
        ("update", "pods", "shop", "own", false),
        ("create", "pods/binding", "shop", "own", false),
        ("create", "pods/eviction", "shop", "own", true),
        ("patch", "pods/status", "shop", "own", true),
        ("get", "pods/exec", "shop", "own", false),
        ("create", "coordination.k8s.io:leases", LEASES, "", true),
        ("update", "coordination.k8s.io:leases", LEASES, NODE, true),
        ("update", "coordination.k8s.io:leases", LEASES, "n2", false),
        ("update", "coordination.k8s.io:leases", "kube-system", NODE, false),
        ("list", "coordination.k8s.io:leases", LEASES, "", false),
        ("get", "storage.k8s.io:csinodes", "", NODE, true),
        ("get", "storage.k8s.io:csinodes", "", "n2", false),
        ("get", "storage.k8s.io:volumeattachments", "", "mine", true),
        ("get", "storage.k8s.io:volumeattachments", "", "theirs", false),
        ("create", "resource.k8s.io:resourceslices", "", "", true),
        ("delete", "resource.k8s.io:resourceslices", "", "mine", true),
        ("delete", "resource.k8s.io:resourceslices", "", "theirs", false),
        ("create", "certificates.k8s.io:podcertificaterequests", "shop", "", false),
        ("get", "apps:deployments", "shop", "a", false),
    ] {
        let allows = world.allows(&wanted(verb, what, namespace, name));
        assert_eq!(allows, allowed, "{verb} {what} {namespace}/{name}");
    }
}

#[test]
fn lists_of_all_namespaces_name_the_node_in_their_field_selector() {
    let world = World::new();
    for (verb, what, allowed) in [
        ("list", "pods", true),
        ("watch", "pods", true),
        ("deletecollection", "pods", false),
        ("list", "resource.k8s.io:resourceslices", true),
        ("deletecollection", "resource.k8s.io:resourceslices", true),
        ("list", "storage.k8s.io:volumeattachments", false),
    ] {
        for (field, value, own) in [
            ("spec.nodeName", NODE, true),
            ("spec.nodeName", "n2", false),
            ("metadata.namespace", NODE, false),
        ] {
            let fields = vec![(field.to_owned(), value.to_owned())];
            let wanted = Attributes { fields, ..wanted(verb, what, "", "") };
            assert_eq!(world.allows(&wanted), allowed && own, "{verb} {what} {field}={value}");
        }
    }
}

#[test]
fn only_members_of_the_group_are_nodes() {
    let world = World::new();
    let wanted = wanted("get", "nodes", "", NODE);
    for (user, groups) in [("system:node:n1", vec![]), ("n1", vec![NODES.to_owned()])] {
        assert!(!is_allowed(&world.store, &Identity::authenticated(user, groups), &wanted), "{user}");
    }
    assert!(!is_allowed(&world.store, &who(""), &super::Attributes::default()), "a node without a name");
}
