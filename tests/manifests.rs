//! The manifests say what the program needs.

#[test]
fn the_cluster_role_has_the_rights_that_controllers_declare() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/controller-manager/cluster-role.yaml");
    let written = std::fs::read_to_string(path).expect("the manifest must exist");
    assert_eq!(
        written,
        steersman_controllers::cluster_role(),
        "write it again: cargo run --example cluster_role > manifests/controller-manager/cluster-role.yaml"
    );
}
