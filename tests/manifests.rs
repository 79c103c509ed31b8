//! The manifests have the rights of the controllers that they enable, and name controllers that the program has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use steersman_controller::registry::Selection;
use steersman_controllers::{builtin, cluster_role_of, rules};

/// The files with a list of controllers, each with the ClusterRole for that list.
const ROLES: &[(&str, &str)] = &[
    ("controller-manager/deployment.yaml", "controller-manager/cluster-role.yaml"),
    ("overlays/beside/kustomization.yaml", "overlays/beside/cluster-role.yaml"),
];

/// The rules from which the Helm chart makes its ClusterRole.
const CHART_RULES: &str = "helm/steersman/rules.yaml";

const WRITE_ANEW: &str = "write it anew: cargo test --test manifests -- --ignored";

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

fn path_of(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(path)
}

fn manifest(path: &str) -> String {
    std::fs::read_to_string(path_of(path)).expect("the manifest must exist")
}

/// The ClusterRole for the controllers that the flag `--controllers` in a manifest names.
fn role_for(path: &str) -> String {
    let list: Vec<_> = controllers(path).into_iter().collect();
    cluster_role_of(&Selection::parse(&list, &builtin()).expect("the program must have the controllers"))
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
fn each_cluster_role_has_the_rights_that_the_controllers_of_its_manifest_declare() {
    for (list, role) in ROLES {
        assert_eq!(manifest(role), role_for(list), "{role}: {WRITE_ANEW}");
    }
}

#[test]
fn the_chart_knows_the_rights_of_each_controller() {
    assert_eq!(manifest(CHART_RULES), rules(), "{CHART_RULES}: {WRITE_ANEW}");
}

#[test]
#[ignore = "writes the generated files of manifests/"]
fn write_the_roles_anew() {
    let roles = ROLES.iter().map(|(list, role)| (*role, role_for(list)));
    for (path, text) in roles.chain([(CHART_RULES, rules())]) {
        std::fs::write(path_of(path), text).expect("the manifest must be writable");
    }
}

#[test]
fn the_base_has_no_rights_over_all_kinds_over_secrets_or_to_escalate() {
    let role = manifest("controller-manager/cluster-role.yaml");
    for right in ["\"*\"", "secrets", "escalate", "bind", "impersonate", "clusterroles"] {
        assert!(!role.contains(right), "{right}");
    }
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
