//! When pods are replaced.

use super::super::plan::CreationReason;
use super::super::wanted::Replacement;
use super::*;

fn patient() -> Observed {
    job()
        .parallel(2)
        .completions(Completions::Count(9))
        .wanting(|wanted| wanted.replacement = Replacement::Failed)
}

#[test]
fn a_job_that_waits_for_the_ends_of_its_pods_replaces_none_that_is_being_deleted() {
    let terminating = patient().with([pod("a").deleting(), pod("b")]).settled();
    assert_eq!(told(terminating), [""; 0]);
    let old = pod("a").deleting().failed().finished_at(second(500));
    let ended = patient().with([old, pod("b")]).settled();
    assert_eq!(told(ended), ["create 1", "write active=2 failed:[a]", "release a", "again after 1s"]);
    // Any other job counts the pod as failed at once.
    let hasty = patient().wanting(|wanted| wanted.replacement = Replacement::TerminatingOrFailed);
    let old = pod("a").deleting().finished_at(second(500));
    assert_eq!(told(hasty.with([old, pod("b")]).settled())[..2], ["create 1", "write active=2 failed:[a]"]);
}

#[test]
fn an_index_waits_for_its_pod_that_is_being_deleted() {
    let indexed = patient().parallel(3).completions(Completions::Indexes(5));
    let observed = indexed.with([pod("a").index(0).deleting(), pod("b").index(1)]).settled();
    assert_eq!(told(observed), ["create 2", "write active=2"]);
}

#[test]
fn pods_are_created_for_upstreams_reasons() {
    use CreationReason::{New, RecreateFailed, RecreateTerminatingOrFailed};
    let (hasty, patient) = (Replacement::TerminatingOrFailed, Replacement::Failed);
    for (replacement, failed, terminating, expected) in [
        (hasty, 0, 0, New),
        (hasty, 1, 0, RecreateTerminatingOrFailed),
        (hasty, 0, 1, RecreateTerminatingOrFailed),
        (patient, 0, 0, New),
        (patient, 1, 0, RecreateFailed),
        (patient, 0, 1, RecreateTerminatingOrFailed),
        (patient, 1, 1, RecreateFailed),
    ] {
        let pods = (0..terminating).map(|at| pod(&format!("p{at}")).deleting().untracked());
        let observed = job()
            .parallel(3)
            .completions(Completions::Count(9))
            .wanting(|wanted| wanted.replacement = replacement)
            .status(|status| status.failed = failed)
            .with(pods);
        let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
        let Step::Create { reason, .. } = &batch.steps[0] else { panic!("{batch:?}") };
        assert_eq!(*reason, expected, "{replacement:?} {failed} {terminating}");
    }
}
