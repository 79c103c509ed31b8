//! Tables of tests of [`decide`] and of the specs that are written.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use crate::leader_election::{
    Config, Mode,
    decide::{self, Observed, Path, Reason, Sight, Source, Step, Trust, calls_for_a_try, decide, next_try},
};

fn config(mode: Mode) -> Config {
    Config { mode, ..Config::new("kube-system", "test", "me") }
}

fn held_by(holder: &str) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        lease_transitions: Some(4),
        acquire_time: Some(MicroTime(Timestamp::from_second(1_000).unwrap())),
        ..LeaseSpec::default()
    }
}

/// The step for a lease first seen in this form `age` seconds ago.
fn step(mode: Mode, spec: Option<LeaseSpec>, trust: Trust, age: u64) -> Step {
    let since = Instant::now();
    let sight = spec.map_or(Sight::Absent, |spec| Sight::Seen { spec, since });
    decide(&config(mode), &Observed { sight, trust }, since + Duration::from_secs(age))
}

#[test]
fn a_contender_follows_client_go() {
    let step = |spec, trust, age| step(Mode::Contended, spec, trust, age);
    let held = |name: &str| Step::Stand(Reason::Held(name.to_owned()));
    for (spec, trust, age, expected) in [
        (None, Trust::Remembered, 0, Step::Read),
        (None, Trust::Fresh, 0, Step::Create),
        (Some(held_by("me")), Trust::Remembered, 14, Step::Renew(Path::Fast)),
        (Some(held_by("me")), Trust::Remembered, 15, Step::Read),
        (Some(held_by("me")), Trust::Doubtful, 1, Step::Read),
        (Some(held_by("me")), Trust::Fresh, 99, Step::Renew(Path::Slow)),
        (Some(held_by("you")), Trust::Remembered, 99, Step::Read),
        (Some(held_by("you")), Trust::Fresh, 14, held("you")),
        (Some(held_by("you")), Trust::Fresh, 15, Step::TakeOver),
        (Some(held_by("")), Trust::Fresh, 0, Step::TakeOver),
        (Some(LeaseSpec::default()), Trust::Fresh, 0, Step::TakeOver),
    ] {
        assert_eq!(step(spec.clone(), trust, age), expected, "{spec:?} {trust:?} {age}");
    }
}

#[test]
fn a_deleted_lease_is_created_once_no_other_term_can_go_on() {
    let seen_at = Instant::now();
    let waits = Step::Stand(Reason::Deleted);
    let longer = LeaseSpec { lease_duration_seconds: Some(40), ..held_by("you") };
    let released = LeaseSpec { lease_duration_seconds: Some(1), ..held_by("") };
    for (seen, mode, gone_after, age, expected) in [
        // Its holder may have renewed it up to the deletion.
        (held_by("you"), Mode::Contended, 100, 0, &waits),
        (held_by("you"), Mode::Contended, 1, 14, &waits),
        (held_by("you"), Mode::Contended, 1, 15, &Step::Create),
        (longer.clone(), Mode::Contended, 1, 39, &waits),
        (longer, Mode::Contended, 1, 40, &Step::Create),
        (held_by("me"), Mode::Contended, 4, 5, &Step::Create),
        // Another candidate may have taken it or created another one, unseen by this candidate.
        (held_by("me"), Mode::Contended, 4, 6, &waits),
        (held_by("me"), Mode::Contended, 10, 0, &waits),
        (held_by("me"), Mode::Contended, 10, 15, &Step::Create),
        (released.clone(), Mode::Contended, 2, 14, &waits),
        (released, Mode::Contended, 2, 15, &Step::Create),
        (held_by("you"), Mode::Coordinated, 1, 0, &Step::Stand(Reason::NotCreated)),
        (held_by("you"), Mode::Coordinated, 1, 99, &Step::Stand(Reason::NotCreated)),
    ] {
        let (config, mut observed) = (config(mode), Observed::nothing());
        observed.read(Some(seen.clone()), seen_at);
        let found_gone = seen_at + Duration::from_secs(gone_after);
        observed.read(None, found_gone);
        let now = found_gone + Duration::from_secs(age);
        observed.read(None, now);
        assert_eq!(&decide(&config, &observed, now), expected, "{seen:?} {mode:?} {gone_after} {age}");
        assert_eq!(observed.spec(), None, "a deleted lease has no holder");
    }
}

