//! How jobs end.

use super::*;

const OVER_LIMIT: &str = "FailureTarget=True(BackoffLimitExceeded)";

fn failed(reason: &str, message: &str) -> String {
    format!("Failed=True({reason}) say Failed({reason:?}, {message:?})")
}

#[test]
fn a_job_is_complete_once_its_pods_are_counted() {
    let observed = job().with([pod("a").succeeded()]);
    assert_eq!(
        told(observed),
        [
            "write SuccessCriteriaMet=True(CompletionsReached) succeeded:[a]",
            "release a",
            "write completionTime=1970-01-01T00:16:40Z Complete=True(CompletionsReached) succeeded=1 succeeded:[] \
             say Complete(\"CompletionsReached\")",
        ]
    );
}

#[test]
fn a_job_whose_start_lies_ahead_is_complete_at_its_start() {
    let ahead = Time::from_seconds(now().seconds() + 60);
    let lines = told(job().with([pod("a").succeeded()]).status(|status| status.start_time = Some(ahead)));
    assert!(lines[2].starts_with("write completionTime=1970-01-01T00:17:40Z Complete=True"), "{lines:?}");
}

#[test]
fn a_job_that_wants_any_success_waits_for_the_pods_that_run() {
    let any = || job().parallel(3).completions(Completions::Any);
    let observed = any().with([pod("a").succeeded(), pod("b")]).settled();
    assert_eq!(told(observed), ["write succeeded:[a]", "release a", "again after 1s"]);
    let lines = told(any().status(|status| status.succeeded = 1));
    assert!(lines[1].contains("Complete=True"), "{lines:?}");
}

#[test]
fn a_job_with_nothing_to_do_is_complete_at_once() {
    let lines = told(job().completions(Completions::Count(0)));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "write SuccessCriteriaMet=True(CompletionsReached)");
}

#[test]
fn more_successes_than_wanted_are_remarked_upon() {
    let lines = told(job().with([pod("a").succeeded(), pod("b").succeeded()]));
    assert!(lines[2].contains("succeeded=2"), "{lines:?}");
    assert!(lines[2].contains("say TooManySucceededPods say Complete"), "{lines:?}");
}

#[test]
fn pods_that_still_run_when_enough_have_succeeded_are_discarded() {
    let observed = job().parallel(2).with([pod("a").succeeded(), pod("b")]).settled();
    assert_eq!(
        told(observed),
        [
            "discard b",
            "write -active SuccessCriteriaMet=True(CompletionsReached) terminating=1 succeeded:[a]",
            "release a",
            // Not yet complete: b is still about.
            "write succeeded=1 succeeded:[]",
        ]
    );
}

#[test]
fn a_job_ends_only_when_no_pod_of_its_is_terminating() {
    let with = |pods: Vec<Pod>| {
        let conditions = job().condition("SuccessCriteriaMet", ConditionStatus::True, "CompletionsReached");
        conditions.status(|status| status.succeeded = 1).with(pods).settled()
    };
    assert_eq!(told(with(vec![pod("b").deleting().untracked()])), [""; 0]);
    let lines = told(with(Vec::new()));
    assert!(lines[0].contains("Complete=True(CompletionsReached)"), "{lines:?}");
}

#[test]
fn a_job_fails_when_too_many_pods_have_and_takes_the_others_with_it() {
    let old = second(500);
    let observed = job()
        .parallel(2)
        .wanting(|wanted| wanted.backoff_limit = 1)
        .with([pod("a").failed().finished_at(old), pod("b").failed().finished_at(old), pod("c")])
        .settled();
    assert_eq!(
        told(observed.clone()),
        [
            "delete c".to_owned(),
            format!("write -active {OVER_LIMIT} terminating=1 failed:[a b c]"),
            "release a b c".to_owned(),
            // Failed only when c is gone.
            "write failed=3 failed:[]".to_owned(),
        ]
    );
    let within = observed.wanting(|wanted| wanted.backoff_limit = 2);
    assert_eq!(told(within)[0], "write failed:[a b]");
}

/// Like upstream: else the next sync might not find the reason any more.
#[test]
fn a_job_that_fails_deletes_all_its_pods_at_once_and_says_so_in_the_same_status() {
    let many = (0..1_200).map(|at| pod(&format!("p{at:04}")));
    let large = job().parallel(1_200).completions(Completions::Count(2_000)).with(many);
    let lines = told(large.status(|status| status.failed = 7).settled());
    assert_eq!(lines[0], "delete 1200 of them");
    assert!(lines[1].starts_with(&format!("write -active {OVER_LIMIT} terminating=1200")), "{lines:?}");
}

