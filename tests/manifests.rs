//! The manifests say what the program needs, and name controllers that it has.

use std::collections::BTreeSet;
use std::path::Path;

use steersman_controllers::builtin;

/// Controllers of this program that stay with kube-controller-manager while a Deployment of steersman runs beside it.
const STAY: &[&str] = &[
    // They make the Deployment's pods, and replace those of nodes that are lost.
    "deployment-controller",
    "replicaset-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    // Nodes and pods need these in order to start: the pods' network, accounts and certificates.
    "daemonset-controller",
    "node-ipam-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-approving-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
    // Off by default, or behind feature gates that are.
    "podgroup-protection-controller",
    "podcertificaterequest-cleaner-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "selinux-warning-controller",
];

fn manifest(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(path);
    std::fs::read_to_string(path).expect("the manifest must exist")
}

/// The controllers that the flag `--controllers` in a manifest names.
fn controllers(path: &str) -> BTreeSet<String> {
    let text = manifest(path);
    let mut lists = text.lines().filter_map(|line| line.split_once("--controllers="));
    let (_, list) = lists.next().expect("the manifest must have the flag");
    assert!(lists.next().is_none(), "{path} has the flag twice");
    list.split(',').map(str::to_owned).collect()
}

#[test]
fn the_cluster_role_has_the_rights_that_controllers_declare() {
    assert_eq!(
        manifest("controller-manager/cluster-role.yaml"),
        steersman_controllers::cluster_role(),
        "write it again: cargo run --example cluster_role > manifests/controller-manager/cluster-role.yaml"
    );
}

#[test]
fn the_overlay_beside_kube_controller_manager_runs_all_controllers_but_those_that_its_pods_need() {
    let registry = builtin();
    let here = registry.rows().iter().filter(|row| row.is_here()).map(|row| row.name.to_owned());
    let stay: BTreeSet<String> = STAY.iter().map(|&name| name.to_owned()).collect();
    let all: BTreeSet<String> = here.collect();
    assert!(stay.is_subset(&all), "{:?}", stay.difference(&all));
    assert_eq!(controllers("overlays/beside/kustomization.yaml"), &all - &stay);
}

#[test]
fn the_base_runs_a_part_of_what_the_overlay_runs() {
    let base = controllers("controller-manager/deployment.yaml");
    assert!(base.is_subset(&controllers("overlays/beside/kustomization.yaml")), "{base:?}");
}
