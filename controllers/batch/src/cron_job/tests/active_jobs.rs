//! What the jobs of a CronJob mean for the next one, and for the status.

use steersman_controller::controller::SyncError;

use super::*;
use crate::cron_job::job;

#[test]
fn the_policy_says_what_becomes_of_a_job_that_still_runs() {
    let active = |policy| hourly().ran("2026-05-19T09:00:00Z").active(running("a")).policy(policy);
    let now = "2026-05-19T10:00:00.100Z";
    assert_eq!(steps(active("Allow"), now), ["create 10:00", "active [a new]"]);
    assert_eq!(steps(active("Replace"), now), ["delete a", "create 10:00", "active [new]"]);
    let forbidden =
        "event: Not starting job because prior execution is running and concurrency policy is Forbid";
    let (told, wait) = sync(active("Forbid"), now);
    assert_eq!(told, [forbidden]);
    assert_eq!(wait, Some(Duration::from_secs(3600)));
    for policy in ["Allow", "Forbid", "Replace"] {
        assert_eq!(steps(active(policy), "2026-05-19T09:59:00Z"), NOTHING, "{policy}");
    }
}

#[test]
fn a_job_that_can_not_be_deleted_is_not_replaced() {
    let mut observed =
        hourly().ran("2026-05-19T09:00:00Z").active(running("a")).active(running("b")).policy("Replace");
    let now = "2026-05-19T10:00:00Z".parse().unwrap();
    let Plan::Act(batch) = plan(&observed, now) else { panic!("nothing planned") };
    let results = [StepResult::Done(Outcome::Done), StepResult::Failed(SyncError::Failed("no".to_owned()))];
    for (step, result) in batch.steps.into_iter().zip(results) {
        observed.absorb(step, result);
    }
    assert_eq!(steps(observed, "2026-05-19T10:00:00Z"), ["active [b]"]);
}

#[test]
fn a_run_has_one_job() {
    // The run's job is in the list of active jobs, though the time of the last run was not written.
    let name = job::name("backup", at("2026-05-19T10:00:00Z"));
    assert_eq!(name, "backup-29653080");
    let observed = hourly().ran("2026-05-19T09:00:00Z").active(running(&name));
    for policy in ["Allow", "Forbid", "Replace"] {
        assert_eq!(steps(observed.clone().policy(policy), "2026-05-19T10:00:00Z"), NOTHING, "{policy}");
    }
    // The clock was set back.
    assert_eq!(steps(hourly().ran("2026-05-19T10:00:00Z"), "2026-05-19T09:59:00Z"), NOTHING);
}

#[test]
fn a_job_that_could_not_be_created_leaves_the_status_as_it_was() {
    for outcome in
        [StepResult::Done(Outcome::NotCreated), StepResult::Failed(SyncError::Failed("no".to_owned()))]
    {
        let mut observed = hourly().ran("2026-05-19T09:00:00Z");
        observed.absorb(Step::Create(at("2026-05-19T10:00:00Z")), outcome);
        let (steps, wait) = sync(observed, "2026-05-19T10:00:00.100Z");
        assert_eq!((steps, wait), (Vec::new(), Some(Duration::from_secs(3600))));
    }
}

#[test]
fn a_job_that_the_status_lacks_is_announced_and_not_added() {
    let unexpected = "event: Saw a job that the controller did not create or forgot: stray";
    let stray = hourly().ran("2026-05-19T09:00:00Z").job(running("stray"));
    assert_eq!(steps(stray.clone(), "2026-05-19T09:30:00Z"), [unexpected]);
    let created = [unexpected, "create 10:00", "active [new]"];
    assert_eq!(steps(stray.policy("Forbid"), "2026-05-19T10:00:00Z"), created);
}

#[test]
fn an_active_job_that_the_cache_lacks_is_looked_up_before_it_counts_as_missing() {
    let mut observed = hourly().ran("2026-05-19T09:00:00Z");
    observed.status.active.push(reference("lost"));
    let missing = ["look up lost", "event: Active job went missing: lost", "active []"];
    assert_eq!(steps(observed.clone(), "2026-05-19T09:30:00Z"), missing);
    let then_created =
        ["look up lost", "create 10:00", "event: Active job went missing: lost", "active [new]"];
    assert_eq!(steps(observed.clone().policy("Forbid"), "2026-05-19T10:00:00Z"), then_created);
    let Plan::Act(batch) = plan(&observed, "2026-05-19T09:30:00Z".parse().unwrap()) else { panic!() };
    observed.absorb(batch.steps[0].clone(), StepResult::Done(Outcome::Found));
    assert_eq!(steps(observed, "2026-05-19T09:30:00Z"), NOTHING, "the API server has it");
}

