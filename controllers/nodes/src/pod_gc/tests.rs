//! Tests of the plan: pods and nodes in, steps out.

use serde_json::json;
use steersman_api::{ObjectKey, Uid};

use super::collection::Reason;
use super::*;
use steersman_controller::plan::{Batch, OnFailure, Pace};
use steersman_testing::{Pod, pod};

const NOW: &str = "2026-01-02T00:00:00Z";

fn now() -> Time {
    serde_json::from_value(json!(NOW)).unwrap()
}

/// A running pod on `n1`, created in the first hour, whose uid is its name.
fn running(name: &str) -> Pod {
    pod(name).namespace("ns").uid(name).created_at("2026-01-01T00:00:00Z").on("n1").phase("Running")
}

/// A pod that [`running`] makes, on `node`, deleted with a grace period of 30 seconds.
fn terminating(name: &str, node: &str) -> Pod {
    running(name).on(node).terminating(NOW, 30)
}

/// The pods as the cache shows them.
fn views(pods: Vec<Pod>) -> Vec<View<CollectedPod>> {
    pods.into_iter().map(|pod| View::from_json(&pod.build())).collect()
}

fn node(ready: &str, taint: &str) -> Option<View<CollectedNode>> {
    Some(View::from_json(&json!({
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": ready}]},
    })))
}

/// An observation of `pods` and of one healthy node, `n1`.
fn observed(pods: Vec<Pod>) -> Observed {
    let nodes = [("n1".into(), node("True", "x"))].into();
    Observed { pods: views(pods), nodes, ..Observed::default() }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, now()) {
        Plan::Done { requeue_after: None } => Vec::new(),
        Plan::Act(Batch { steps, pace: Pace::Together(_), on_failure: OnFailure::PlanAgain }) => steps,
        other => panic!("{other:?}"),
    }
}

/// The names of the pods that the plan collects, each with the reason.
fn collected(observed: &Observed) -> Vec<(String, Reason)> {
    let all = steps(observed).into_iter().map(|step| match step {
        Step::Collect(pod) => (pod.key.name.to_string(), pod.reason),
        other => panic!("{other:?}"),
    });
    all.collect()
}

