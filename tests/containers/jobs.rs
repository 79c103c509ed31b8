//! Jobs that run to their ends, each by another policy.

use serde_json::{Value, json};

use super::{Stage, template};
use support::eventually;

/// A Job whose containers run a shell command.
fn job(name: &str, spec: Value, command: &str) -> Value {
    let mut job =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
    job["spec"]["template"] = template(name, command);
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    job
}

/// Waits until the Job has a condition, and gives the condition's reason and the status.
async fn ended(stage: &Stage, name: &str, condition: &str) -> (String, Value) {
    stage.kubectl.run(&format!("wait --for=condition={condition} job/{name} --timeout=55s")).await;
    let mut job = stage.kubectl.get(&format!("job/{name}")).await;
    let status = job["status"].take();
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let found = conditions.find(|found| found["type"] == condition).unwrap();
    (found["reason"].as_str().unwrap_or_default().to_owned(), status)
}

#[tokio::test]
async fn a_job_of_four_completions_completes() {
    let Some(stage) = Stage::enter("four").await else { return };
    let spec = json!({ "completions": 4, "parallelism": 2 });
    stage.kubectl.apply(&job("four", spec, "echo done")).await;
    let (_, status) = ended(&stage, "four", "Complete").await;
    assert_eq!(status["succeeded"], 4);
    let row = stage.kubectl.run("get job four --no-headers").await;
    assert!(row.contains("Complete") && row.contains("4/4"), "{row}");
    stage.leave().await;
}

#[tokio::test]
async fn a_pod_failure_policy_fails_a_job_at_an_exit_code() {
    let Some(stage) = Stage::enter("failure").await else { return };
    let rule = |action: &str, code: u32| json!({ "action": action, "onExitCodes": { "operator": "In", "values": [code] } });
    // Index 0 fails in a way that does not count, until index 1, which starts later, ends the Job.
    let command = "[ $JOB_COMPLETION_INDEX = 0 ] && exit 3; sleep 3; exit 42";
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0,
        "podFailurePolicy": { "rules": [rule("Ignore", 3), rule("FailJob", 42)] },
    });
    stage.kubectl.apply(&job("codes", spec, command)).await;
    let (reason, status) = ended(&stage, "codes", "Failed").await;
    assert_eq!(reason, "PodFailurePolicy", "{status}");
    let conditions = status["conditions"].as_array().unwrap();
    let message = conditions.iter().find(|found| found["type"] == "Failed").unwrap()["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.ends_with("failed with exit code 42 matching FailJob rule at index 1"), "{message}");
    stage.leave().await;
}

#[tokio::test]
async fn the_indexes_of_a_job_fail_independently() {
    let Some(stage) = Stage::enter("indexes").await else { return };
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    stage.kubectl.apply(&job("indexes", spec, "exit $JOB_COMPLETION_INDEX")).await;
    let (reason, status) = ended(&stage, "indexes", "Failed").await;
    assert_eq!(reason, "FailedIndexes", "{status}");
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0"), &json!("1,2")));
    assert_eq!(
        (&status["succeeded"], &status["failed"]),
        (&json!(1), &json!(4)),
        "each failed index was tried twice"
    );
    stage.leave().await;
}

#[tokio::test]
async fn a_success_policy_ends_a_job_whose_leader_has_succeeded() {
    let Some(stage) = Stage::enter("success").await else { return };
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": { "rules": [{ "succeededIndexes": "0" }] },
    });
    let command = "[ $JOB_COMPLETION_INDEX = 0 ] || exec sleep 1000; sleep 2";
    stage.kubectl.apply(&job("leader", spec, command)).await;
    let (reason, status) = ended(&stage, "leader", "Complete").await;
    assert_eq!(reason, "SuccessPolicy", "{status}");
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0"), &json!(1)));
    eventually("the other containers have ended", || async {
        let pods = stage.all_pods().await;
        let phases = pods.iter().map(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()));
        let mut unfinished = phases.filter(|phase| !matches!(phase, Some("Succeeded" | "Failed")));
        unfinished.next().is_none().then_some(())
    })
    .await;
    stage.leave().await;
}

#[tokio::test]
async fn a_pod_that_ends_slowly_is_replaced_once_it_has_ended() {
    let Some(stage) = Stage::enter("replacement").await else { return };
    let folder = tempfile::tempdir().unwrap();
    // The first container takes three seconds to end. One that starts meanwhile sees that it is not alone.
    let command = "cd /shared; [ -e running ] && touch overlap; [ -e again ] && exit 0; touch running again; \
        trap 'sleep 3; rm running; exit 1' TERM; sleep 1000 & wait";
    let spec = json!({ "podReplacementPolicy": "Failed" });
    let mut patient = job("patient", spec, command);
    let pod = &mut patient["spec"]["template"]["spec"];
    pod["terminationGracePeriodSeconds"] = json!(30);
    pod["volumes"] = json!([{ "name": "shared", "hostPath": { "path": folder.path() } }]);
    pod["containers"][0]["volumeMounts"] = json!([{ "name": "shared", "mountPath": "/shared" }]);
    stage.kubectl.apply(&patient).await;
    let running = folder.path().join("running");
    eventually("the first container runs", || async { running.exists().then_some(()) }).await;
    let first = stage.all_pods().await.remove(0).metadata.name.unwrap();
    stage.kubectl.run(&format!("delete pod/{first} --wait=false")).await;
    let (_, status) = ended(&stage, "patient", "Complete").await;
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(1), &json!(1)));
    assert!(!running.exists() && !folder.path().join("overlap").exists(), "no two containers ran at once");
    stage.leave().await;
}
