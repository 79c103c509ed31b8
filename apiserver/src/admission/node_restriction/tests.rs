use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;

const NODE: &str = "n1";

fn why(table: &str, change: Change<'_>) -> Option<String> {
    forbidden(NODE, table, change, || Some("u-1".to_owned()))
}

fn mirror() -> Value {
    json!({
        "metadata": {
            "name": "a",
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences":
                [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "u-1", "controller": true}],
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "x"}]},
    })
}

/// Sets the member at a path of names and numbers.
fn with(mut object: Value, path: &str, value: Value) -> Value {
    *object.pointer_mut(path).unwrap() = value;
    object
}

#[test]
fn a_node_makes_only_pods_that_show_what_it_runs_by_itself() {
    assert_eq!(why("pods", Change::Create(&mirror())), None);
    let owner = |member: &str, value: Value| {
        let mut pod = mirror();
        pod["metadata"]["ownerReferences"][0][member] = value;
        pod
    };
    let in_spec = |member: &str, value: Value| {
        let mut pod = mirror();
        pod["spec"][member] = value;
        pod
    };
    let volume = |source: Value| in_spec("volumes", json!([source]));
    for (pod, part) in [
        (with(mirror(), "/metadata/annotations", json!({})), "can only create mirror pods"),
        (with(mirror(), "/spec/nodeName", "n2".into()), "spec.nodeName set to itself"),
        (with(mirror(), "/metadata/ownerReferences", json!([])), "an owner reference set to itself"),
        (with(mirror(), "/metadata/ownerReferences", json!([{}, {}])), "a single owner reference"),
        (owner("name", "n2".into()), "an owner reference set to itself"),
        (owner("controller", false.into()), "a controller owner reference"),
        (owner("blockOwnerDeletion", true.into()), "must not set blockOwnerDeletion"),
        (owner("uid", "u-2".into()), "node n1 UID mismatch: expected u-2 got u-1"),
        (in_spec("serviceAccountName", "default".into()), "reference serviceaccounts"),
        (in_spec("imagePullSecrets", json!([{"name": "a"}])), "reference secrets"),
        (in_spec("resourceClaims", json!([{"name": "a"}])), "reference resourceclaims"),
        (volume(json!({"name": "v", "csi": {"driver": "d"}})), "csidrivers (via CSI volumes)"),
        (volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})), "persistentvolumeclaims"),
        (
            volume(json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
            "serviceaccounts (via projected volumes)",
        ),
    ] {
        let why = why("pods", Change::Create(&pod)).unwrap_or_default();
        assert!(why.contains(part), "{why:?} instead of {part:?}");
    }
    for source in
        [json!({"hostPath": {"path": "/x"}}), json!({"projected": {"sources": [{"downwardAPI": {}}]}})]
    {
        assert_eq!(why("pods", Change::Create(&volume(source))), None);
    }
}

#[test]
fn a_node_tells_and_ends_only_its_own_pods() {
    let pod =
        |node: &str| json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": node}, "status": {}});
    let status = |new: &Value, old: &Value| why("pods", Change::Update { subresource: "status", new, old });
    let (own, other) = (pod(NODE), pod("n2"));
    assert_eq!(status(&with(own.clone(), "/status", json!({"phase": "Running"})), &own), None);
    assert!(status(&other, &other).unwrap().contains("pods with spec.nodeName set to itself"));
    let relabelled = with(own.clone(), "/metadata/labels/a", "c".into());
    assert!(status(&relabelled, &own).unwrap().ends_with("cannot update labels through pod status"));
    let claimed = with(own.clone(), "/status", json!({"resourceClaimStatuses": [{"name": "a"}]}));
    assert!(status(&claimed, &own).unwrap().ends_with("cannot update resource claim statues"));
    assert_eq!(why("pods", Change::Delete(&own)), None);
    assert!(why("pods", Change::Delete(&other)).unwrap().contains("can only delete pods"));
    for (subresource, part) in [("", "unexpected operation \"UPDATE\""), ("resize", "subresource \"resize\"")]
    {
        let change = Change::Update { subresource, new: &own, old: &own };
        assert!(why("pods", change).unwrap().contains(part));
    }
    assert_eq!(forbidden_eviction(NODE, &own), None);
    assert!(forbidden_eviction(NODE, &other).is_some());
}

