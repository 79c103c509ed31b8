//! Jobs that are suspended, and go on.

use super::*;

fn suspended() -> Observed {
    job().wanting(|wanted| wanted.suspended = true)
}

#[test]
fn a_suspended_job_loses_its_pods_uncounted_and_its_start_time() {
    let observed = suspended().parallel(2).with([pod("a"), pod("b").succeeded()]).settled();
    assert_eq!(
        told(observed.completions(Completions::Count(9))),
        [
            "discard a",
            "write -active Suspended=True(JobSuspended) -startTime terminating=1 succeeded:[b] say Suspended",
            "release b",
            "write succeeded=1 succeeded:[]",
        ]
    );
}

#[test]
fn a_suspended_job_keeps_its_start_time_where_the_gate_is_off() {
    let keeps = Observed { suspension: Suspension::KeepsStartTime, ..suspended() };
    assert_eq!(told(keeps), ["write Suspended=True(JobSuspended) say Suspended"]);
}

#[test]
fn a_job_that_begins_suspended_does_not_start() {
    let observed = suspended().status(|status| *status = Status::default());
    assert_eq!(told(observed), ["write Suspended=True(JobSuspended) ready=0 terminating=0 say Suspended"]);
}

#[test]
fn a_suspended_job_is_left_as_it_is() {
    let observed =
        suspended().condition("Suspended", ConditionStatus::True, "JobSuspended").status(|status| {
            status.start_time = None;
            status.conditions[0].message = "Job suspended".into();
        });
    assert_eq!(told(observed), [""; 0]);
}

#[test]
fn a_job_that_is_resumed_starts_anew() {
    let observed = job()
        .condition("Suspended", ConditionStatus::True, "JobSuspended")
        .status(|status| status.start_time = None);
    assert_eq!(
        told(observed),
        ["create 1", "write active=1 Suspended=False(JobResumed) startTime=1970-01-01T00:16:40Z say Resumed"]
    );
}

#[test]
fn a_job_that_is_complete_is_not_suspended_any_more() {
    let lines = told(suspended().status(|status| status.succeeded = 1));
    assert_eq!(lines[0], "write SuccessCriteriaMet=True(CompletionsReached)");
}
