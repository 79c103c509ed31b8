//! What a pod failure policy does about failed pods.

use serde_json::{Value, json};
use steersman_informer::View;

use super::super::SyncedJob;
use super::super::failure_policy::{Explained, FailureAction, FailurePolicy};
use super::super::wanted::Replacement;
use super::*;
use steersman_kinds::job::JobSpec;

fn policy(rules: &Value) -> FailurePolicy {
    let job = View::<SyncedJob>::from_json(&json!({
        "metadata": {"name": "pi"}, "spec": {"podFailurePolicy": {"rules": rules}},
    }));
    FailurePolicy::of(job.get::<JobSpec>().pod_failure_policy.as_ref().unwrap())
}

fn codes(action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": values}})
}

fn disrupted(action: &str) -> Value {
    json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
}

#[test]
fn the_first_rule_that_matches_decides() {
    use FailureAction::{Count, FailIndex, FailJob, Ignore};
    let of_main = json!({"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}});
    let unknown = ConditionStatus::Unknown;
    for (name, rules, pod, expected) in [
        ("no rules", json!([]), pod("a").exit_code("main", 3), None),
        (
            "a code that is listed",
            json!([codes("FailJob", "In", &[2, 3])]),
            pod("a").exit_code("c", 3),
            Some(FailJob),
        ),
        (
            "a code that is not listed",
            json!([codes("FailJob", "In", &[2, 3])]),
            pod("a").exit_code("c", 4),
            None,
        ),
        (
            "all codes but those listed",
            json!([codes("Ignore", "NotIn", &[2])]),
            pod("a").exit_code("c", 3),
            Some(Ignore),
        ),
        (
            "a code that is excepted",
            json!([codes("Ignore", "NotIn", &[2])]),
            pod("a").exit_code("c", 2),
            None,
        ),
        ("no container failed", json!([codes("Ignore", "NotIn", &[2])]), pod("a").failed(), None),
        (
            "an operator that is newer",
            json!([codes("Ignore", "Near", &[3])]),
            pod("a").exit_code("c", 3),
            None,
        ),
        ("another container", json!([of_main.clone()]), pod("a").exit_code("side", 3), None),
        (
            "any container that matches",
            json!([of_main]),
            pod("a").exit_code("side", 3).exit_code("main", 3),
            Some(FailJob),
        ),
        (
            "a condition",
            json!([disrupted("Ignore")]),
            pod("a").condition("DisruptionTarget", ConditionStatus::True),
            Some(Ignore),
        ),
        (
            "its other status",
            json!([disrupted("Ignore")]),
            pod("a").condition("DisruptionTarget", unknown),
            None,
        ),
        (
            "another condition",
            json!([disrupted("Ignore")]),
            pod("a").condition("Ready", ConditionStatus::True),
            None,
        ),
        (
            "the first of two rules",
            json!([codes("FailIndex", "In", &[3]), codes("Count", "In", &[3])]),
            pod("a").exit_code("c", 3),
            Some(FailIndex),
        ),
        (
            "the second of two rules",
            json!([codes("FailIndex", "In", &[3]), codes("Count", "NotIn", &[3])]),
            pod("a").exit_code("c", 4),
            Some(Count),
        ),
        (
            "an action that is newer",
            json!([codes("Explode", "In", &[3]), disrupted("Count")]),
            pod("a").exit_code("c", 3).condition("DisruptionTarget", ConditionStatus::True),
            Some(Count),
        ),
    ] {
        let policy = policy(&rules);
        let action = policy.matching(&pod.failure).map(|matched| matched.action);
        assert_eq!(action, expected, "{name}");
    }
}

#[test]
fn a_match_is_explained_in_upstreams_words() {
    let rules = json!([codes("FailJob", "In", &[3]), disrupted("FailJob")]);
    for (pod, expected) in [
        (
            pod("a").exit_code("main", 3),
            "Container main for pod ns/a failed with exit code 3 matching FailJob rule at index 0",
        ),
        (
            pod("a").condition("DisruptionTarget", ConditionStatus::True),
            "Pod ns/a has condition DisruptionTarget matching FailJob rule at index 1",
        ),
    ] {
        let policy = policy(&rules);
        let matched = policy.matching(&pod.failure).unwrap();
        let explained = Explained { matched: &matched, namespace: "ns", pod: &pod.name };
        assert_eq!(explained.to_string(), expected);
    }
}

/// A job of two pods with this policy.
fn with_policy(rules: &Value) -> Observed {
    job().parallel(2).completions(Completions::Count(9)).wanting(|wanted| {
        wanted.failure_policy = Some(policy(rules));
        wanted.replacement = Replacement::Failed;
    })
}

/// The actions that the metrics count for the first status that the plan writes.
fn handled(observed: &Observed) -> Vec<FailureAction> {
    let Plan::Act(batch) = plan(observed, now()) else { return Vec::new() };
    match &batch.steps[0] {
        Step::WriteStatus(write) => write.handled.clone(),
        _ => Vec::new(),
    }
}

#[test]
fn a_pod_that_the_policy_ignores_does_not_count_and_is_replaced_after_its_back_off() {
    let rules = json!([disrupted("Ignore")]);
    let ignored = |at| pod("a").failed().condition("DisruptionTarget", ConditionStatus::True).finished_at(at);
    let observed = |at| {
        let no_failure = |wanted: &mut Wanted| wanted.backoff_limit = 0;
        with_policy(&rules).wanting(no_failure).with([ignored(at), pod("b")])
    };
    assert_eq!(told(observed(second(995))), ["write active=1", "release a(ignored)", "again after 5s"]);
    assert_eq!(told(observed(second(900))), ["create 1", "write active=2", "release a(ignored)"]);
    // Also if nothing in the status changes.
    let full = observed(second(900)).parallel(1).settled();
    assert_eq!(told(full), ["release a(ignored)"]);
}

#[test]
fn a_pod_that_the_policy_counts_counts_as_any_other() {
    let observed = with_policy(&json!([codes("Count", "In", &[3])]))
        .with([pod("a").exit_code("c", 3), pod("b").exit_code("c", 4), pod("c"), pod("d")])
        .settled();
    assert_eq!(handled(&observed), [FailureAction::Count]);
    assert_eq!(told(observed), ["write failed:[a b]", "release a b", "again after 1s"]);
}

#[test]
fn a_pod_by_whose_exit_code_the_job_fails_takes_the_others_with_it() {
    let rules = json!([codes("FailJob", "In", &[3]), disrupted("Ignore")]);
    let observed = with_policy(&rules)
        .with([
            pod("a").exit_code("main", 3),
            pod("b"),
            pod("c").condition("DisruptionTarget", ConditionStatus::True),
        ])
        .settled();
    let lines = told(observed.clone());
    assert_eq!(
        lines[..3],
        [
            "delete b c",
            // Pod c would have been ignored, had it failed by itself.
            "write -active FailureTarget=True(PodFailurePolicy) terminating=2 failed:[a b]",
            "release a b c(ignored)",
        ]
    );
    let mut deleted = observed;
    for name in ["b", "c"] {
        deleted.absorb(Step::Delete(pod(name).reference()), StepResult::Done(Outcome::Done));
    }
    assert_eq!(handled(&deleted), [FailureAction::FailJob]);
    // A pod that was counted before lets the job fail as well.
    let late = with_policy(&rules).with([pod("a").exit_code("main", 3).untracked()]);
    assert!(told(late)[0].contains("FailureTarget=True(PodFailurePolicy)"));
}

/// Somebody has deleted the pod by which the job fails, so it is gone as soon as it has no finalizer.
#[test]
fn the_pod_by_which_a_job_fails_keeps_its_finalizer_until_the_status_says_so() {
    let fatal = || pod("a").exit_code("main", 3).deleting();
    let rules = json!([codes("FailJob", "In", &[3])]);
    let running = |count| (0..count).map(|at| pod(&format!("p{at:03}")));
    let large = with_policy(&rules).parallel(600).with(running(600)).with([fatal()]).settled();
    let lines = told(large);
    assert_eq!(lines[0], "delete 600 of them");
    assert!(lines[1].contains("FailureTarget=True(PodFailurePolicy)"), "{lines:?}");

    let mut observed = with_policy(&rules).parallel(2).with(running(2)).with([fatal()]).settled();
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    assert_eq!(describe(&batch.steps), "delete p000 p001");
    for (at, step) in batch.steps.into_iter().enumerate() {
        let error = steersman_controller::controller::SyncError::Failed("no".to_owned());
        let result = if at == 0 { StepResult::Failed(error) } else { StepResult::Done(Outcome::Done) };
        observed.absorb(step, result);
    }
    assert_eq!(story(&mut observed), ["write active=1 terminating=1"], "a pod could not be deleted");
    let next = Observed { done: Done::default(), rest: None, ..observed };
    assert_eq!(
        told(next)[..2],
        [
            "delete p000",
            "write -active FailureTarget=True(PodFailurePolicy) terminating=2 failed:[p000 p001 a]",
        ]
    );
}