#[test]
fn the_reason_that_was_given_first_is_the_one_that_stays() {
    let observed = job()
        .condition("FailureTarget", ConditionStatus::True, "DeadlineExceeded")
        .wanting(|wanted| wanted.backoff_limit = 0)
        .status(|status| status.failed = 3);
    assert_eq!(told(observed), [format!("write {}", failed("DeadlineExceeded", "before"))]);
    // And a success that was declared is not made a failure by pods that fail afterwards.
    let observed = job()
        .condition("SuccessCriteriaMet", ConditionStatus::True, "CompletionsReached")
        .wanting(|wanted| wanted.backoff_limit = 0)
        .status(|status| (status.failed, status.succeeded) = (3, 1));
    assert!(told(observed)[0].contains("Complete=True(CompletionsReached)"));
}

#[test]
fn restarts_of_containers_count_as_failures_where_they_happen_in_place() {
    let restarted = |restarts| Pod { restarts, ..pod("a") };
    for (limit, restarts, policy, fails) in [
        (2, 1, Restarts::OnFailure, false),
        (2, 2, Restarts::OnFailure, true),
        (2, 5, Restarts::Never, false),
        (0, 0, Restarts::OnFailure, false),
        (0, 1, Restarts::OnFailure, true),
    ] {
        let observed = job()
            .wanting(|wanted| (wanted.backoff_limit, wanted.restarts) = (limit, policy))
            .with([restarted(restarts)])
            .settled();
        let lines = told(observed);
        let expected = if fails { Some("delete a") } else { None };
        assert_eq!(lines.first().map(String::as_str), expected, "{limit} {restarts} {policy:?}");
    }
}

#[test]
fn a_job_past_its_deadline_fails_and_one_before_it_looks_again_then() {
    let deadline = |seconds| {
        job()
            .wanting(|wanted| wanted.active_deadline = Some(Duration::from_secs(seconds)))
            .with([pod("a")])
            .settled()
    };
    assert_eq!(told(deadline(1_010)), ["again after 10s"]);
    assert_eq!(
        told(deadline(1_000)),
        [
            "delete a",
            "write -active FailureTarget=True(DeadlineExceeded) terminating=1 failed:[a]",
            "release a",
            "write failed=1 failed:[]",
        ]
    );
    let suspended = deadline(10).wanting(|wanted| wanted.suspended = true);
    assert_eq!(told(suspended)[0], "discard a");
    let empty = Observed { pods: Vec::new(), ..deadline(10) }.status(|status| status.active = 0);
    assert_eq!(
        told(empty),
        [
            "write FailureTarget=True(DeadlineExceeded)".to_owned(),
            format!("write {}", failed("DeadlineExceeded", "Job was active longer than specified deadline")),
        ]
    );
}

#[test]
fn a_job_is_not_declared_failed_while_pods_could_not_be_deleted() {
    let mut observed = job().status(|status| status.failed = 7).with([pod("a")]).settled();
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    assert_eq!(describe(&batch.steps), "delete a");
    let error = steersman_controller::controller::SyncError::Failed("no".to_owned());
    observed.absorb(batch.steps.into_iter().next().unwrap(), StepResult::Failed(error));
    assert_eq!(story(&mut observed), [""; 0], "its back-off says when to try again");
}

#[test]
fn what_failed_waits_for_its_back_off_but_a_deadline_does_not_wait_for_it() {
    let error = || steersman_controller::controller::SyncError::Failed("no".to_owned());
    for (deadline, expected) in [(1_010, &["again after 10s"][..]), (900, &[])] {
        let mut observed = job()
            .parallel(2)
            .completions(Completions::Count(2))
            .wanting(|wanted| wanted.active_deadline = Some(Duration::from_secs(deadline)))
            .with([pod("a")])
            .settled();
        let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
        for step in batch.steps {
            observed.absorb(step, StepResult::Failed(error()));
        }
        assert_eq!(story(&mut observed), expected, "{deadline}");
    }
}

#[test]
fn nothing_is_done_about_a_job_that_has_ended() {
    for kind in ["Complete", "Failed"] {
        let observed = job().condition(kind, ConditionStatus::True, "").with([pod("a").failed()]);
        assert_eq!(told(observed), [""; 0]);
    }
}
