//! Indexed jobs that succeed before all of their indexes have.

use serde_json::{Value, json};
use steersman_informer::View;

use super::super::SyncedJob;
use super::super::indexes::Indexes;
use super::super::success_policy::SuccessPolicy;
use super::*;
use steersman_kinds::job::JobSpec;

fn policy(rules: &Value, completions: usize) -> SuccessPolicy {
    let job = View::<SyncedJob>::from_json(&json!({
        "metadata": {"name": "pi"}, "spec": {"successPolicy": {"rules": rules}},
    }));
    SuccessPolicy::of(job.get::<JobSpec>().success_policy.as_ref().unwrap(), completions)
}

#[test]
fn the_first_rule_that_holds_decides() {
    for (rules, succeeded, expected) in [
        (json!([]), "0-9", None),
        (json!([{"succeededCount": 2}]), "", None),
        (json!([{"succeededCount": 2}]), "3", None),
        (json!([{"succeededCount": 2}]), "3,7", Some(0)),
        (json!([{"succeededIndexes": "0-2,5"}]), "0-2", None),
        (json!([{"succeededIndexes": "0-2,5"}]), "0-5", Some(0)),
        (json!([{"succeededIndexes": "0-2,5", "succeededCount": 2}]), "0,3,4", None),
        (json!([{"succeededIndexes": "0-2,5", "succeededCount": 2}]), "0,5", Some(0)),
        (json!([{"succeededIndexes": "7"}, {"succeededCount": 1}]), "3", Some(1)),
        // Indexes that the job no longer has are not waited for, and a rule without indexes never holds.
        (json!([{"succeededIndexes": "8-12"}]), "8,9", Some(0)),
        (json!([{"succeededIndexes": "10-12", "succeededCount": 1}]), "8,9", None),
        (json!([{"succeededIndexes": "no"}, {"succeededCount": 3}]), "0-2", Some(1)),
    ] {
        let met = policy(&rules, 10).met(&Indexes::parse(succeeded, 10));
        assert_eq!(met, expected, "{rules} {succeeded}");
    }
}

#[test]
fn a_job_whose_policy_is_met_deletes_the_other_pods_and_counts_them_neither_way() {
    let observed = job()
        .parallel(3)
        .completions(Completions::Indexes(3))
        .wanting(|wanted| wanted.success_policy = Some(policy(&json!([{"succeededIndexes": "0"}]), 3)))
        .with([pod("a").index(0).succeeded(), pod("b").index(1), pod("c").index(2).failed()])
        .settled();
    assert_eq!(
        told(observed.clone()),
        [
            "delete b",
            "write -active completedIndexes=0 SuccessCriteriaMet=True(SuccessPolicy) succeeded=1 terminating=1 failed:[c]",
            "release a b c",
            "write failed=1 failed:[]",
        ]
    );
    let met = observed.condition("SuccessCriteriaMet", ConditionStatus::True, "SuccessPolicy");
    let ended = Observed { pods: Vec::new(), ..met }.status(|status| {
        (status.active, status.succeeded, status.completed_indexes) = (0, 1, "0".into());
    });
    assert!(told(ended)[0].contains("Complete=True(SuccessPolicy)"));
}

#[test]
fn a_policy_that_is_not_met_changes_nothing() {
    let observed = job()
        .parallel(2)
        .completions(Completions::Indexes(3))
        .wanting(|wanted| wanted.success_policy = Some(policy(&json!([{"succeededIndexes": "2"}]), 3)))
        .with([pod("a").index(0).succeeded(), pod("b").index(1)])
        .settled();
    assert_eq!(told(observed)[..2], ["create 2", "write active=2 completedIndexes=0 succeeded=1"]);
}
