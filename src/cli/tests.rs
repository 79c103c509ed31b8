use std::time::Duration;

use steersman_controllers::batch::job::JobOptions;
use steersman_controllers::cluster::garbage_collector::GarbageCollectorOptions;
use steersman_controllers::nodes::pod_gc::PodGcOptions;

use super::*;

mod refusals;
mod texts;

fn parsed(flags: &str) -> Result<Invocation, Refusal> {
    let args = ["steersman", "controller-manager"].into_iter().chain(flags.split_whitespace());
    parse(args.map(OsString::from))
}

fn manager(flags: &str) -> ControllerManager {
    match parsed(flags) {
        Ok(Invocation::ControllerManager(manager)) => *manager,
        Ok(_) => panic!("{flags:?} does not run the manager"),
        Err(refusal) => panic!("{flags:?}: {refusal}"),
    }
}

fn refused(flags: &str) -> String {
    match parsed(flags) {
        Err(refusal) => refusal.to_string(),
        Ok(_) => panic!("{flags:?} must be refused"),
    }
}

fn printed(args: &[&str]) -> String {
    match parse(args.iter().map(OsString::from)) {
        Ok(Invocation::Print(text)) => text,
        Ok(Invocation::Help(text)) => text.to_string(),
        _ => panic!("{args:?} must print something"),
    }
}

/// Why the arguments after the program's name are refused.
fn refusal(args: &str) -> String {
    match parse(["steersman"].into_iter().chain(args.split_whitespace()).map(OsString::from)) {
        Err(refusal) => refusal.to_string(),
        Ok(_) => panic!("{args:?} must be refused"),
    }
}

#[test]
fn the_defaults_are_upstreams() {
    let manager = manager("");
    assert_eq!(manager.min_resync_period, Duration::from_secs(12 * 60 * 60));
    assert_eq!(manager.limits, steersman_client::Limits::new(20.0, 30));
    let timing = (manager.timing.start_interval, manager.timing.shutdown_timeout);
    assert_eq!(timing, (Duration::ZERO, Duration::from_secs(10)));
    let election = manager.election.unwrap();
    assert_eq!((&*election.namespace, &*election.name), ("kube-system", "kube-controller-manager"));
    let durations = [election.lease_duration, election.renew_deadline, election.retry_period];
    assert_eq!(durations.map(|duration| duration.as_secs()), [15, 10, 2]);
    assert_eq!((manager.warnings.len(), manager.http_address), (0, None));
    let configz = &manager.configz["kubecontrollermanager.config.k8s.io"];
    assert_eq!(configz["Generic"]["MinResyncPeriod"], "12h0m0s");
    assert_eq!(configz["Generic"]["Controllers"], serde_json::json!(["*"]));
    let endpoints = serde_json::json!({"ConcurrentEndpointSyncs": 5, "EndpointUpdatesBatchPeriod": "0s"});
    assert_eq!(configz["EndpointController"], endpoints);
    assert_eq!(configz["JobController"], serde_json::json!({"ConcurrentJobSyncs": 5}));
    assert_eq!(configz["PodGCController"], serde_json::json!({"TerminatedPodGCThreshold": 12_500}));
}

#[test]
fn flags_are_taken_in_gos_ways() {
    for (flags, leads_at_once) in [
        ("--leader-elect", false),
        ("--leader-elect=false", true),
        ("--leader-elect=F", true),
        ("--leader_elect=0", true),
        ("--leader-elect=false --leader-elect=true", false),
    ] {
        assert_eq!(manager(flags).election.is_none(), leads_at_once, "{flags}");
    }
    for flags in [
        "--concurrent-job-syncs=7",
        "--concurrent-job-syncs 7",
        "--concurrent_job_syncs=3 --concurrent-job-syncs=7",
    ] {
        assert_eq!(manager(flags).options.get::<JobOptions>().concurrent_syncs.0, 7, "{flags}");
    }
    for (flags, collects) in [
        ("", true),
        ("--enable-garbage-collector", true),
        ("--enable-garbage-collector=0", false),
        ("--enable_garbage_collector=false --kubeconfig x", false),
    ] {
        assert_eq!(manager(flags).options.get::<GarbageCollectorOptions>().enabled, collects, "{flags}");
    }
    for flags in ["-v4", "-v=4", "-v 4", "--v=4", "--v 4"] {
        assert_eq!(manager(flags).logging.verbosity, 4, "{flags}");
    }
    let manager = manager(
        "--min-resync-period=1h30m --controller-start-interval 500ms --terminated-pod-gc-threshold -1",
    );
    assert_eq!(manager.min_resync_period, Duration::from_secs(5_400));
    assert_eq!(manager.timing.start_interval, Duration::from_millis(500));
    assert_eq!(manager.options.get::<PodGcOptions>().terminated_pod_threshold, -1);
}

#[test]
fn controllers_may_be_listed_at_once_or_one_by_one_and_begin_with_a_dash() {
    let one = manager("--controllers=*,-job").selection;
    for flags in
        ["--controllers=* --controllers=-job", "--controllers -job,*", "--controllers * --controllers -job"]
    {
        let other = manager(flags).selection;
        let registry = steersman_controllers::builtin();
        for row in registry.rows() {
            assert_eq!(other.choice(row), one.choice(row), "{flags}: {}", row.name);
        }
    }
}

#[test]
fn zero_limits_are_client_gos_defaults_and_negative_ones_none() {
    let limits = |flags| manager(flags).limits;
    assert_eq!(limits("--kube-api-qps=0 --kube-api-burst=0"), steersman_client::Limits::new(5.0, 10));
    assert!(limits("--kube-api-qps -1").qps < 0.0);
}

