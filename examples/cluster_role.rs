//! Prints the ClusterRole that `manifests/controller-manager/cluster-role.yaml` has:
//!
//!     cargo run --example cluster_role > manifests/controller-manager/cluster-role.yaml

#[expect(clippy::print_stdout, reason = "a command's result belongs there")]
fn main() {
    print!("{}", steersman_controllers::cluster_role());
}
