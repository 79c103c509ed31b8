//! The Node that is registered, and what becomes of one that is there.

use super::*;
use crate::node_status::initial;
use crate::node_status::register::reconcile;

#[test]
fn a_node_is_registered_with_labels_taints_and_annotation() {
    let mut settings = settings();
    settings.node_labels = read(json!({ "a": "b", "kubernetes.io/arch": "mine" }));
    settings.register_with_taints = read(json!([{ "key": "k", "effect": "NoExecute" }]));
    settings.provider_id = "cloud://1".to_owned();
    settings.external_cloud_provider = true;
    let labels = json!({
        "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "mine", "beta.kubernetes.io/arch": "amd64", "a": "b",
    });
    let annotations = json!({ "volumes.kubernetes.io/controller-managed-attach-detach": "true" });
    let uninitialized = json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule" });
    assert_eq!(
        json!(initial::node(&settings, "amd64")),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": NAME, "labels": labels, "annotations": annotations },
            "spec": {
                "providerID": "cloud://1",
                "taints": [{ "key": "k", "effect": "NoExecute" }, uninitialized],
            },
        })
    );
    settings.enable_controller_attach_detach = false;
    assert_eq!(initial::node(&settings, "amd64").metadata.annotations, None);
}

#[test]
fn labels_without_which_nothing_is_scheduled_are_set_right() {
    let mut wrong = node(json!({ "metadata": { "labels": { "kubernetes.io/os": "x", "a": "b" } } }));
    assert!(initial::set_required_labels(&mut wrong, "arm64"));
    assert_eq!(
        json!(wrong.metadata.labels),
        json!({ "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "a": "b" })
    );
    assert!(!initial::set_required_labels(&mut wrong, "arm64"));
}

const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

#[test]
fn a_node_that_is_there_already_is_set_right_and_no_further() {
    let initial = node(json!({
        "metadata": {
            "labels": { "kubernetes.io/hostname": "new", "mine": "x", "node.kubernetes.io/instance-type": "" },
            "annotations": { MANAGED: "true" },
        },
        "status": {
            "capacity": { "cpu": "4", "hugepages-2Mi": "4Mi" },
            "allocatable": { "cpu": "3", "hugepages-2Mi": "4Mi" },
        },
    }));
    let mut existing = node(json!({
        "metadata": {
            "labels": { "kubernetes.io/hostname": "old", "theirs": "y", "node.kubernetes.io/instance-type": "big" },
            "annotations": { "a": "b" },
        },
        "spec": { "unschedulable": true },
        "status": {
            "capacity": { "cpu": "2", "hugepages-1Gi": "1Gi", "example.com/gpu": "2" },
            "allocatable": { "cpu": "2", "hugepages-1Gi": "1Gi", "example.com/gpu": "1" },
        },
    }));
    assert!(reconcile(&mut existing, &initial));
    assert_eq!(
        json!(existing),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "labels": { "kubernetes.io/hostname": "new", "theirs": "y" },
                "annotations": { "a": "b", MANAGED: "true" },
            },
            "spec": { "unschedulable": true },
            "status": {
                "capacity": { "cpu": "2", "hugepages-2Mi": "4Mi", "example.com/gpu": "0" },
                "allocatable": { "cpu": "2", "hugepages-2Mi": "4Mi", "example.com/gpu": "0" },
            },
        })
    );
    assert!(!reconcile(&mut existing, &initial));
    let without = node(json!({}));
    assert!(reconcile(&mut existing, &without));
    assert_eq!(json!(existing.metadata.annotations), json!({ "a": "b" }));
    assert_eq!(json!(existing.status)["capacity"], json!({ "cpu": "2", "example.com/gpu": "0" }));
}

#[test]
fn a_node_without_resources_gets_them() {
    let initial = node(json!({ "status": { "capacity": { "cpu": "4" }, "allocatable": { "cpu": "3" } } }));
    let mut existing = node(json!({}));
    assert!(reconcile(&mut existing, &initial));
    assert_eq!(json!(existing.status), json!({ "capacity": { "cpu": "4" }, "allocatable": { "cpu": "3" } }));
}