#[test]
fn a_candidate_tries_when_the_lease_expires_and_polls_less_with_a_watch() {
    let (start, jittered) = (Instant::now(), Duration::from_secs(3));
    let seen = |spec| Sight::Seen { spec, since: start };
    let deleted = |spec| Sight::Deleted { spec, seen: start, since: start };
    let longer = LeaseSpec { lease_duration_seconds: Some(40), ..held_by("you") };
    for (mode, sight, heard, by_polls, by_watch) in [
        (Mode::Contended, Sight::Absent, 0, 3, 5),
        (Mode::Contended, seen(held_by("you")), 0, 3, 5),
        (Mode::Contended, seen(held_by("you")), 11, 14, 15),
        (Mode::Contended, seen(held_by("you")), 13, 15, 15),
        // It has expired, and the try at that time failed.
        (Mode::Contended, seen(held_by("you")), 15, 18, 20),
        (Mode::Contended, seen(held_by("")), 14, 17, 19),
        (Mode::Contended, deleted(held_by("you")), 13, 15, 15),
        (Mode::Contended, deleted(held_by("")), 13, 15, 15),
        (Mode::Contended, deleted(longer.clone()), 13, 16, 18),
        (Mode::Contended, deleted(longer), 39, 40, 40),
        // The coordinator gives an expired lease to a candidate.
        (Mode::Coordinated, seen(held_by("you")), 13, 16, 18),
        (Mode::Coordinated, deleted(held_by("you")), 13, 16, 18),
    ] {
        let observed = Observed { sight: sight.clone(), trust: Trust::Fresh };
        let next = |source| {
            let heard = start + Duration::from_secs(heard);
            (next_try(&config(mode), &observed, source, jittered, heard) - start).as_secs()
        };
        let found = (next(Source::Polls), next(Source::Watch));
        assert_eq!(found, (by_polls, by_watch), "{mode:?} {sight:?} {heard}");
    }
}

#[test]
fn what_the_watch_shows_calls_for_a_try_if_the_lease_may_be_ours() {
    for (mode, spec, age, expected) in [
        (Mode::Contended, held_by("you"), 0, false),
        (Mode::Contended, held_by(""), 0, true),
        // The candidate's write succeeded after all.
        (Mode::Contended, held_by("me"), 0, true),
        (Mode::Contended, LeaseSpec { lease_duration_seconds: None, ..held_by("you") }, 0, true),
        (Mode::Coordinated, held_by("me"), 0, true),
        (Mode::Coordinated, held_by("you"), 0, false),
        (Mode::Coordinated, held_by(""), 0, false),
    ] {
        let (start, mut observed) = (Instant::now(), Observed::nothing());
        observed.read(Some(spec.clone()), start);
        let found = calls_for_a_try(&config(mode), &observed, start + Duration::from_secs(age));
        assert_eq!(found, expected, "{mode:?} {spec:?}");
    }
}

/// The clocks of two machines may run at different speeds. The leader measures the renew deadline with its own clock, and
/// the candidate the lease duration with its own: the fence closes first while the candidate's clock is less than
/// 15/10 as fast as the leader's.
#[test]
fn a_candidate_whose_clock_runs_faster_takes_the_lease_after_the_leaders_fence_has_closed() {
    let config = config(Mode::Contended);
    let seconds = Duration::from_secs_f64;
    for (leaders, candidates, is_safe) in
        [(1.0, 1.0, true), (0.9, 1.1, true), (1.0, 1.49, true), (0.68, 1.0, true), (1.0, 1.51, false)]
    {
        let renewed = Instant::now();
        // The candidate hears of a renewal when it is made, at the earliest.
        let mut observed = Observed::nothing();
        observed.read(Some(held_by("you")), renewed);
        let closes = config.renew_deadline.as_secs_f64() / leaders;
        let candidates_time = renewed + seconds(closes * candidates);
        let takes = decide(&config, &observed, candidates_time) == Step::TakeOver;
        assert_eq!(!takes, is_safe, "{leaders} {candidates}");
    }
}