fn names(collected: &[(String, Reason)]) -> Vec<&str> {
    collected.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn terminated_pods_beyond_the_threshold_go_evicted_ones_first_then_the_oldest_then_by_name() {
    let ended = |name, hour: u8, reason: &str| {
        let created = format!("2026-01-01T{hour:02}:00:00Z");
        running(name).created_at(&created).phase("Failed").with(json!({"status": {"reason": reason}}))
    };
    let pods = vec![
        ended("new", 9, ""),
        ended("old-b", 1, ""),
        ended("old-a", 1, "NodeLost"),
        ended("evicted", 9, "Evicted"),
        running("succeeded").phase("Succeeded"),
        running("running"),
        running("pending").phase("Pending"),
        running("unknown").phase("Unknown"),
    ];
    let order = ["evicted", "succeeded", "old-a", "old-b", "new"];
    for threshold in 0..=6_usize {
        let observed = Observed { terminated_threshold: Some(threshold), ..observed(pods.clone()) };
        let found = collected(&observed);
        assert_eq!(names(&found), order[..5_usize.saturating_sub(threshold)], "{threshold}");
        assert!(found.iter().all(|(_, reason)| *reason == Reason::Terminated));
    }
    assert!(collected(&observed(pods)).is_empty(), "without a threshold");
}

#[test]
fn terminating_pods_go_from_nodes_that_are_not_ready_and_out_of_service() {
    let out = "node.kubernetes.io/out-of-service";
    for (node, expected) in [
        (node("False", out), &["ending"][..]),
        (node("Unknown", out), &["ending"]),
        (node("True", out), &[]),
        (node("False", "node.kubernetes.io/unreachable"), &[]),
        (Some(View::from_json(&json!({"spec": {"taints": [{"key": out}]}}))), &["ending"]),
        (None, &[]),
    ] {
        let pods =
            vec![terminating("ending", "down"), running("running").on("down"), terminating("else", "n1")];
        let mut observed = observed(pods);
        observed.nodes.insert("down".into(), node.clone());
        assert_eq!(names(&collected(&observed)), expected, "{node:?}");
    }
}

#[test]
fn terminating_pods_that_were_never_scheduled_go() {
    let pods = vec![terminating("ending", ""), running("waiting").on(""), terminating("else", "n1")];
    assert_eq!(collected(&observed(pods)), [("ending".to_owned(), Reason::Unscheduled)]);
}

#[test]
fn pods_of_an_unknown_node_are_deleted_after_quarantine_if_the_api_server_does_not_have_it() {
    let pods = || vec![running("orphan").on("lost"), running("waiting").on(""), running("fine")];
    assert_eq!(steps(&observed(pods())), [Step::Quarantine("lost".into())]);

    let mut due = Observed { out_of_quarantine: ["lost".into(), "n1".into()].into(), ..observed(pods()) };
    let [quarantine, read] = &steps(&due)[..] else { panic!() };
    assert_eq!((quarantine, read), (&Step::Quarantine("lost".into()), &Step::ReadNode("lost".into())));
    due.absorb(quarantine.clone(), &StepResult::Done(Outcome::Quarantined));

    let refused = SyncError::Failed("reading node lost".to_owned());
    for (answer, expected) in [
        (StepResult::Done(Outcome::NodeIsGone), &["orphan"][..]),
        (StepResult::Done(Outcome::NodeExists), &[]),
        (StepResult::Failed(refused), &[]),
    ] {
        let mut observed = due.clone();
        observed.absorb(read.clone(), &answer);
        let found = collected(&observed);
        assert_eq!(names(&found), expected, "{answer:?}");
        assert!(found.iter().all(|(_, reason)| *reason == Reason::Orphaned));
    }
}

fn only(observed: &Observed) -> Collection {
    match &steps(observed)[..] {
        [Step::Collect(pod)] => pod.clone(),
        other => panic!("{other:?}"),
    }
}

/// An observation of `pod`, whose node `lost` is gone.
fn orphaned(pod: Pod) -> Observed {
    let mut observed = Observed { probed: true, ..observed(vec![pod]) };
    observed.absorb(Step::ReadNode("lost".into()), &StepResult::Done(Outcome::NodeIsGone));
    observed
}

#[test]
fn an_orphan_gets_the_phase_failed_and_a_disruption_condition() {
    let plain = running("a").on("lost").with(json!({"metadata": {"generation": 3}}));
    let condition = |since: &str| {
        json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "observedGeneration": 3,
            "lastProbeTime": null, "lastTransitionTime": since,
        }])
    };
    let collection = only(&orphaned(plain.clone()));
    assert_eq!((&collection.key, &collection.uid), (&ObjectKey::new("ns", "a"), &Uid::from("a")));
    assert_eq!(
        collection.failure,
        Some(json!({
            "metadata": {"uid": "a"},
            "status": {"phase": "Failed", "observedGeneration": 3, "conditions": condition(NOW)},
        }))
    );
    // A condition that was `True` before keeps its transition time.
    for (status, since) in [("True", "2026-01-01T05:00:00Z"), ("False", NOW)] {
        let disrupted = plain.clone().with(json!({"status": {"conditions": [
            {"type": "DisruptionTarget", "status": status, "lastTransitionTime": "2026-01-01T05:00:00Z"},
        ]}}));
        let failure = only(&orphaned(disrupted)).failure.unwrap();
        assert_eq!(failure["status"]["conditions"], condition(since));
    }
}

#[test]
fn only_orphans_get_a_condition_and_ended_pods_keep_their_phase() {
    let unscheduled = only(&observed(vec![terminating("a", "")]));
    assert_eq!(unscheduled.failure, Some(json!({"metadata": {"uid": "a"}, "status": {"phase": "Failed"}})));
    for ended in ["Succeeded", "Failed"] {
        assert_eq!(only(&orphaned(running("a").on("lost").phase(ended))).failure, None);
    }
}

#[test]
fn a_pod_that_only_a_finalizer_keeps_is_not_deleted_again() {
    let held = running("a").on("").terminating(NOW, 0);
    assert_eq!(names(&collected(&observed(vec![held.clone()]))), ["a"], "the pod must fail first");
    let held = Observed { terminated_threshold: Some(0), ..observed(vec![held.phase("Failed")]) };
    assert!(collected(&held).is_empty());
}

