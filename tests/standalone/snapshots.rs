//! A cluster that goes on from a file.

use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::{Standalone, client, command, eventually};

async fn snapshot(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steersman"));
    command.args(["standalone", "snapshot"]).args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn done(args: &[&str]) -> String {
    let output = snapshot(args).await;
    let (told, complaint) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{told}{complaint}");
    told
}

async fn refused(args: &[&str]) -> String {
    let output = snapshot(args).await;
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

async fn ready(data: &Path) -> Deployment {
    let deployments: Api<Deployment> = Api::namespaced(client(data).await, "default");
    eventually("the Deployment is ready", || async {
        let found = deployments.get_opt("web").await.unwrap()?;
        let ready = found.status.as_ref().and_then(|status| status.ready_replicas);
        (ready == Some(2)).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_cluster_goes_on_from_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str| folder.path().join(name).display().to_string();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let (file, kubeconfig, target) = (text("backup"), text("old/kubeconfig"), text("new"));
    let save = ["save", &file, "--kubeconfig", &kubeconfig];
    let restore = ["restore", &file, "--data-dir", &target];
    let why = refused(&save).await;
    assert!(
        why.contains("old/kubeconfig") && why.contains("name an existing file with --kubeconfig"),
        "{why}"
    );

    let mut running = Standalone::start(&old).await;
    let deployments: Api<Deployment> = Api::namespaced(client(&old).await, "default");
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "busybox:1.36"}]},
            },
        },
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    let before = ready(&old).await;
    let told = done(&save).await;
    assert!(told.starts_with("Saved ") && told.ends_with(&format!(" to {file}\n")), "{told}");
    assert!(running.stop().await.success());
    let why = refused(&save).await;
    assert!(why.contains("asking the API server for a snapshot") && why.contains("must run"), "{why}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");

    let told = done(&restore).await;
    assert!(told.contains(&format!("steersman standalone --data-dir={target} starts with them")), "{told}");
    let why = refused(&restore).await;
    assert!(why.contains("restore into an empty folder"), "{why}");
    let mut running = Standalone::start_as(command(&new)).await;
    let after = ready(&new).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert!(running.stop().await.success());

    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let other = text("other");
    let why = refused(&["restore", &file, "--data-dir", &other]).await;
    assert!(why.contains("the file ends too soon"), "{why}");
    assert!(!Path::new(&other).exists(), "nothing is made of it");
}
