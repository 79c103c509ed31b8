use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::condition::ConditionStatus;
use steersman_api::{Deletion, Meta, Time};
use steersman_controller::plan::Plan;
use steersman_kinds::job::{JobCondition, JobStatus, JobTtl};

use super::plan::{Candidate, NoFinishTime, Observed, Step, plan};

const NOW: i64 = 1_000_000;

fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

fn now() -> Timestamp {
    ago(0).into()
}

/// A job with this condition, which changed to `True` at that time.
fn job(condition: &str, since: Option<Time>, ttl: Option<i32>) -> Result<Candidate, NoFinishTime> {
    let condition = JobCondition {
        kind: condition.into(),
        status: ConditionStatus::True,
        last_transition_time: since,
        ..JobCondition::default()
    };
    let status = JobStatus { conditions: vec![condition], ..JobStatus::default() };
    let meta = Meta { uid: "u".into(), ..Meta::default() };
    Candidate::of(&meta, &JobTtl { ttl_seconds_after_finished: ttl }, &status)
}

#[test]
fn a_job_expires_when_its_ttl_has_passed_since_its_end() {
    for (name, condition, ttl, expires) in [
        ("complete", "Complete", Some(30), Some(ago(70))),
        ("failed", "Failed", Some(0), Some(ago(100))),
        ("without a TTL", "Complete", None, None),
        ("unfinished", "SuccessCriteriaMet", Some(30), None),
        ("suspended", "Suspended", Some(30), None),
    ] {
        assert_eq!(job(condition, Some(ago(100)), ttl).unwrap().expires, expires, "{name}");
    }
}

#[test]
fn a_finished_job_that_does_not_say_since_when_is_an_error() {
    assert_eq!(job("Complete", None, Some(30)), Err(NoFinishTime));
    assert_eq!(job("Complete", None, None).unwrap().expires, None);
}

#[test]
fn a_job_that_is_being_deleted_does_not_expire() {
    let meta = Meta { deletion: Deletion::at(ago(5)), ..Meta::default() };
    let finished = job("Complete", Some(ago(100)), Some(0)).unwrap();
    assert!(finished.expires.is_some());
    let ttl = JobTtl { ttl_seconds_after_finished: Some(0) };
    assert_eq!(Candidate::of(&meta, &ttl, &JobStatus::default()).unwrap().expires, None);
}

#[test]
fn an_expired_job_is_deleted_after_a_look_at_its_newest_state() {
    let expired = job("Complete", Some(ago(100)), Some(100)).unwrap();
    assert_eq!(plan(&Observed::Cached(expired.clone()), now()), Plan::step(Step::Read));
    let delete = Plan::step(Step::Delete("u".into(), ago(0)));
    assert_eq!(plan(&Observed::Fresh(expired), now()), delete);
    let without = Candidate { uid: "u".into(), expires: None };
    for observed in [Observed::Gone, Observed::Cached(without.clone()), Observed::Fresh(without)] {
        assert_eq!(plan(&observed, now()), Plan::done(), "{observed:?}");
    }
}

#[test]
fn a_job_is_left_alone_until_the_end_of_its_ttl_to_the_fraction_of_a_second() {
    let waits = |observed: &Observed, now| match plan(observed, now) {
        Plan::Done { requeue_after } => requeue_after,
        acts @ Plan::Act(_) => panic!("{acts:?}"),
    };
    let fraction = now() + SignedDuration::from_millis(400);
    let later = job("Complete", Some(ago(95)), Some(100)).unwrap();
    assert_eq!(waits(&Observed::Cached(later.clone()), fraction), Some(Duration::from_millis(4600)));
    // Someone has prolonged the TTL since.
    assert_eq!(waits(&Observed::Fresh(later), now()), Some(Duration::from_secs(5)));
    // The clock of the process that finished the job is ahead.
    let ahead = job("Failed", Some(ago(-7)), Some(0)).unwrap();
    assert_eq!(waits(&Observed::Cached(ahead), now()), Some(Duration::from_secs(7)));
}
