//! What a job's spec asks for, and jobs that the controller leaves alone.

use serde_json::json;
use steersman_informer::View;

use super::super::SyncedJob;
use super::super::wanted::{PerIndex, Refusal, Replacement};
use super::*;
use steersman_kinds::job::JobSpec;

fn wanted(spec: serde_json::Value) -> Result<Wanted, Refusal> {
    let job = View::<SyncedJob>::from_json(&json!({"metadata": {"name": "pi"}, "spec": spec}));
    Wanted::of(job.get::<JobSpec>())
}

#[test]
fn a_job_of_an_unknown_completion_mode_is_left_alone_and_an_event_says_so() {
    assert_eq!(wanted(json!({"completionMode": "Newer"})), Err(Refusal::UnknownCompletionMode));
    let refused = Observed { refusal: Some(Refusal::UnknownCompletionMode), ..job() };
    assert_eq!(
        told(refused.with([pod("a").failed()])),
        ["refuse UnknownCompletionMode: Skipped Job sync because completion mode is unknown"]
    );
}

#[test]
fn a_spec_is_read_with_the_api_servers_defaults() {
    let plain = Wanted { parallelism: 1, backoff_limit: 6, ..Wanted::default() };
    let per_index = |max_failed| Some(PerIndex { backoff_limit: 2, max_failed });
    for (spec, expected) in [
        (json!({"podReplacementPolicy": "TerminatingOrFailed"}), plain.clone()),
        (
            json!({"completions": 3, "parallelism": 0, "completionMode": "Indexed", "suspend": true}),
            Wanted { parallelism: 0, completions: Completions::Indexes(3), suspended: true, ..plain.clone() },
        ),
        (
            json!({
                "completions": 3, "backoffLimit": 0, "activeDeadlineSeconds": 5,
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            }),
            Wanted {
                completions: Completions::Count(3),
                backoff_limit: 0,
                restarts: Restarts::OnFailure,
                active_deadline: Some(Duration::from_secs(5)),
                ..plain.clone()
            },
        ),
        (
            json!({"podReplacementPolicy": "Failed"}),
            Wanted { replacement: Replacement::Failed, ..plain.clone() },
        ),
        (
            json!({"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2}),
            Wanted {
                completions: Completions::Indexes(3),
                backoff_limit: 2_147_483_647,
                per_index: per_index(None),
                ..plain.clone()
            },
        ),
        (
            json!({
                "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2, "backoffLimit": 4,
                "maxFailedIndexes": 1,
            }),
            Wanted {
                completions: Completions::Indexes(3),
                backoff_limit: 4,
                per_index: per_index(Some(1)),
                ..plain
            },
        ),
    ] {
        assert_eq!(wanted(spec.clone()).as_ref(), Ok(&expected), "{spec}");
    }
}

#[test]
fn a_refused_job_that_is_being_deleted_lets_its_pods_go_uncounted() {
    let mut refused = Observed { refusal: Some(Refusal::UnknownCompletionMode), ..job() };
    refused.job.meta.deletion = steersman_api::Deletion::at(now());
    let pods = || [pod("a").succeeded(), pod("b").deleting(), pod("c"), pod("d").untracked()];
    assert_eq!(told(refused.clone().with(pods())), ["release a b c"]);
    assert_eq!(told(refused.clone()), [""; 0]);
    // What another leader did of late may not be in the caches.
    let unsure = Observed { grounds: Grounds::Unsure, ..refused.with(pods()) };
    let Plan::Act(batch) = plan(&unsure, now()) else { panic!("nothing is planned") };
    assert_eq!(batch.steps, [Step::Confirm]);
}

#[test]
fn a_job_that_another_controller_manages_or_that_has_finished_is_left_alone_and_its_syncs_are_not_counted() {
    let theirs = || {
        let mut theirs = job();
        theirs.job.managed_by_other = Some("example.com/other".into());
        theirs
    };
    let finished = || job().condition("Complete", ConditionStatus::True, "CompletionsReached");
    for (name, settled) in [("managed by another", theirs()), ("finished", finished())] {
        let observed = settled.with([pod("a").failed(), pod("b").claim(Claim::Orphan)]);
        assert!(observed.is_settled() && !observed.counts(), "{name}");
        let decision = decide(&observed, now());
        assert_eq!((decision.plan, decision.action), (Plan::done(), None), "{name}");
        assert_eq!(told(observed), [""; 0], "{name}");
    }
}
