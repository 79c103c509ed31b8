//! Jobs whose indexes fail independently of each other.

use serde_json::json;
use steersman_informer::View;

use super::super::SyncedJob;
use super::super::controller::draft;
use super::super::failure_policy::FailurePolicy;
use super::super::wanted::{PerIndex, Replacement};
use super::*;
use steersman_kinds::job::JobSpec;

/// A job of four indexes that run at once, each of which tolerates one failure.
fn indexed(max_failed: Option<usize>) -> Observed {
    let wanting = |wanted: &mut Wanted| {
        wanted.per_index = Some(PerIndex { backoff_limit: 1, max_failed });
        wanted.backoff_limit = 1_000;
    };
    job().parallel(4).completions(Completions::Indexes(4)).wanting(wanting).status(|status| {
        status.failed_indexes = Some("".into());
    })
}

/// Pods of indexes 1, 2 and 3, which run.
fn others() -> [Pod; 3] {
    [pod("b").index(1), pod("c").index(2), pod("d").index(3)]
}

fn failed(name: &str, index: u32, ago: i64) -> Pod {
    pod(name).index(index).failed().finished_at(second(1_000 - ago))
}

#[test]
fn a_failed_pod_stays_until_its_successor_knows_how_often_the_index_has_failed() {
    let waiting = indexed(None).with([failed("a", 0, 4)]).with(others()).settled();
    assert_eq!(told(waiting), ["again after 6s"]);
    let replaced = indexed(None).with([failed("a", 0, 10)]).with(others()).settled();
    assert_eq!(told(replaced), ["create 0(1+0)", "write active=4 failed:[a]", "release a", "again after 1s"]);
}

#[test]
fn the_status_of_a_job_has_failed_indexes_from_its_first_write_on() {
    let fresh = indexed(None).status(|status| *status = Status::default());
    assert_eq!(
        told(fresh)[1],
        "write active=4 failedIndexes= ready=0 startTime=1970-01-01T00:16:40Z terminating=0"
    );
}

#[test]
fn an_index_that_fails_too_often_gets_no_other_pod_and_does_not_disturb_the_others() {
    let observed = indexed(None).with([failed("a", 0, 500).after(1, 0)]).with(others()).settled();
    assert_eq!(told(observed), ["write failedIndexes=0 failed:[a]", "release a", "again after 1s"]);
    let ended = indexed(None)
        .status(|status| (status.failed_indexes, status.failed) = (Some("0".into()), 2))
        .with([pod("b").index(1).succeeded(), pod("c").index(2), pod("d").index(3)])
        .settled();
    assert_eq!(told(ended), ["write completedIndexes=1 succeeded=1", "release b"]);
}

#[test]
fn the_wait_of_an_index_doubles_with_each_of_its_failures() {
    for (ago, earlier, expected) in [
        (9, (0, 0), &["again after 1s"][..]),
        (10, (0, 0), &["create 0(1+0)"]),
        (19, (1, 0), &["again after 1s"]),
        (20, (1, 0), &["create 0(2+0)"]),
        (39, (1, 1), &["again after 1s"]),
        (40, (1, 1), &["create 0(2+1)"]),
        (599, (9, 0), &["again after 1s"]),
        (600, (9, 0), &["create 0(10+0)"]),
    ] {
        let patient = |wanted: &mut Wanted| {
            wanted.per_index = Some(PerIndex { backoff_limit: 100, max_failed: None });
        };
        let last = failed("a", 0, ago).after(earlier.0, earlier.1);
        let observed = indexed(None).wanting(patient).with([last]).with(others()).settled();
        assert_eq!(told(observed)[..1], *expected, "{ago} {earlier:?}");
    }
}

