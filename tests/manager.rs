//! The manager as its operators meet it: its command line, signals, health, metrics and leadership.

#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::process::{Command, Output};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use support::jobs::{self, job};
use support::manager::Manager;
use support::{Cluster, eventually, until};
use tokio::time::Instant;

const ALL: &[&str] = &["--controllers=*"];
const LEASE: &str = "manager-test";

/// A candidate whose terms are short enough for a test, on a lease of the test's own.
fn candidate(cluster: &Cluster) -> Manager {
    let name = format!("--leader-elect-resource-name={LEASE}-{}", cluster.namespace);
    let flags = [
        "--controllers=job",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=300ms",
        &name,
    ];
    Manager::start_candidate(&cluster.kubeconfig(), &flags)
}

fn steersman(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steersman")).args(args).output().expect("it must start")
}

/// The value of a sample, such as `a{b="c"}`.
fn sample(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

async fn metric(manager: &Manager, name: &str) -> Option<f64> {
    let (_, metrics) = manager.get("/metrics").await?;
    sample(&metrics, name)
}

async fn ready(manager: &Manager) {
    eventually("the manager is ready", || async {
        (manager.get("/readyz").await? == (200, "ok".to_owned())).then_some(())
    })
    .await;
}

async fn leads(manager: &Manager) {
    let running = r#"running_managed_controllers{manager="kube-controller-manager",name="job-controller"}"#;
    eventually("its controllers run", || async { (metric(manager, running).await? == 1.0).then_some(()) })
        .await;
}

async fn holder(cluster: &Cluster) -> Option<String> {
    let leases = Api::<Lease>::namespaced(cluster.client(), "kube-system");
    let lease = leases.get(&format!("{LEASE}-{}", cluster.namespace)).await.ok()?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

#[test]
fn a_wrong_flag_ends_the_start_with_one_line_that_says_which_and_why() {
    let output = steersman(&["controller-manager", "--min-resync-period=12"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "Error: invalid argument \"12\" for \"--min-resync-period\" flag: time: missing unit in duration \"12\"; \
         write 30s, 5m or 1h30m\n"
    );
    assert_eq!(output.stdout, b"");
}

#[test]
fn a_kubeconfig_that_is_not_there_ends_the_start_and_is_named() {
    let output = steersman(&["controller-manager", "--kubeconfig=/nowhere/config"]);
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    let last = log.lines().last().unwrap();
    assert!(
        last.starts_with('E') && last.contains("\"command failed\" err=\"kubeconfig /nowhere/config: "),
        "{log}"
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["controller-manager", "--help"][..], &["--help"], &["--version"]] {
        let output = steersman(args);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
        assert!(String::from_utf8(output.stdout).unwrap().to_lowercase().contains("steersman"), "{args:?}");
    }
}

#[test]
fn an_address_that_is_taken_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = steersman(&[
        "controller-manager",
        "--master=127.0.0.1:1",
        "--secure-port=0",
        "--http-address",
        &address,
    ]);
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains(&format!("serving at {address}: Address already in use")), "{log}");
}

#[tokio::test]
async fn a_manager_tells_of_itself_over_http() {
    let cluster = Cluster::start().await;
    let manager = Manager::start(&cluster.kubeconfig(), ALL);
    ready(&manager).await;
    let get = async |path: &str| manager.get(path).await.unwrap();

    assert_eq!(get("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(
        get("/livez?verbose").await,
        (200, "[+]ping ok\n[+]informers ok\nlivez check passed\n".to_owned())
    );
    let (_, report) = get("/readyz?verbose").await;
    for check in
        ["ping", "caches", "job-controller", "endpoints-controller", "pod-garbage-collector-controller"]
    {
        assert!(report.contains(&format!("[+]{check} ok\n")), "{report}");
        if check != "ping" {
            assert_eq!(get(&format!("/readyz/{check}")).await.0, 200);
        }
    }
    assert_eq!(get("/readyz/validatingadmissionpolicy-status-controller").await.0, 404);

    let version: Value = serde_json::from_str(&get("/version").await.1).unwrap();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    let configz: Value = serde_json::from_str(&get("/configz").await.1).unwrap();
    let generic = &configz["kubecontrollermanager.config.k8s.io"]["Generic"];
    assert_eq!(generic["LeaderElection"]["leaderElect"], false);
    assert_eq!(generic["MinResyncPeriod"], "12h0m0s");

    // Their first syncs, of the default service for instance, have been counted.
    leads(&manager).await;
    let (_, metrics) = get("/metrics").await;
    for family in [
        "rest_client_requests_total",
        "workqueue_depth",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "go_goroutines",
        "kubernetes_build_info",
        "running_managed_controllers",
        "informer_cache_objects",
    ] {
        assert!(metrics.contains(&format!("# TYPE {family} ")), "{family} in {metrics}");
    }
    assert_eq!(sample(&metrics, r#"informer_cache_synced{resource="pods"}"#), Some(1.0));
    assert_eq!(
        sample(&metrics, r#"steersman_controller_panics_total{controller="job-controller"}"#),
        Some(0.0)
    );
    assert_eq!(manager.get("/nothing").await.unwrap().0, 404);
}

#[tokio::test]
async fn a_cache_that_does_not_sync_is_named_and_keeps_only_those_waiting_that_need_it() {
    let cluster = Cluster::start_embedded().await;
    cluster.embedded().faults().fail(usize::MAX, Calls::to("nodes"), Failure::InternalError);
    let manager = Manager::start(&cluster.kubeconfig(), ALL);
    leads(&manager).await;
    // The other caches sync one after the other, and their controllers then start.
    let lines = [
        "[-]caches failed: not synced: nodes\n",
        "[-]pod-garbage-collector-controller failed: waiting for caches: nodes\n",
        "[+]job-controller ok\n",
    ];
    eventually("nodes alone are waited for", || async {
        let (status, report) = manager.get("/readyz?verbose").await?;
        (status == 500 && lines.iter().all(|line| report.contains(line))).then_some(())
    })
    .await;
    assert_eq!(manager.get("/livez").await.unwrap().0, 200);
    cluster.embedded().faults().clear();
    ready(&manager).await;
}

#[tokio::test]
async fn a_stop_by_either_signal_is_clean() {
    let cluster = Cluster::start().await;
    for signal in [Signal::TERM, Signal::INT] {
        let mut manager = candidate(&cluster);
        leads(&manager).await;
        assert!(holder(&cluster).await.is_some());
        manager.signal(signal);
        assert!(manager.ended().await.success(), "{}", manager.log());
        assert_eq!(holder(&cluster).await, None, "the lease is free");
        assert!(manager.log().trim_end().ends_with("\"Stopped\""), "{}", manager.log());
    }
}

/// A manager with a sync that does not come to an end.
async fn hung(cluster: &Cluster, flags: &[&str]) -> Manager {
    let creates = Calls::to("pods").verb(Verb::Create);
    cluster.embedded().faults().fail(usize::MAX, creates, Failure::Hang);
    let manager = Manager::start(&cluster.kubeconfig(), &[&["--controllers=job"], flags].concat());
    jobs::create(&cluster.client(), &job("hung", json!({}))).await;
    let faults = cluster.embedded().faults();
    until("the sync hangs", || faults.pending() < usize::MAX).await;
    manager
}

#[tokio::test]
async fn syncs_that_take_too_long_to_end_are_dropped_and_named() {
    let cluster = Cluster::start_embedded().await;
    let mut manager = hung(&cluster, &["--controller-shutdown-timeout=300ms"]).await;
    let begun = Instant::now();
    assert_eq!(manager.stop().await.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let (log, key) = (manager.log(), format!("of job has been on {}/hung", cluster.namespace));
    let error = "command failed\" err=\"controller shutdown timeout reached after 300ms: still running: job-controller (";
    assert!(log.contains(error) && log.contains(&key), "{log}");
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let cluster = Cluster::start_embedded().await;
    let mut manager = hung(&cluster, &["--controller-shutdown-timeout=1h"]).await;
    manager.signal(Signal::TERM);
    until("the first signal is heard", || manager.log().contains("a second signal ends")).await;
    manager.signal(Signal::INT);
    assert_eq!(manager.ended().await.code(), Some(1));
    assert!(manager.log().contains("\"Ending at once\" signal=\"SIGINT\""), "{}", manager.log());
}

#[tokio::test]
async fn of_two_candidates_one_works_and_the_other_keeps_its_caches_warm() {
    let cluster = Cluster::start().await;
    let mut first = candidate(&cluster);
    leads(&first).await;
    let second = candidate(&cluster);
    ready(&second).await;
    let running = r#"running_managed_controllers{manager="kube-controller-manager",name="job-controller"}"#;
    let master = format!(r#"leader_election_master_status{{name="{LEASE}-{}"}}"#, cluster.namespace);
    assert_eq!(metric(&first, &master).await, Some(1.0));
    assert_eq!(metric(&second, &master).await, Some(0.0));
    assert_eq!(metric(&second, running).await, Some(0.0));

    jobs::create(&cluster.client(), &job("first", json!({}))).await;
    eventually("the leader makes a pod", || async {
        (jobs::pods(&cluster.client()).await.len() == 1).then_some(())
    })
    .await;
    // What it does not do, the standby does not pile up either.
    eventually("the standby has heard of the job", || async {
        (metric(&second, r#"informer_cache_objects{resource="jobs.batch"}"#).await? >= 1.0).then_some(())
    })
    .await;
    eventually("its queue is empty", || async {
        (metric(&second, r#"workqueue_depth{name="job"}"#).await? == 0.0).then_some(())
    })
    .await;

    let begun = Instant::now();
    first.stop().await;
    leads(&second).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "the lease was released: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_lost_lease_stops_the_controllers_and_not_the_process() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let manager = candidate(&cluster);
    leads(&manager).await;

    let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
    let name = format!("{LEASE}-{}", cluster.namespace);
    let taken = json!({ "spec": { "holderIdentity": "somebody else", "leaseDurationSeconds": 3 } });
    leases.patch(&name, &PatchParams::default(), &Patch::Merge(&taken)).await.unwrap();
    let running = r#"running_managed_controllers{manager="kube-controller-manager",name="job-controller"}"#;
    eventually("it steps down", || async { (metric(&manager, running).await? == 0.0).then_some(()) }).await;
    // Nobody looks after it meanwhile; the manager, standing by, hears of it and throws the event away.
    jobs::create(&client, &job("meanwhile", json!({}))).await;
    ready(&manager).await;

    // The lease expires, and the manager leads again: the job comes back to it from its cache.
    leads(&manager).await;
    eventually("the job of the time without a leader gets its pod", || async {
        (jobs::pods(&client).await.len() == 1).then_some(())
    })
    .await;
    assert!(manager.log().contains("Leadership is lost"), "{}", manager.log());
}

/// Waits until the log has these parts in one line.
async fn logs(manager: &Manager, parts: &[&str]) {
    eventually(&format!("a line with {parts:?}"), || {
        let log = manager.log();
        let found = log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        std::future::ready(found.then_some(()))
    })
    .await;
}

#[tokio::test]
async fn the_log_says_why_a_controller_does_not_run() {
    let cluster = Cluster::start().await;
    let flags = [
        "--controllers=*,-job-controller",
        "--feature-gates=StorageVersionMigrator=true",
        "--contention-profiling=true",
    ];
    let manager = Manager::start(&cluster.kubeconfig(), &flags);
    ready(&manager).await;
    for parts in [
        ["\"Warning: controller is disabled\"", "controller=\"job-controller\""],
        ["\"Warning: controller is disabled\"", "controller=\"selinux-warning-controller\""],
        ["\"Skipping a cloud provider controller\"", "controller=\"service-lb-controller\""],
        ["\"Skipping a cloud provider controller\"", "controller=\"node-route-controller\""],
        ["\"Skipping a cloud provider controller\"", "controller=\"cloud-node-lifecycle-controller\""],
        [
            "\"Controller is disabled by a feature gate\"",
            "controller=\"resourcepoolstatusrequest-controller\"",
        ],
        ["\"Controller is disabled by a feature gate\"", "DRAResourcePoolStatus"],
        ["\"Controller is disabled by a feature gate\"", "StorageVersionAPI"],
        ["Flags without effect in this version: --contention-profiling would measure", "W"],
        [
            "feature gate StorageVersionMigrator=true has no effect: this version does not have the controller",
            "storage-version-migrator-controller",
        ],
        ["though it is switched on", "storage-version-migrator-controller"],
    ] {
        logs(&manager, &parts).await;
    }
}

#[tokio::test]
async fn strict_flags_end_the_start_and_disabled_metrics_are_not_shown() {
    let output = steersman(&["controller-manager", "--strict-flags", "--contention-profiling"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "Error: --strict-flags: Flags without effect in this version: \
         --contention-profiling would measure where threads wait for locks\n"
    );
    let cluster = Cluster::start().await;
    let flags = ["--controllers=job", "--disabled-metrics=kubernetes_build_info,workqueue_depth"];
    let manager = Manager::start(&cluster.kubeconfig(), &flags);
    ready(&manager).await;
    let (_, metrics) = manager.get("/metrics").await.unwrap();
    assert!(metrics.contains("process_resident_memory_bytes"), "{metrics}");
    assert!(!metrics.contains("kubernetes_build_info") && !metrics.contains("workqueue_depth"), "{metrics}");
}

/// An API server that has nothing but this version. Returns its address.
async fn server_of_minor(minor: u32, tasks: &mut tokio::task::JoinSet<()>) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let (status, body) = if request[..read].starts_with(b"GET /version ") {
                ("200 OK", json!({"major": "1", "minor": format!("{minor}+")}).to_string())
            } else {
                ("404 Not Found", "{}".to_owned())
            };
            let head = "content-type: application/json\r\nconnection: close";
            let answer =
                format!("HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            // The client may have gone.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_api_servers_version_is_read_at_the_start_and_one_that_is_not_served_is_warned_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    for (minor, served) in [(36, true), (37, true), (35, false), (38, false)] {
        let mut tasks = tokio::task::JoinSet::new();
        let server = server_of_minor(minor, &mut tasks).await;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "users": [{"name": "a", "user": {}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let mut manager = Manager::start(&kubeconfig, &["--controllers=deployment"]);
        let field = format!("minor={minor}");
        if served {
            logs(&manager, &["Read the API server's minor version", &field]).await;
        } else {
            logs(&manager, &["The API server is of a version that this program is not made for", &field])
                .await;
        }
        manager.stop().await;
        let warnings = manager.log().matches("not made for").count();
        assert_eq!(warnings, usize::from(!served), "{}", manager.log());
    }
}
