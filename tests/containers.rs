//! A Job in real containers: a real control plane without its own controller manager, a kubelet, a container runtime.
//!
//! It runs where `KUBECONFIG` names such a cluster and `CONTAINER_RUNTIME_ENDPOINT` its runtime; elsewhere it says that
//! it does not. The node must hold the image `docker.io/library/busybox:1.36`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use support::jobs::{self, job};
use support::manager::Manager;
use support::real;

#[allow(clippy::disallowed_methods, reason = "that is how a cluster is named")]
fn cluster() -> Option<PathBuf> {
    std::env::var_os("CONTAINER_RUNTIME_ENDPOINT").filter(|endpoint| !endpoint.is_empty())?;
    std::env::var_os("KUBECONFIG").map(PathBuf::from)
}

#[tokio::test]
async fn a_job_of_four_completions_completes_in_containers() {
    let Some(kubeconfig) = cluster() else {
        println!("no cluster with containers is named: not run");
        return;
    };
    let config = steersman_client::config_from(Some(&kubeconfig), None).expect("the kubeconfig must be good");
    let client = kube::Client::try_from(config).expect("a client must be made");
    let _manager = Manager::start(&kubeconfig, &["--controllers=job,endpoints,podgc"]);
    let mut four = job("four", json!({ "completions": 4, "parallelism": 2 }));
    four.metadata.name = Some(format!("four-{}", steersman_api::Time::now().seconds()));
    let spec = four.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    spec.containers[0].image = Some("docker.io/library/busybox:1.36".to_owned());
    spec.containers[0].image_pull_policy = Some("Never".to_owned());
    spec.containers[0].command = Some(vec!["sh".to_owned(), "-c".to_owned(), "echo done".to_owned()]);
    spec.automount_service_account_token = Some(false);
    // A node keeps its first taint until a node lifecycle controller takes it off, and here is none.
    spec.tolerations = serde_json::from_value(json!([{ "operator": "Exists" }])).expect("it is a toleration");
    let name = four.metadata.name.clone().unwrap();
    jobs::create(&client, &four).await;
    let completed =
        tokio::time::timeout(Duration::from_secs(120), jobs::wait_for(&client, &name, "Complete"));
    let completed = completed.await.expect("two minutes are enough");
    assert_eq!(completed.status.unwrap().succeeded, Some(4));

    if let Some(assets) = real::assets() {
        let kubectl = Command::new(assets.join("kubectl"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(["get", "job", &name, "--no-headers"])
            .output()
            .expect("kubectl must start");
        let line = String::from_utf8_lossy(&kubectl.stdout).into_owned();
        assert!(line.contains("Complete") && line.contains("4/4"), "{line}");
    }
}