#[test]
fn durations_of_an_election_that_is_not_held_do_not_matter() {
    assert!(manager("--leader-elect=false --leader-elect-lease-duration=5s").election.is_none());
}

#[test]
fn the_manifest_that_kubeadm_writes_starts_and_warns_of_what_has_no_effect() {
    let manager = manager(
        "--allocate-node-cidrs=true --authentication-kubeconfig=/etc/kubernetes/controller-manager.conf \
         --authorization-kubeconfig=/etc/kubernetes/controller-manager.conf --bind-address=127.0.0.1 \
         --client-ca-file=/etc/kubernetes/pki/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes \
         --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt --cluster-signing-key-file= \
         --controllers=*,bootstrapsigner,tokencleaner --kubeconfig=/etc/kubernetes/controller-manager.conf \
         --leader-elect=true --requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt \
         --root-ca-file=/etc/kubernetes/pki/ca.crt --service-account-private-key-file /etc/kubernetes/pki/sa.key \
         --service-cluster-ip-range=10.96.0.0/12 --use-service-account-credentials=true",
    );
    assert_eq!(manager.kubeconfig.as_deref(), Some("/etc/kubernetes/controller-manager.conf".as_ref()));
    assert_eq!(manager.warnings, [""; 0]);
    let port = manager.secure_port.unwrap();
    assert_eq!((port.address.to_string(), port.port), ("127.0.0.1".to_owned(), 10257));
    assert!(manager.service_account_credentials);
}

#[test]
fn started_as_kube_controller_manager_it_is_the_controller_manager() {
    let started = |args: &[&str]| parse(args.iter().map(OsString::from));
    let program = "/usr/local/bin/kube-controller-manager";
    assert!(matches!(started(&[program, "--v=2"]), Ok(Invocation::ControllerManager(_))));
    assert!(matches!(started(&["kube-controller-manager"]), Ok(Invocation::ControllerManager(_))));
    assert!(started(&["steersman", "--v=2"]).is_err());
    for args in
        [&["--help"][..], &["--version"], &["version"], &["help"], &["completion", "bash"], &["--bogus"]]
    {
        let ours = started(&[&["steersman", "controller-manager"], args].concat());
        let linked = started(&[&[program], args].concat());
        let told = |result| match result {
            Ok(Invocation::Help(text)) => text.ansi().to_string(),
            Ok(Invocation::Print(text)) => text,
            Err(refusal) => format!("{refusal}"),
            Ok(_) => panic!("{args:?} must not start anything"),
        };
        assert_eq!(told(linked), told(ours), "{args:?}");
    }
}

#[test]
fn the_flags_page_has_each_flag_with_its_value() {
    let flags = manager("--leader-elect=false --controllers=*,-job --controllers=podgc --profiling").flags;
    for (flag, value) in [
        ("leader-elect", "false"),
        ("controllers", "*,-job,podgc"),
        ("profiling", "true"),
        ("secure-port", "10257"),
        ("concurrent-job-syncs", "5"),
        ("min-resync-period", "12h"),
    ] {
        assert_eq!(flags.get(flag).map(String::as_str), Some(value), "{flag}");
    }
}

#[test]
fn a_flag_that_asks_for_what_happens_anyway_causes_no_warning() {
    for flags in [
        "--profiling=false --secure-port=0 --cluster-name=mine --log-flush-frequency=1s --cloud-provider=external",
        "--emulated-version=kube=1.36 --kube-api-content-type application/vnd.kubernetes.protobuf",
        "--contention-profiling=true --contention-profiling=false",
        "--strict-flags --contention-profiling=false",
        "--strict-flags --feature-gates=JobManagedBy=true",
    ] {
        let warnings = manager(flags).warnings;
        assert!(warnings.iter().all(|warning| warning.starts_with("setting GA")), "{flags}: {warnings:?}");
    }
}

#[test]
fn strict_flags_make_an_error_of_what_has_no_effect() {
    assert_eq!(
        refused("--strict-flags --contention-profiling --flex-volume-plugin-dir=/d"),
        "--strict-flags: Flags without effect in this version: \
         --contention-profiling would measure where threads wait for locks; \
         --flex-volume-plugin-dir would name the folder with programs that attach volumes"
    );
    let gate = refused("--strict-flags --feature-gates=NativeHistograms=true");
    assert!(gate.starts_with("--strict-flags: feature gate NativeHistograms=true has no effect"), "{gate}");
    assert_eq!(manager("--strict-flags=false --contention-profiling").warnings.len(), 1);
}

#[test]
fn metrics_and_source_files_may_be_named() {
    let manager = manager("--disabled-metrics=a,b --disabled-metrics c --vmodule=runner=5,re*=2");
    assert_eq!(manager.disabled_metrics.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(manager.logging.vmodule, crate::logging::VModule::parse("runner=5,re*=2").unwrap());
    assert!(refused("--vmodule=runner").contains("expect comma-separated list of filename=N"));
    assert_eq!(
        refused("--vmodule=a=1 --logging-format=json"),
        "--vmodule: Only supported for text log format"
    );
}

#[test]
fn feature_gates_are_kubernetes_own() {
    let manager = manager("--feature-gates=StorageVersionMigrator=true --feature-gates kube:AllAlpha=true");
    assert!(manager.gates.enabled("StorageVersionMigrator") && manager.gates.enabled("NativeHistograms"));
    assert_eq!(manager.warnings.len(), 2, "{:?}", manager.warnings);
    assert!(refused("--feature-gates=Foo=true").ends_with("unrecognized feature gate: Foo"));
    assert!(
        refused("--feature-gates=NativeHistogram=true")
            .ends_with("unrecognized feature gate: NativeHistogram, did you mean NativeHistograms?")
    );
}
