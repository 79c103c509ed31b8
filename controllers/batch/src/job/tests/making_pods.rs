//! How many pods there are.

use super::*;

fn running(names: &[&str]) -> Vec<Pod> {
    names.iter().map(|name| pod(name)).collect()
}

#[test]
fn as_many_pods_are_made_as_may_run_and_are_still_needed() {
    let five = Completions::Count(5);
    for (parallelism, completions, pods, succeeded, expected) in [
        (2, five, &[][..], 0, &["create 2", "write active=2"][..]),
        (2, five, &["a"], 0, &["create 1", "write active=2"]),
        (2, five, &["a", "b"], 0, &["write active=2"]),
        (9, five, &[], 0, &["create 5", "write active=5"]),
        (9, five, &["a"], 3, &["create 1", "write active=2"]),
        (9, Completions::Any, &["a"], 0, &["create 8", "write active=9"]),
        // One has succeeded: those that run may go on, and no more are needed.
        (9, Completions::Any, &["a"], 1, &["write active=1"]),
        (0, five, &[], 0, &[]),
    ] {
        let observed = job()
            .parallel(parallelism)
            .completions(completions)
            .status(|status| status.succeeded = succeeded)
            .with(running(pods));
        assert_eq!(told(observed), expected, "{parallelism} {completions:?} {pods:?} {succeeded}");
    }
}

#[test]
fn no_pod_is_asked_for_again_where_the_namespace_ends() {
    let mut observed = job().parallel(3).completions(Completions::Count(3));
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    let results = [StepResult::Done(Outcome::NamespaceEnds), StepResult::Skipped, StepResult::Skipped];
    for (step, result) in batch.steps.into_iter().zip(results) {
        observed.absorb(step, result);
    }
    assert_eq!(story(&mut observed), [""; 0]);
}

#[test]
fn a_job_that_has_not_begun_begins_with_its_first_sync() {
    let fresh = job().status(|status| *status = Status::default());
    assert_eq!(
        told(fresh),
        ["create 1", "write active=1 ready=0 startTime=1970-01-01T00:16:40Z terminating=0",]
    );
}

#[test]
fn pods_that_are_too_many_lose_their_finalizers_and_go_those_first_that_have_got_least_far() {
    let pods = [
        pod("ready").ready(),
        pod("running"),
        pod("pending").phase(Phase::Pending),
        Pod { scheduled: false, ..pod("unscheduled").phase(Phase::Pending) },
        Pod { max_restarts: (3, 0), ..pod("restarted") },
        Pod { created: Some(second(9)), ..pod("younger") },
        pod("uncountable").ready().untracked(),
    ];
    let observed = job().parallel(1).completions(Completions::Any).with(pods);
    assert_eq!(
        told(observed),
        [
            "discard uncountable unscheduled pending restarted younger running",
            "write active=1 ready=1 terminating=6"
        ]
    );
}

#[test]
fn pods_are_not_made_and_deleted_in_the_same_sync() {
    // Of index 0 there are two pods, of index 1 none.
    let observed = job()
        .parallel(2)
        .completions(Completions::Indexes(2))
        .with([pod("a").index(0), pod("b").index(0).ready()]);
    assert_eq!(told(observed), ["discard a", "write active=1 ready=1 terminating=1", "again after 1s"]);
}

#[test]
fn at_most_five_hundred_pods_are_made_or_deleted_at_a_time() {
    let many = || (0..1_200).map(|at| pod(&format!("p{at:04}")));
    let large = || job().parallel(1_200).completions(Completions::Count(2_000));
    assert_eq!(told(large()), ["create 500", "write active=500", "again after 1s"]);
    let lines = told(large().parallel(0).with(many()).settled());
    assert_eq!(lines[0], "discard 500 of them");
    assert!(lines[1].starts_with("write active=700"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "again after 1s");
    // A job that is suspended loses all of its pods at once.
    let lines = told(large().wanting(|wanted| wanted.suspended = true).with(many()).settled());
    assert_eq!(lines[0], "discard 1200 of them");
    assert!(
        lines[1].contains("Suspended=True(JobSuspended)") && lines[1].contains("terminating=1200"),
        "{lines:?}"
    );
}

#[test]
fn a_pod_that_failed_is_replaced_once_its_time_has_come() {
    for (failed_at, expected) in [
        (1_000, &["write failed:[a]", "release a", "write failed=1 failed:[]", "again after 10s"][..]),
        (995, &["write failed:[a]", "release a", "write failed=1 failed:[]", "again after 5s"]),
        (900, &["create 1", "write active=1 failed:[a]", "release a", "again after 1s"]),
    ] {
        let observed = job().with([pod("a").failed().finished_at(second(failed_at))]);
        assert_eq!(told(observed), expected, "failed at {failed_at}");
    }
}

#[test]
fn what_could_not_be_made_is_not_tried_again_in_the_same_sync() {
    let mut observed = job().parallel(3).completions(Completions::Count(3));
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    assert_eq!(batch.pace, steersman_controller::plan::Pace::SlowStart);
    let error = steersman_controller::controller::SyncError::Failed("no".to_owned());
    let results = [StepResult::Done(Outcome::Created(Box::new(pod("a")))), StepResult::Failed(error)];
    for (step, result) in batch.steps.into_iter().zip(results.into_iter().chain([StepResult::Skipped])) {
        observed.absorb(step, result);
    }
    assert_eq!(story(&mut observed), ["write active=1"]);
}

#[test]
fn nothing_is_done_on_unsure_grounds_before_the_job_is_read_anew() {
    let unsure = |observed| Observed { grounds: Grounds::Unsure, ..observed };
    assert_eq!(told(unsure(job())), ["confirm", "create 1", "write active=1"]);
    // Nothing is to be done: nothing need be known.
    assert_eq!(told(unsure(job().with([pod("a")]).settled())), [""; 0]);
    let mut gone = unsure(job());
    gone.absorb(Step::Confirm, StepResult::Done(Outcome::Reread(None)));
    assert_eq!(story(&mut gone), [""; 0]);
}

#[test]
fn a_job_that_is_being_deleted_makes_no_pods_and_lets_go_of_those_it_has() {
    let mut observed = job().parallel(3).with([pod("a"), pod("b").succeeded()]).settled();
    observed.job.meta.deletion = steersman_api::Deletion::at(now());
    assert_eq!(told(observed), ["write succeeded:[b]", "release a b", "again after 1s"]);
}