#[test]
fn a_pod_is_tried_once_for_its_first_reason_even_if_that_fails() {
    let failed = terminating("a", "").phase("Failed");
    let mut observed = Observed { terminated_threshold: Some(0), ..observed(vec![failed]) };
    assert_eq!(collected(&observed), [("a".to_owned(), Reason::Terminated)]);
    let step = steps(&observed).remove(0);
    observed.absorb(step, &StepResult::Failed(SyncError::Failed("deleting".to_owned())));
    assert!(collected(&observed).is_empty());
}

#[test]
fn many_pods_are_collected_over_several_syncs_and_each_is_tried_once_a_round() {
    let pods = || (0..1200).map(|at| running(&format!("p{at:04}")).phase("Failed")).collect::<Vec<_>>();
    let mut round = Round::default();
    let mut tried = Vec::new();
    // All deletions fail, so the cache shows all pods throughout.
    for portion in [500, 500, 200] {
        let (next, gone) = round.resume(&views(pods()));
        assert!(gone.is_empty());
        let mut observed = Observed { terminated_threshold: Some(0), round: next, ..observed(pods()) };
        let steps = steps(&observed);
        assert_eq!(steps.len(), portion);
        for step in steps {
            let Step::Collect(pod) = &step else { panic!("{step:?}") };
            tried.push(pod.key.name.to_string());
            observed.absorb(step, &StepResult::Failed(SyncError::Failed("deleting".to_owned())));
        }
        let requeue_after = (portion == 500).then_some(Duration::from_secs(1));
        assert_eq!(plan(&observed, now()), Plan::Done { requeue_after });
        assert_eq!(observed.round.is_unfinished(), portion == 500);
        round = observed.round;
    }
    assert!(tried.is_sorted() && tried.len() == 1200, "{tried:?}");
}

#[test]
fn a_round_forgets_the_pods_that_are_gone() {
    let all = |pods| Observed { terminated_threshold: Some(0), ..observed(pods) };
    let failed = |name| running(name).phase("Failed");
    let mut first = all(vec![failed("stuck"), failed("goes")]);
    for step in steps(&first) {
        first.absorb(step, &StepResult::Done(Outcome::Collected));
    }
    let (round, _) = first.round.resume(&views(vec![failed("stuck")]));
    let next = Observed { round, ..all(vec![failed("stuck"), failed("goes")]) };
    assert_eq!(names(&collected(&next)), ["goes"]);
}

#[test]
fn the_next_sync_of_a_round_reads_missing_nodes_again() {
    let mut observed = orphaned(running("orphan").on("lost"));
    assert_eq!(names(&collected(&observed)), ["orphan"]);
    let (round, gone) = std::mem::take(&mut observed.round).resume(&observed.pods);
    let mut next = Observed { probed: false, out_of_quarantine: gone, round, ..observed };
    let read = Step::ReadNode("lost".into());
    assert_eq!(steps(&next), [Step::Quarantine("lost".into()), read.clone()]);
    // A node of that name exists again.
    next.absorb(read, &StepResult::Done(Outcome::NodeExists));
    assert!(collected(&next).is_empty());
}

#[test]
fn the_metrics_are_upstreams() {
    let registry = prometheus::Registry::new();
    let metrics = Metrics::new();
    metrics.register(&registry).unwrap();
    metrics.deleted("ns", Reason::OutOfService, true);
    metrics.deleted("ns", Reason::Orphaned, false);
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let family = |name: &str, help: &str| format!("# HELP {name} [ALPHA] {help}\n# TYPE {name} counter\n");
    let sample = |name: &str, reason: &str| format!("{name}{{namespace=\"ns\",reason=\"{reason}\"}} 1\n");
    let (errors, all) =
        ("pod_gc_collector_force_delete_pod_errors_total", "pod_gc_collector_force_delete_pods_total");
    assert_eq!(
        text,
        family(
            errors,
            "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started."
        ) + &sample(errors, "orphaned")
            + &family(
                all,
                "Number of pods that are being forcefully deleted since the Pod GC Controller started."
            )
            + &sample(all, "orphaned")
            + &sample(all, "out-of-service")
    );
}
