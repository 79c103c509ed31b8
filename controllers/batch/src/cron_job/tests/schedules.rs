//! When jobs are created, and what keeps them from it.

use jiff::SignedDuration;
use steersman_api::Deletion;

use super::*;
use crate::cron_job::plan::Announcement;
use crate::cron_job::timing;

#[test]
fn a_job_is_created_when_its_time_has_come() {
    let gap = |policy| hourly().ran("2026-05-19T09:00:00Z").policy(policy);
    for policy in ["Allow", "Forbid", "Replace", ""] {
        assert_eq!(steps(gap(policy), "2026-05-19T09:59:59.999Z"), NOTHING, "{policy}");
        assert_eq!(steps(gap(policy), "2026-05-19T10:00:00Z"), CREATED, "{policy}");
        assert_eq!(steps(gap(policy), "2026-05-19T10:59:00Z"), CREATED, "{policy}");
    }
    let never = || hourly().policy("Allow");
    assert_eq!(steps(never(), "2026-05-19T08:59:59Z"), NOTHING, "not before its creation");
    assert_eq!(steps(never(), "2026-05-19T09:00:05Z"), ["create 09:00", "active [new]"]);
}

#[test]
fn the_next_sync_comes_just_after_the_next_run() {
    let (_, wait) = sync(hourly().ran("2026-05-19T10:00:00Z"), "2026-05-19T10:20:00.250Z");
    assert_eq!(wait, Some(Duration::from_millis(40 * 60_000 - 250 + 100)));
    let (steps, wait) = sync(hourly().ran("2026-05-19T09:00:00Z"), "2026-05-19T10:00:00.100Z");
    assert_eq!((steps.len(), wait), (2, Some(Duration::from_secs(3600))));
}

#[test]
fn the_schedule_goes_by_its_time_zone() {
    // 09:00 UTC is 18:00 in Tokyo and 05:00 in New York.
    for (zone, expected) in [
        (Some("Asia/Tokyo"), &["create 09:00", "active [new]"][..]),
        (Some("America/New_York"), &[]),
        (None, &[]),
    ] {
        assert_eq!(steps(cron_job("0 18 * * *", zone), "2026-05-19T09:00:01Z"), expected, "{zone:?}");
    }
}

