//! Workloads that are rolled out, undone and scaled.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{OTHER_IMAGE, Stage, workload};
use support::eventually;
use support::manager::Manager;

const SLEEP: &str = "exec sleep 1000";

/// The numbers of the revisions in a history that kubectl prints.
fn revisions(history: &str) -> Vec<&str> {
    let rows = history.lines().filter_map(|line| line.split_whitespace().next());
    rows.filter(|first| first.parse::<u32>().is_ok()).collect()
}

#[tokio::test]
async fn a_deployment_is_rolled_out_and_undone() {
    let Some(stage) = Stage::enter("deployment").await else { return };
    let kubectl = &stage.kubectl;
    kubectl.apply(&workload("Deployment", "web", json!({ "replicas": 3 }), SLEEP)).await;
    kubectl.run("rollout status deployment/web").await;
    let first = stage.ready_pods().await;
    kubectl.run("set env deployment/web GREETING=two").await;
    kubectl.run("rollout status deployment/web").await;
    assert_eq!(stage.variable("GREETING").await, "two");
    let second = stage.ready_pods().await;
    assert_eq!(second.len(), 3);
    assert!(first.iter().all(|pod| !second.contains(pod)), "{first:?} {second:?}");

    // A quarter of three pods is less than one: no pod goes before another one is ready.
    kubectl.run("set image deployment/web main=docker.io/library/no-such:1").await;
    eventually("the new pod has no image", || async {
        let said = kubectl.run("get pods -o jsonpath={..waiting.reason}").await;
        said.contains("ErrImageNeverPull").then_some(())
    })
    .await;
    assert_eq!(stage.ready_pods().await, second);
    kubectl.run("rollout undo deployment/web").await;
    kubectl.run("rollout status deployment/web").await;
    assert_eq!(stage.ready_pods().await, second, "no pod of the second revision was replaced");

    kubectl.run("rollout undo deployment/web --to-revision=1").await;
    kubectl.run("rollout status deployment/web").await;
    assert_eq!(stage.variable("GREETING").await, "");
    let history = kubectl.run("rollout history deployment/web").await;
    assert_eq!(revisions(&history), ["3", "4", "5"], "{history}");
    stage.leave().await;
}

#[tokio::test]
async fn a_daemon_set_is_updated_and_undone() {
    let Some(stage) = Stage::enter("daemonset").await else { return };
    let kubectl = &stage.kubectl;
    kubectl.apply(&workload("DaemonSet", "agent", json!({}), SLEEP)).await;
    kubectl.run("rollout status daemonset/agent").await;
    let first = stage.ready_pods().await;
    kubectl.run("set env daemonset/agent GREETING=two").await;
    kubectl.run(&format!("set image daemonset/agent main={OTHER_IMAGE}")).await;
    kubectl.run("rollout status daemonset/agent").await;
    assert_eq!(stage.variable("GREETING").await, "two");
    let second = stage.ready_pods().await;
    assert_eq!(second.len(), 1);
    assert_ne!(second, first);
    assert_eq!(kubectl.get(&format!("pod/{}", second[0].0)).await["spec"]["nodeName"], stage.node.as_str());
    let history = kubectl.run("rollout history daemonset/agent").await;
    assert_eq!(revisions(&history), ["1", "2", "3"], "{history}");

    kubectl.run("rollout undo daemonset/agent --to-revision=1").await;
    kubectl.run("rollout status daemonset/agent").await;
    assert_eq!(stage.variable("GREETING").await, "");
    let history = kubectl.run("rollout history daemonset/agent").await;
    assert_eq!(revisions(&history), ["2", "3", "4"], "{history}");
    stage.leave().await;
}

/// Creates volumes in folders of this machine, of a class that claims can name.
async fn create_volumes(stage: &Stage, folder: &Path, count: usize) {
    for at in 0..count {
        let name = format!("{}-{at}", stage.namespace);
        let path = folder.join(&name);
        stage
            .kubectl
            .apply(&json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
                "spec": {
                    "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                    "storageClassName": stage.namespace, "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": { "path": path, "type": "DirectoryOrCreate" },
                },
            }))
            .await;
    }
}

/// The volume of each claim, and the names that pods have written into it.
async fn volumes(stage: &Stage, folder: &Path) -> BTreeMap<String, (String, Vec<String>)> {
    let claims = stage.kubectl.get("persistentvolumeclaims").await;
    let of = |claim: &Value| {
        assert_eq!(claim["status"]["phase"], "Bound", "{claim}");
        let volume = claim["spec"]["volumeName"].as_str().unwrap().to_owned();
        let started = std::fs::read_to_string(folder.join(&volume).join("started")).unwrap_or_default();
        let started = started.lines().map(str::to_owned).collect();
        (claim["metadata"]["name"].as_str().unwrap().to_owned(), (volume, started))
    };
    claims["items"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn a_stateful_set_with_claims_is_scaled() {
    let Some(stage) = Stage::enter("statefulset").await else { return };
    let kubectl = &stage.kubectl;
    let binder = ["--controllers=persistentvolume-binder-controller"];
    let _binder = Manager::start_upstream(&stage.assets, &stage.kubeconfig, &binder);
    let folder = tempfile::tempdir().unwrap();
    create_volumes(&stage, folder.path(), 3).await;
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": stage.namespace,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let spec = json!({ "replicas": 2, "serviceName": "db", "volumeClaimTemplates": [claim] });
    let command = "echo $HOSTNAME >> /data/started; exec sleep 1000";
    let mut db = workload("StatefulSet", "db", spec, command);
    db["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }]);
    kubectl.apply(&db).await;
    kubectl.run("rollout status statefulset/db").await;
    let first = volumes(&stage, folder.path()).await;
    let started = |number: u32, times: usize| vec![format!("db-{number}"); times];
    assert_eq!((&first["data-db-0"].1, &first["data-db-1"].1), (&started(0, 1), &started(1, 1)));
    let ready = "-o jsonpath={.status.conditions[?(@.type==\"Ready\")].lastTransitionTime}";
    let since = kubectl.run(&format!("get pod/db-0 {ready}")).await;
    let created = kubectl.run("get pod/db-1 -o jsonpath={.metadata.creationTimestamp}").await;
    assert!(since <= created, "db-0 was ready at {since}, and db-1 created at {created}");

    kubectl.run("scale statefulset/db --replicas=3").await;
    kubectl.run("rollout status statefulset/db").await;
    let second = volumes(&stage, folder.path()).await;
    assert_eq!((second.len(), &second["data-db-2"].1), (3, &started(2, 1)));
    kubectl.run("scale statefulset/db --replicas=1").await;
    kubectl.run("wait --for=delete pod/db-2 pod/db-1").await;
    assert_eq!(volumes(&stage, folder.path()).await, second, "claims and their data stay");

    kubectl.run("scale statefulset/db --replicas=3").await;
    kubectl.run("rollout status statefulset/db").await;
    let third = volumes(&stage, folder.path()).await;
    for (number, times) in [(0, 1), (1, 2), (2, 2)] {
        let claim = format!("data-db-{number}");
        assert_eq!(third[&claim], (second[&claim].0.clone(), started(number, times)), "{claim}");
    }
    stage.leave().await;
}
