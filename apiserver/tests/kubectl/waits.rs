//! Commands that wait and watch.

use serde_json::json;

use crate::kubectl::Kubectl;

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_is_waited_for() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.good("create job sum --image=busybox");
    let timed_out = kubectl.bad("wait job/sum --for=condition=Complete --timeout=100ms");
    assert_eq!(timed_out, "error: timed out waiting for the condition on jobs/sum");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| kubectl.good("wait job/sum --for=condition=Complete --timeout=30s"));
        let when = "2026-01-02T03:04:05Z";
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": when});
        let status = json!({
            "startTime": when,
            "completionTime": when,
            "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        });
        kubectl.set_status("job sum", &status);
        assert_eq!(tokio::task::block_in_place(|| waiting.join().unwrap()), "job.batch/sum condition met");
    });
    assert_eq!(kubectl.table("get job")[1][..3], ["sum", "Complete", "1/1"]);
    kubectl.good("wait --for=jsonpath={.status.succeeded}=1 job/sum --timeout=30s");
    kubectl.good("delete job sum --wait=false --cascade=background");
    kubectl.good("wait --for=delete job/sum --timeout=30s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_rows_under_the_heads_that_it_began_with() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.good("create configmap one");
    let shown = kubectl.run("get configmap -w --request-timeout=3s").out;
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words[..5], ["NAME", "DATA", "AGE", "one", "0"], "{shown}");
    assert_eq!(words.iter().filter(|word| **word == "NAME").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_told_by_its_replica_sets() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.good("create deployment web --image=nginx:2 --replicas=2");
    kubectl.good("annotate deploy web deployment.kubernetes.io/revision=2");
    let uid = kubectl.good("get deploy web -o jsonpath={.metadata.uid}");
    for revision in ["1", "2"] {
        let labels = json!({"app": "web", "pod-template-hash": revision});
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": format!("nginx:{revision}")}]},
        });
        kubectl.create(&json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{revision}"),
                "namespace": "default",
                "labels": labels,
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": true,
                }],
            },
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }));
    }
    let history = kubectl.table("rollout history deploy/web");
    assert_eq!(history[2..], [["1", "<none>"], ["2", "<none>"]]);
    assert!(kubectl.good("rollout history deploy/web --revision=1").contains("nginx:1"));
    assert!(kubectl.bad("rollout status deploy/web --timeout=100ms").contains("timed out"));
    let done = json!({
        "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
    });
    kubectl.set_status("deploy web", &done);
    assert_eq!(
        kubectl.good("rollout status deploy/web --timeout=30s"),
        "deployment \"web\" successfully rolled out"
    );
    assert_eq!(kubectl.table("get deploy")[1], ["web", "2/2", "2", "2", "AGE"]);
    kubectl.good("rollout undo deploy/web --to-revision=1");
    assert_eq!(kubectl.good("get deploy web -o jsonpath={..image}"), "nginx:1");
    kubectl.good("rollout restart deploy/web");
    kubectl.good("rollout pause deploy/web");
}