#[test]
fn of_several_failed_pods_of_an_index_the_last_one_is_succeeded() {
    let limits = |wanted: &mut Wanted| {
        wanted.per_index = Some(PerIndex { backoff_limit: 9, max_failed: None });
    };
    // The second pair: the clock of the first pod's node was ahead of the API server's.
    for (ended_late, ended_early) in [(500, 600), (600, 500)] {
        let observed = indexed(None)
            .wanting(limits)
            .with([failed("late", 0, ended_late).after(2, 0), failed("early", 0, ended_early).after(1, 0)])
            .with(others())
            .settled();
        assert_eq!(told(observed)[..2], ["create 0(3+0)", "write active=4 failed:[late early]"]);
    }
}

#[test]
fn a_job_with_indexes_that_failed_fails_once_all_have_ended() {
    let observed = indexed(None).status(|status| {
        (status.failed_indexes, status.failed) = (Some("0".into()), 2);
        (status.completed_indexes, status.succeeded) = ("1,2".into(), 2);
    });
    let ended = observed.with([pod("d").index(3).succeeded()]);
    assert_eq!(
        told(ended)[..2],
        ["write completedIndexes=1-3 FailureTarget=True(FailedIndexes) succeeded=3", "release d"]
    );
}

#[test]
fn a_job_in_which_too_many_indexes_fail_ends_at_once() {
    let two = || [failed("a", 0, 500).after(1, 0), failed("b", 1, 500).after(1, 0)];
    let rest = || [pod("c").index(2), pod("d").index(3)];
    let within = indexed(Some(2)).with(two()).with(rest()).settled();
    assert_eq!(told(within)[0], "write failedIndexes=0,1 failed:[a b]");
    let beyond = indexed(Some(1)).with(two()).with(rest()).settled();
    assert_eq!(
        told(beyond)[..2],
        [
            "delete c d",
            "write -active FailureTarget=True(MaxFailedIndexesExceeded) failedIndexes=0,1 terminating=2 failed:[a b c d]",
        ]
    );
}

#[test]
fn an_index_never_both_succeeds_and_fails() {
    let twins = [failed("a", 0, 500).after(1, 0), pod("twin").index(0).succeeded()];
    let observed = indexed(None).with(twins).with(others()).settled();
    assert_eq!(told(observed)[0], "write completedIndexes=0 succeeded=1 failed:[a]");
    let late = indexed(None)
        .status(|status| status.failed_indexes = Some("0".into()))
        .with([pod("twin").index(0).succeeded()])
        .with(others())
        .settled();
    assert_eq!(told(late), ["release twin"]);
}

#[test]
fn a_policy_lets_an_index_fail_at_once_or_ignores_its_failures() {
    let rules = json!([
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [4]}},
    ]);
    let cached = View::<SyncedJob>::from_json(&json!({
        "metadata": {"name": "pi"}, "spec": {"podFailurePolicy": {"rules": rules}},
    }));
    let policy = FailurePolicy::of(cached.get::<JobSpec>().pod_failure_policy.as_ref().unwrap());
    let with_policy = || {
        indexed(None).wanting(|wanted| {
            wanted.failure_policy = Some(policy.clone());
            wanted.replacement = Replacement::Failed;
        })
    };
    let ended = |code, counted, ignored| {
        pod("a").index(0).exit_code("c", code).after(counted, ignored).finished_at(second(1))
    };
    let at_once = with_policy().with([ended(3, 0, 0)]).with(others()).settled();
    assert_eq!(told(at_once)[0], "write failedIndexes=0 failed:[a]");
    let ignored = with_policy().with([ended(4, 1, 1)]).with(others()).settled();
    assert_eq!(told(ignored), ["create 0(1+2)", "write active=4", "release a(ignored)"]);
}

#[test]
fn a_pod_says_in_annotations_how_often_its_index_has_failed() {
    let annotations = |counted, ignored| {
        let draft = draft(&job().job.meta, Some(7), Some(IndexFailures { counted, ignored }));
        let pairs = draft.annotations.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(annotations(0, 0), "batch.kubernetes.io/job-index-failure-count=0");
    assert_eq!(
        annotations(2, 1),
        "batch.kubernetes.io/job-index-failure-count=2 batch.kubernetes.io/job-index-ignored-failure-count=1"
    );
}