#[test]
fn a_node_changes_its_own_node_and_does_not_draw_workloads_to_itself() {
    let own = json!({"metadata": {"name": NODE, "labels": {"disk": "ssd"}}, "spec": {}});
    let changed = |pointer: &str, member: &str, value: Value| {
        let mut new = own.clone();
        new.pointer_mut(pointer).unwrap()[member] = value;
        new
    };
    let update = |new: &Value| why("nodes", Change::Update { subresource: "", new, old: &own });
    let create = |new: &Value| why("nodes", Change::Create(new));
    assert_eq!(create(&own), None);
    let label = |key: &str| changed("/metadata/labels", key, "x".into());
    for (key, allowed) in
        [("disk", true), ("topology.kubernetes.io/zone", true), ("kubernetes.io/role", false)]
    {
        assert_eq!(
            (create(&label(key)).is_none(), update(&label(key)).is_none()),
            (allowed, allowed),
            "{key}"
        );
    }
    assert_eq!(
        create(&label("node-restriction.kubernetes.io/a")).unwrap(),
        "node \"n1\" is not allowed to set the following labels: node-restriction.kubernetes.io/a"
    );
    for (new, part) in [
        (changed("/spec", "taints", json!([{"key": "a"}])), "modify taints"),
        (changed("/metadata", "ownerReferences", json!([{}])), "modify ownerReferences"),
        (changed("/spec", "configSource", json!({})), ""),
        (changed("/spec", "configSource", json!({"configMap": {"name": "x"}})), "update configSource"),
    ] {
        let why = update(&new);
        assert_eq!(why.is_none(), part.is_empty(), "{new}");
        assert!(why.unwrap_or_default().contains(part), "{new}");
    }
    let other = json!({"metadata": {"name": "n2"}});
    for change in [Change::Create(&other), Change::Delete(&other)] {
        assert_eq!(why("nodes", change).unwrap(), "node \"n1\" is not allowed to modify node \"n2\"");
    }
}

#[test]
fn leases_csi_nodes_and_slices_bear_the_nodes_name() {
    let named = |name: &str, namespace: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    let leases = "leases.coordination.k8s.io";
    for (table, object, allowed) in [
        (leases, named(NODE, NODE_LEASES), true),
        (leases, named("n2", NODE_LEASES), false),
        (leases, named(NODE, "kube-system"), false),
        ("csinodes.storage.k8s.io", named(NODE, ""), true),
        ("csinodes.storage.k8s.io", named("n2", ""), false),
        ("resourceslices.resource.k8s.io", json!({"spec": {"nodeName": NODE}}), true),
        ("resourceslices.resource.k8s.io", json!({"spec": {"nodeName": "n2"}}), false),
        ("resourceslices.resource.k8s.io", json!({"spec": {"allNodes": true}}), false),
        ("resourceslices.resource.k8s.io", json!({"spec": {"nodeName": NODE, "allNodes": null}}), true),
        ("configmaps", named("a", "b"), true),
    ] {
        for change in [Change::Create(&object), Change::Delete(&object)] {
            assert_eq!(why(table, change).is_none(), allowed, "{table} {object}");
        }
    }
}

