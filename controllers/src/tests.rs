use steersman_controller::feature_gates::{self, FeatureGates};
use steersman_controller::registry::{ByDefault, Selection};
use steersman_controller::runner::Metrics;
use steersman_controller::testing;

use super::builtin;

#[test]
fn the_list_that_kubeadm_writes_is_known() {
    Selection::parse(&["*", "bootstrapsigner", "tokencleaner"], &builtin()).unwrap();
}

#[test]
fn controllers_answer_to_upstreams_names_and_to_the_short_ones() {
    let registry = builtin();
    for (name, canonical) in [
        ("job", "job-controller"),
        ("endpoint", "endpoints-controller"),
        ("endpoints", "endpoints-controller"),
        ("podgc", "pod-garbage-collector-controller"),
    ] {
        let row = registry.rows().iter().find(|row| row.is_called(name)).unwrap();
        assert_eq!((row.name, row.by_default), (canonical, ByDefault::On));
    }
    assert_eq!(registry.rows().len(), 52, "kube-controller-manager 1.36 has 52");
}

#[test]
fn each_row_has_upstreams_account_gates_and_provider() {
    let registry = builtin();
    let row = |name: &str| registry.rows().iter().find(|row| row.name == name).unwrap();
    for (name, account) in [
        ("job-controller", Some("job-controller")),
        ("endpoints-controller", Some("endpoint-controller")),
        ("node-lifecycle-controller", Some("node-controller")),
        ("serviceaccount-token-controller", None),
    ] {
        assert_eq!(row(name).account(), account, "{name}");
    }
    // Upstream's figures: a wrong name in the tables would change them.
    let rows = || registry.rows().iter();
    let others = rows().filter(|row| row.account().is_some_and(|account| account != row.name));
    assert_eq!(others.count(), 28);
    assert_eq!(rows().filter(|row| row.account().is_none()).count(), 1);
    assert_eq!(rows().filter(|row| row.is_of_cloud_provider()).count(), 3);
    assert_eq!(rows().filter(|row| !row.required_gates().is_empty()).count(), 12);
    for gate in rows().flat_map(|row| row.required_gates()) {
        assert!(feature_gates::gate(gate).is_some(), "{gate}");
    }
}

#[tokio::test]
async fn all_controllers_of_the_table_are_built_over_shared_caches() {
    let server = steersman_apiserver::TestServer::start().await;
    let names = ["*", "bootstrapsigner", "tokencleaner", "selinux-warning-controller"];
    let (registry, all) = (builtin(), Selection::parse(&names, &builtin()).unwrap());
    let mut options = registry.options();
    let key = "access/src/service_account_token/testdata/ec256-pkcs8.pem";
    let key = format!("{}/{key}", env!("CARGO_MANIFEST_DIR"));
    options.set("service-account-private-key-file", &key).unwrap();
    options.set("allocate-node-cidrs", "true").unwrap();
    options.set("cluster-cidr", "10.244.0.0/16").unwrap();
    let (mut context, _writer) = testing::context(&server, options);
    let required = registry.rows().iter().filter(|row| row.is_here()).flat_map(|row| row.required_gates());
    let parts = ["DRAWorkloadResourceClaims", "DRADeviceTaintRules"];
    let on: Vec<String> = required.chain(&parts).map(|gate| format!("{gate}=true")).collect();
    context.gates = FeatureGates::parse(on.iter().map(String::as_str)).unwrap().into();
    let built = registry.build(&all, &context, &Metrics::new()).unwrap();
    // Without the files of an authority there is nothing to sign with.
    let unused = "certificatesigningrequest-signing-controller";
    let here = registry.rows().iter().filter(|row| row.is_here() && row.name != unused);
    let here: Vec<_> = here.map(|row| row.name).collect();
    assert_eq!(built.names().collect::<Vec<_>>(), here);
    let mut resources: Vec<_> =
        context.informers.whole_informers().iter().map(|i| i.resource().to_string()).collect();
    let asked = resources.len();
    resources.dedup();
    assert_eq!(resources.len(), asked, "each kind is cached whole once at most");
}