#[test]
fn the_last_success_is_the_newest_completion() {
    let complete = |name: &str, at: &str| ended(name, End::Complete, at);
    let written = |observed: &Observed| match plan(observed, "2026-05-19T09:30:00Z".parse().unwrap()) {
        Plan::Act(batch) => match &batch.steps[..] {
            [Step::WriteStatus(write)] => write.status.last_successful_time,
            other => panic!("{other:?}"),
        },
        Plan::Done { .. } => None,
    };
    let observed = hourly()
        .ran("2026-05-19T09:00:00Z")
        .job(complete("b", "2026-05-19T08:00:00Z"))
        .job(complete("c", "2026-05-19T07:00:00Z"))
        .job(ended("d", End::Failed, "2026-05-19T09:00:00Z"));
    assert_eq!(written(&observed), Some(at("2026-05-19T08:00:00Z")));
    let mut later = observed;
    later.status.last_successful_time = Some(at("2026-05-19T08:30:00Z"));
    assert_eq!(written(&later), None, "it does not go back");
}

#[test]
fn the_oldest_finished_jobs_beyond_the_limits_are_deleted() {
    let day = |day: u8| format!("2026-05-{day:02}T09:00:00Z");
    let observed =
        |successful, failed| {
            let mut observed = hourly().ran("2026-05-19T09:00:00Z").job(running("r"));
            observed.status.active.push(reference("r"));
            observed.status.last_successful_time = Some(at("2026-05-19T09:00:00Z"));
            (observed.spec.successful_jobs_history_limit, observed.spec.failed_jobs_history_limit) =
                (successful, failed);
            for number in [3, 1, 2] {
                observed = observed
                    .job(ended(&format!("c{number}"), End::Complete, &day(number)))
                    .job(ended(&format!("f{number}"), End::Failed, &day(number)));
            }
            // It failed before it started.
            observed.job(Job { started: None, ..ended("f0", End::Failed, &day(1)) })
        };
    let now = "2026-05-19T09:30:00Z";
    for (successful, failed, expected) in [
        (None, None, &[][..]),
        (Some(3), Some(4), &[]),
        (Some(2), None, &["prune c1"]),
        (Some(1), Some(1), &["prune c1", "prune c2", "prune f1", "prune f2", "prune f3"]),
        (Some(0), Some(3), &["prune c1", "prune c2", "prune c3", "prune f1"]),
    ] {
        assert_eq!(steps(observed(successful, failed), now), expected, "{successful:?} {failed:?}");
    }
    let mut deleting = observed(Some(2), None);
    deleting.jobs.iter_mut().filter(|job| job.name == "c1").for_each(|job| job.deleting = true);
    assert_eq!(steps(deleting, now), NOTHING, "it goes already");
}

#[test]
fn a_job_that_is_deleted_at_once_still_counts_as_a_success() {
    let mut observed =
        hourly().ran("2026-05-19T09:00:00Z").active(ended("a", End::Complete, "2026-05-19T09:00:00Z"));
    observed.spec.successful_jobs_history_limit = Some(0);
    let mut pruned = observed.clone();
    assert_eq!(steps(observed, "2026-05-19T09:30:00Z"), ["prune a", "active []"]);
    let (now, done) = ("2026-05-19T09:30:00Z".parse().unwrap(), StepResult::Done(Outcome::Done));
    let Plan::Act(batch) = plan(&pruned, now) else { panic!() };
    pruned.absorb(batch.steps[0].clone(), done);
    let Plan::Act(batch) = plan(&pruned, now) else { panic!() };
    let Step::WriteStatus(write) = &batch.steps[0] else { panic!("{batch:?}") };
    assert_eq!(write.status.last_successful_time, Some(at("2026-05-19T09:00:00Z")));
}

#[test]
fn an_unsure_observation_is_confirmed_before_the_first_step_and_not_without_one() {
    let mut observed = hourly().ran("2026-05-19T09:00:00Z");
    observed.grounds = Grounds::Unsure;
    assert_eq!(steps(observed.clone(), "2026-05-19T09:30:00Z"), NOTHING);
    let now = "2026-05-19T10:00:00Z".parse().unwrap();
    assert_eq!(plan(&observed, now), Plan::step(Step::Confirm));
    // Another process has created the job.
    let newer = hourly().ran("2026-05-19T10:00:00Z");
    observed.absorb(Step::Confirm, StepResult::Done(Outcome::Observed(Some(Box::new(newer)))));
    assert_eq!(steps(observed.clone(), "2026-05-19T10:00:00Z"), NOTHING);
    observed.absorb(Step::Confirm, StepResult::Done(Outcome::Observed(None)));
    assert_eq!(plan(&observed, now), Plan::done());
}