#[test]
fn a_schedule_that_names_a_zone_itself_is_followed_with_a_warning() {
    let schedule = "TZ=Asia/Tokyo 0 18 * * *";
    let unsupported = Announcement::UnsupportedSchedule(schedule.to_owned()).to_string();
    assert_eq!(
        unsupported,
        "CRON_TZ or TZ used in schedule \"TZ=Asia/Tokyo 0 18 * * *\" is not officially supported, see \
         https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    );
    let expected = [format!("event: {unsupported}"), "create 09:00".to_owned(), "active [new]".to_owned()];
    assert_eq!(steps(cron_job(schedule, Some("Europe/Berlin")), "2026-05-19T09:00:01Z"), expected);
}

#[test]
fn what_keeps_a_schedule_from_running_is_announced() {
    for (schedule, zone, expected) in [
        (
            "0 * * *",
            None,
            r#"unparseable schedule: "0 * * *" : expected exactly 5 fields, found 4: [0 * * *]"#,
        ),
        ("0 * * * *", Some("Mars/Base"), r#"invalid timeZone: "Mars/Base": unknown time zone Mars/Base"#),
        (
            "59 23 31 2 *",
            None,
            "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second",
        ),
    ] {
        let (steps, wait) = sync(cron_job(schedule, zone), "2026-05-19T10:00:00Z");
        assert_eq!((steps, wait), (vec![format!("event: {expected}")], None), "{schedule} {zone:?}");
    }
}

#[test]
fn a_suspended_cron_job_starts_nothing_and_still_follows_its_jobs() {
    let mut suspended = hourly().active(ended("a", End::Complete, "2026-05-19T09:00:00Z"));
    suspended.spec.suspend = true;
    let (steps, wait) = sync(suspended.clone(), "2026-05-19T12:00:00Z");
    assert_eq!(steps, ["event: Saw completed job: a, condition: Complete", "active []"]);
    assert_eq!(wait, None);
    // An unknown zone is told all the same, a wrong schedule is not.
    for (schedule, zone, count) in [("0 * * *", None, 0), ("0 * * * *", Some("Mars/Base"), 1)] {
        let mut suspended = cron_job(schedule, zone);
        suspended.spec.suspend = true;
        assert_eq!(self::steps(suspended, "2026-05-19T12:00:00Z").len(), count);
    }
}

#[test]
fn a_cron_job_that_is_being_deleted_only_follows_its_jobs() {
    let mut deleting = hourly().active(ended("a", End::Failed, "2026-05-19T09:00:00Z"));
    deleting.meta.deletion = Deletion::at(at("2026-05-19T09:30:00Z"));
    let (steps, wait) = sync(deleting, "2026-05-19T12:00:00Z");
    assert_eq!(steps, ["event: Saw completed job: a, condition: Failed", "active []"]);
    assert_eq!(wait, None);
}

#[test]
fn a_run_is_left_out_once_its_deadline_has_passed() {
    let late = |seconds| hourly().ran("2026-05-19T09:00:00Z").deadline(seconds);
    assert_eq!(steps(late(10), "2026-05-19T10:00:09Z"), CREATED);
    assert_eq!(steps(late(10), "2026-05-19T10:00:11Z"), NOTHING);
    assert_eq!(steps(late(0), "2026-05-19T10:00:00.100Z"), NOTHING, "a run is never in time");
    assert_eq!(steps(late(i64::MAX), "2026-05-19T10:00:11Z"), CREATED);
    // Also after many runs were missed, the others are not counted.
    assert_eq!(steps(late(3600), "2026-06-19T10:00:00Z"), CREATED);
}

#[test]
fn the_last_of_several_missed_runs_is_made_up_for() {
    let overdue = |policy| hourly().ran("2026-05-19T09:00:00Z").policy(policy);
    for policy in ["Allow", "Forbid", "Replace"] {
        assert_eq!(steps(overdue(policy), "2026-05-19T14:20:00Z"), ["create 14:00", "active [new]"]);
    }
    // Gaps that differ: at 6, 10 and 14 on weekdays. Now it is Monday.
    let uneven = cron_job("30 6-16/4 * * 1-5", None).ran("2026-05-22T14:30:00Z");
    assert_eq!(steps(uneven, "2026-05-25T10:00:00Z"), ["create 06:30", "active [new]"]);
}

#[test]
fn more_than_100_missed_runs_are_announced() {
    let too_many = format!("event: {}", Announcement::TooManyMissedTimes);
    let minutely = |last| cron_job("* * * * *", None).ran(last);
    let created = ["create 10:00".to_owned(), "active [new]".to_owned()];
    assert_eq!(steps(minutely("2026-05-19T08:20:00Z"), "2026-05-19T10:00:00Z"), created);
    let all = [&[too_many], &created[..]].concat();
    assert_eq!(steps(minutely("2026-05-19T08:19:00Z"), "2026-05-19T10:00:00Z"), all);
    assert_eq!(steps(minutely("2016-05-19T08:19:00Z"), "2026-05-19T10:00:00Z"), all);
}

#[test]
fn runs_of_a_fixed_delay_count_from_the_last_one_also_with_a_deadline() {
    let every = || cron_job("@every 1h", None).ran("2026-05-19T09:15:00Z");
    assert_eq!(sync(every(), "2026-05-19T10:14:00Z"), (Vec::new(), Some(Duration::from_millis(60_100))));
    let (steps, wait) = sync(every().deadline(30), "2026-05-19T10:15:10Z");
    assert_eq!(steps, ["create 10:15", "active [new]"]);
    assert_eq!(wait, Some(Duration::from_millis(3_590_100)));
    assert_eq!(self::steps(every().deadline(5), "2026-05-19T10:15:10Z"), NOTHING);
    // Never run: from the creation.
    assert_eq!(self::steps(cron_job("@every 1h", None), "2026-05-19T10:30:00Z")[0], "create 09:59");
}

#[test]
fn waits_are_never_negative() {
    let schedule = hourly().timetable.unwrap();
    // The API server's clock is ahead of this one.
    let wait = timing::wait(&schedule, at("2026-05-19T10:30:00Z"), "2026-05-19T10:00:00Z".parse().unwrap());
    assert_eq!(wait, Some((SignedDuration::from_hours(1) + SignedDuration::from_millis(100)).unsigned_abs()));
}
