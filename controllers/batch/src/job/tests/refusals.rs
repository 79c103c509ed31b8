//! Jobs that ask for what this program does not have.

use serde_json::json;
use steersman_informer::View;

use super::super::SyncedJob;
use super::super::wanted::Refusal;
use super::*;
use steersman_kinds::job::JobSpec;

fn wanted(spec: serde_json::Value) -> Result<Wanted, Refusal> {
    let job = View::<SyncedJob>::from_json(&json!({"metadata": {"name": "pi"}, "spec": spec}));
    Wanted::of(job.get::<JobSpec>())
}

#[test]
fn policies_that_are_not_there_are_refused_in_so_many_words() {
    for (spec, named) in [
        (json!({"podFailurePolicy": {"rules": []}}), "podFailurePolicy"),
        (json!({"podFailurePolicy": {}}), "podFailurePolicy"),
        (json!({"successPolicy": {"rules": []}}), "successPolicy"),
        (json!({"backoffLimitPerIndex": 0}), "backoffLimitPerIndex"),
        (json!({"podReplacementPolicy": "Failed"}), "podReplacementPolicy Failed"),
    ] {
        assert_eq!(wanted(spec.clone()), Err(Refusal::Unsupported(named)), "{spec}");
    }
    assert_eq!(wanted(json!({"completionMode": "Newer"})), Err(Refusal::UnknownCompletionMode));
    let refused = Observed { refusal: Some(Refusal::Unsupported("successPolicy")), ..job() };
    assert_eq!(
        told(refused.with([pod("a").failed()])),
        [
            "refuse UnsupportedJobPolicy: Skipped Job sync because this controller does not support successPolicy"
        ]
    );
}

#[test]
fn a_spec_is_read_with_the_api_servers_defaults() {
    let plain = Wanted {
        parallelism: 1,
        completions: Completions::Any,
        backoff_limit: 6,
        restarts: Restarts::Never,
        active_deadline: None,
        suspended: false,
    };
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
                ..plain
            },
        ),
    ] {
        assert_eq!(wanted(spec.clone()).as_ref(), Ok(&expected), "{spec}");
    }
}

#[test]
fn a_refused_job_that_is_being_deleted_lets_its_pods_go_uncounted() {
    let mut refused = Observed { refusal: Some(Refusal::Unsupported("podFailurePolicy")), ..job() };
    refused.job.meta.deleted = Some(now());
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
        assert!(observed.is_settled() && observed.counted_completions().is_none(), "{name}");
        let decision = decide(&observed, now());
        assert_eq!((decision.plan, decision.action), (Plan::done(), None), "{name}");
        assert_eq!(told(observed), [""; 0], "{name}");
    }
}
