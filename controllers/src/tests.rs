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

#[tokio::test]
async fn all_controllers_of_the_table_are_built_over_shared_caches() {
    let server = steersman_apiserver::TestServer::start().await;
    let (registry, all) =
        (builtin(), Selection::parse(&["*", "bootstrapsigner", "tokencleaner"], &builtin()).unwrap());
    let mut options = registry.options();
    let key = "access/src/service_account_token/testdata/ec256-pkcs8.pem";
    let key = format!("{}/{key}", env!("CARGO_MANIFEST_DIR"));
    options.set("service-account-private-key-file", &key).unwrap();
    options.set("allocate-node-cidrs", "true").unwrap();
    options.set("cluster-cidr", "10.244.0.0/16").unwrap();
    let (context, _writer) = testing::context(&server, options);
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