#[test]
fn a_contender_does_not_care_for_a_preferred_holder() {
    let spec = LeaseSpec { preferred_holder: Some("you".to_owned()), ..held_by("me") };
    assert_eq!(step(Mode::Contended, Some(spec), Trust::Fresh, 1), Step::Renew(Path::Slow));
}

#[test]
fn a_coordinated_candidate_only_renews_what_it_was_given() {
    let step = |spec, trust, age| step(Mode::Coordinated, spec, trust, age);
    let preferred = LeaseSpec { preferred_holder: Some("you".to_owned()), ..held_by("me") };
    for (spec, trust, age, expected) in [
        (Some(held_by("me")), Trust::Remembered, 1, Step::Read),
        (None, Trust::Fresh, 0, Step::Stand(Reason::NotCreated)),
        (Some(held_by("me")), Trust::Fresh, 15, Step::Renew(Path::Slow)),
        (Some(held_by("me")), Trust::Fresh, 16, Step::Stand(Reason::Expired)),
        (Some(held_by("you")), Trust::Fresh, 1, Step::Stand(Reason::Held("you".to_owned()))),
        (Some(preferred), Trust::Fresh, 1, Step::Stand(Reason::EndOfTerm("you".to_owned()))),
    ] {
        assert_eq!(step(spec.clone(), trust, age), expected, "{spec:?} {trust:?} {age}");
    }
}

#[test]
fn expiry_starts_anew_only_when_the_record_changes() {
    let start = Instant::now();
    let mut observed = Observed::nothing();
    observed.read(Some(held_by("you")), start);
    observed.read(Some(held_by("you")), start + Duration::from_secs(5));
    assert!(matches!(observed.sight, Sight::Seen { since, .. } if since == start));
    let renewed = LeaseSpec { renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)), ..held_by("you") };
    observed.read(Some(renewed), start + Duration::from_secs(6));
    assert!(matches!(observed.sight, Sight::Seen { since, .. } if since == start + Duration::from_secs(6)));
}

#[test]
fn what_is_written_is_what_client_go_writes() {
    let stamp: Timestamp = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
    let json = |spec: LeaseSpec| serde_json::to_value(spec).unwrap();
    let coordinated = LeaseSpec { strategy: Some("OldestEmulationVersion".to_owned()), ..held_by("me") };
    let now = "2026-01-02T03:04:05.678901Z";
    let then = "1970-01-01T00:16:40.000000Z";
    assert_eq!(
        json(decide::created(&config(Mode::Contended), stamp)),
        serde_json::json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now,
            "leaseTransitions": 0,
        })
    );
    assert_eq!(
        json(decide::renewed(&config(Mode::Contended), &coordinated, stamp)),
        serde_json::json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": then, "renewTime": now,
            "leaseTransitions": 4,
        })
    );
    assert_eq!(
        decide::renewed(&config(Mode::Coordinated), &coordinated, stamp).strategy,
        coordinated.strategy,
        "a coordinated lease keeps its strategy"
    );
    assert_eq!(
        json(decide::taken(&config(Mode::Contended), &held_by("you"), stamp)),
        serde_json::json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now,
            "leaseTransitions": 5,
        })
    );
    assert_eq!(
        json(decide::released(&held_by("me"), stamp)),
        serde_json::json!({
            "holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now,
            "leaseTransitions": 4,
        })
    );
}