#[test]
fn a_slice_of_devices_stays_with_its_node() {
    let slices = "resourceslices.resource.k8s.io";
    let slice = |spec: Value| json!({"spec": spec});
    let own = slice(json!({"nodeName": NODE}));
    let all = slice(json!({"nodeName": NODE, "allNodes": true}));
    assert!(why(slices, Change::Create(&all)).is_some());
    for (new, old, allowed) in [
        (&own, &own, true),
        (&all, &own, false),
        (&slice(json!({"nodeName": "n2"})), &own, false),
        (&slice(json!({"allNodes": true})), &own, false),
        (&own, &slice(json!({"nodeName": "n2"})), false),
    ] {
        let change = Change::Update { subresource: "", new, old };
        assert_eq!(why(slices, change).is_none(), allowed, "{new} {old}");
    }
}

#[test]
fn a_node_tells_how_a_claim_grew_and_no_more() {
    let old =
        json!({"metadata": {"name": "c", "resourceVersion": "1"}, "spec": {"volumeName": "v"}, "status": {}});
    let update =
        |new: &Value| why("persistentvolumeclaims", Change::Update { subresource: "status", new, old: &old });
    let grown =
        json!({"capacity": {"storage": "2Gi"}, "conditions": [], "allocatedResources": {"storage": "2Gi"}});
    assert_eq!(update(&with(old.clone(), "/status", grown)), None);
    assert!(update(&with(old.clone(), "/status", json!({"phase": "Lost"}))).is_some());
    assert!(update(&with(old.clone(), "/spec/volumeName", "w".into())).is_some());
    let change = Change::Update { subresource: "", new: &old, old: &old };
    assert_eq!(why("persistentvolumeclaims", change).unwrap(), "may only update PVC status");
}

#[test]
fn a_node_asks_for_certificates_in_its_own_name() {
    let request = |signer: &str, user: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, user);
        let made = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
        json!({"spec": {"signerName": signer, "request": STANDARD.encode(made.pem().unwrap())}})
    };
    let (client, serving) = ("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving");
    for (signer, user, allowed) in [
        (client, "system:node:n1", true),
        (serving, "system:node:n1", true),
        (client, "system:node:n2", false),
        (serving, "admin", false),
        ("example.com/a", "admin", true),
    ] {
        let asked = request(signer, user);
        assert_eq!(why(SIGNING_REQUESTS, Change::Create(&asked)).is_none(), allowed, "{signer} {user}");
    }
    let broken = json!({"spec": {"signerName": client, "request": "eA=="}});
    assert!(why(SIGNING_REQUESTS, Change::Create(&broken)).unwrap().starts_with("unable to parse csr"));
}

#[test]
fn a_nodes_tokens_are_for_its_own_pods_and_for_what_these_need() {
    let pod = json!({
        "metadata": {"uid": "u-2"},
        "spec": {"nodeName": NODE, "volumes": [{"name": "t", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t", "audience": "vault"}},
            {"serviceAccountToken": {"path": "u"}},
        ]}}]},
    });
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u-2"});
    let other = with(pod.clone(), "/spec/nodeName", "n2".into());
    for (reference, pod, part) in [
        (reference.clone(), &pod, ""),
        (json!(null), &pod, "not bound to a pod"),
        (with(reference.clone(), "/kind", "Secret".into()), &pod, "not bound to a pod"),
        (with(reference.clone(), "/uid", "".into()), &pod, "without a uid"),
        (with(reference.clone(), "/uid", "u-3".into()), &pod, "does not match the UID in record"),
        (reference.clone(), &other, "a pod scheduled on a different node"),
    ] {
        let why = forbidden_binding(NODE, &reference, Some(pod)).unwrap_or_default();
        assert!(why.contains(part) && why.is_empty() == part.is_empty(), "{why:?} instead of {part:?}");
    }
    let driver = json!({"spec": {"tokenRequests": [{"audience": "bank"}]}});
    for (audience, needed) in [("", true), ("vault", true), ("bank", true), ("other", false)] {
        assert_eq!(needs_audience(&pod, [&driver].into_iter(), audience), needed, "{audience}");
    }
    assert_eq!(audience(&json!({"spec": {"audiences": ["a"]}})).unwrap(), "a");
    assert!(audience(&json!({"spec": {"audiences": ["a", "b"]}})).is_err());
}
