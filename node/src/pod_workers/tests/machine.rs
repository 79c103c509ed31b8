//! The state machine of one pod.

use rand::Rng;
use tokio::sync::oneshot;

use super::*;
use crate::pod_workers::grace;
use crate::pod_workers::status::{PodSyncStatus, Reaction, Removal, Work};

fn fresh() -> PodSyncStatus {
    PodSyncStatus::new("a_ns".to_owned())
}

/// A pod that was created and synced once.
fn running() -> PodSyncStatus {
    let mut status = fresh();
    assert_eq!(status.update(create(pod("a")), true), Reaction::Wake);
    assert!(matches!(status.begin().unwrap().work, Work::Sync { .. }));
    status
}

fn terminating() -> PodSyncStatus {
    let mut status = running();
    assert_eq!(status.update(kill(pod("a")), false), Reaction::Interrupt);
    assert!(matches!(status.begin().unwrap().work, Work::Terminate(..)));
    status
}

fn terminated() -> PodSyncStatus {
    let mut status = terminating();
    status.complete_terminating();
    assert!(matches!(status.begin().unwrap().work, Work::CleanUp(_)));
    status
}

fn finished() -> PodSyncStatus {
    let mut status = terminated();
    status.complete_terminated();
    status
}

/// The grace that the worker is to stop the pod with.
fn grace_of(status: &mut PodSyncStatus) -> Option<i64> {
    match status.begin().expect("an update must be pending").work {
        Work::Terminate(_, termination) => termination.grace,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_ends_a_pod() {
    let evict = || Update { kill: Some(Kill { evict: true, ..Kill::default() }), ..kill(pod("a")) };
    for (why, update, is_deleted, is_evicted) in [
        ("deleted", update(deleted(pod("a"), 30)), true, false),
        ("succeeded", update(in_phase(pod("a"), "Succeeded")), false, false),
        ("failed", update(in_phase(pod("a"), "Failed")), false, false),
        ("killed", kill(pod("a")), false, false),
        ("evicted", evict(), false, true),
        ("told by the runtime", Update::kill_runtime_pod(runtime_pod("a")), true, false),
    ] {
        let mut status = running();
        assert_eq!(status.update(update, false), Reaction::Interrupt, "{why}");
        assert!(status.is_termination_requested(), "{why}");
        assert!(!status.is_termination_started(), "its worker has not seen it: {why}");
        assert_eq!((status.is_deleted(), status.is_evicted()), (is_deleted, is_evicted), "{why}");
        assert!(matches!(status.begin().unwrap().work, Work::Terminate(..)), "{why}");
        assert!(status.is_termination_started() && !status.is_terminated(), "{why}");
    }
    for (why, update) in [("the same", update(pod("a"))), ("running", update(in_phase(pod("a"), "Running")))]
    {
        let mut status = running();
        assert_eq!(status.update(update, false), Reaction::Wake, "{why}");
        assert!(!status.is_termination_requested(), "{why}");
    }
}

#[test]
fn a_pod_goes_through_its_states_in_order() {
    let mut status = fresh();
    assert_eq!(status.lifecycle(), Lifecycle::Sync);
    assert!(!status.is_started());
    status.update(create(pod("a")), true);
    let first = status.begin().unwrap();
    assert!(first.first && status.is_started());
    assert!(status.begin().is_none(), "nothing is pending");
    status.complete_sync();
    assert_eq!(status.lifecycle(), Lifecycle::Terminating);
    assert_eq!(grace_of(&mut status), None, "its containers ended by themselves");
    status.complete_terminating();
    assert_eq!(status.lifecycle(), Lifecycle::Terminated);
    assert!(!status.is_finished());
    let last = status.begin().unwrap();
    assert!(matches!(last.work, Work::CleanUp(_)) && !last.first);
    assert_eq!(last.kind, UpdateKind::Sync);
    status.complete_terminated();
    assert!(status.is_finished());
    assert!(status.begin().is_none());
}

#[test]
fn a_worker_begins_with_the_newest_update_only() {
    let mut status = fresh();
    let mut newer = pod("a");
    newer.metadata.generation = Some(2);
    let first = create(pod("a"));
    let since = first.since;
    status.update(first, true);
    status.update(update(newer), false);
    let job = status.begin().unwrap();
    let Work::Sync { pod, .. } = job.work else { panic!() };
    assert_eq!((pod.metadata.generation, job.kind), (Some(2), UpdateKind::Update));
    assert_eq!(job.since, since, "measured from the first of them");
    assert!(status.begin().is_none());
}

#[test]
fn an_update_after_a_kill_does_not_undo_it() {
    let mut status = fresh();
    status.update(create(pod("a")), true);
    status.update(kill(pod("a")), false);
    assert_eq!(status.update(update(pod("a")), false), Reaction::Wake);
    assert_eq!(grace_of(&mut status), Some(30));
    status.complete_terminating();
    assert!(matches!(status.begin().unwrap().work, Work::CleanUp(_)));
}

#[test]
fn the_first_grace_is_what_was_asked_for_and_at_least_a_second() {
    for (wanted, deletion, kill, expected) in [
        (Some(30), None, None, 30),
        (Some(30), Some(5), None, 5),
        (Some(30), Some(5), Some(2), 2),
        (Some(30), Some(60), None, 60),
        (Some(30), Some(0), None, 1),
        (Some(30), Some(5), Some(0), 1),
        (Some(0), None, None, 1),
        (None, None, None, 1),
        (Some(-3), None, None, 1),
    ] {
        let mut pod = pod("a");
        pod.spec.as_mut().unwrap().termination_grace_period_seconds = wanted;
        pod.metadata.deletion_grace_period_seconds = deletion;
        let grace = grace::effective(None, Some(&pod), kill);
        assert_eq!(grace, expected, "{wanted:?} {deletion:?} {kill:?}");
    }
    assert_eq!(grace::effective(None, None, Some(7)), 7);
}

#[test]
fn a_grace_only_becomes_shorter_and_then_interrupts() {
    let mut status = running();
    status.update(kill_within(pod("a"), 20), false);
    assert_eq!(grace_of(&mut status), Some(20));
    assert_eq!(status.update(kill_within(pod("a"), 25), false), Reaction::Wake);
    assert_eq!(grace_of(&mut status), Some(20));
    assert_eq!(status.update(kill_within(pod("a"), 5), false), Reaction::Interrupt);
    assert_eq!(grace_of(&mut status), Some(5));
    assert_eq!(status.update(update(deleted(pod("a"), 1)), false), Reaction::Interrupt);
    assert_eq!(grace_of(&mut status), Some(1));
    assert_eq!(status.update(kill_within(pod("a"), 0), false), Reaction::Wake);
    assert_eq!(grace_of(&mut status), Some(1));
}

#[test]
fn whoever_waits_for_a_kill_is_told_when_nothing_runs() {
    let waiting = || {
        let (done, told) = oneshot::channel();
        (Update { kill: Some(Kill { done: Some(done), ..Kill::default() }), ..kill(pod("a")) }, told)
    };
    let mut status = running();
    let (first, mut told_first) = waiting();
    let (second, mut told_second) = waiting();
    status.update(first, false);
    status.update(second, false);
    status.begin();
    assert!(told_first.try_recv() == Err(oneshot::error::TryRecvError::Empty));
    status.complete_terminating();
    assert_eq!((told_first.try_recv(), told_second.try_recv()), (Ok(()), Ok(())));
    for mut ended in [terminated(), finished()] {
        let (late, mut told) = waiting();
        ended.update(late, false);
        assert_eq!(told.try_recv(), Err(oneshot::error::TryRecvError::Closed), "nothing to wait for");
    }
}

#[test]
fn the_last_kill_says_what_becomes_of_the_status() {
    let change = |reason: &str| {
        let reason = reason.to_owned();
        let change = StatusChange::new(move |status| status.reason = Some(reason.clone()));
        Update { kill: Some(Kill { status: Some(change), ..Kill::default() }), ..kill(pod("a")) }
    };
    let mut status = running();
    status.update(change("Preempting"), false);
    status.update(change("Evicted"), false);
    status.update(update(pod("a")), false);
    let Work::Terminate(_, termination) = status.begin().unwrap().work else { panic!() };
    let mut told = ApiStatus::default();
    termination.status.unwrap().apply(&mut told);
    assert_eq!(told.reason.as_deref(), Some("Evicted"));
}

#[test]
fn a_pod_that_is_wanted_again_while_it_ends_is_not_started_again() {
    for (which, mut status) in
        [("terminating", terminating()), ("terminated", terminated()), ("finished", finished())]
    {
        assert_eq!(status.update(create(pod("a")), false), Reaction::Ignored, "{which}");
        assert!(status.is_restart_requested(), "{which}");
    }
    let mut new = fresh();
    new.update(create(deleted(pod("a"), 5)), true);
    assert!(!new.is_restart_requested(), "a pod that comes as deleted is not wanted again");
}

#[test]
fn a_finished_pod_takes_nothing_in() {
    let mut status = finished();
    for update in [update(pod("a")), kill(pod("a")), Update::kill_runtime_pod(runtime_pod("a"))] {
        assert_eq!(status.update(update, false), Reaction::Ignored);
    }
    assert!(status.begin().is_none());
}

#[test]
fn a_pod_of_the_runtime_alone_can_only_be_killed() {
    let mut status = fresh();
    let sync = Update { kind: UpdateKind::Sync, ..Update::kill_runtime_pod(runtime_pod("a")) };
    assert_eq!(status.update(sync, true), Reaction::Ignored);
    assert_eq!(status.update(Update::kill_runtime_pod(runtime_pod("a")), true), Reaction::Interrupt);
    assert!(status.is_deleted());
    assert_eq!(status.config(), KnownConfig::None);
    let job = status.begin().unwrap();
    assert!(matches!(job.work, Work::TerminateRuntime(_)) && !job.first);
    assert_eq!(terminated().update(Update::kill_runtime_pod(runtime_pod("a")), false), Reaction::Ignored);
}

#[test]
fn the_runtimes_word_does_not_replace_what_a_source_told() {
    for pending in [false, true] {
        let mut status = running();
        if pending {
            status.update(update(pod("a")), false);
        }
        status.update(Update::kill_runtime_pod(runtime_pod("a")), false);
        assert_eq!(grace_of(&mut status), Some(1), "{pending}");
        assert_eq!(status.config(), KnownConfig::Regular);
    }
}

#[test]
fn a_pod_that_ended_before_is_only_cleaned_up() {
    let mut status = PodSyncStatus::ended_before("a_ns".to_owned());
    assert!(status.is_terminated() && !status.is_finished());
    assert_eq!(status.update(create(in_phase(pod("a"), "Failed")), true), Reaction::Wake);
    assert!(matches!(status.begin().unwrap().work, Work::CleanUp(_)));
}

#[test]
fn what_becomes_of_a_pod_that_no_source_has() {
    let unstarted = || {
        let mut status = fresh();
        status.update(create(pod("a")), true);
        status
    };
    let of_runtime = || {
        let mut status = fresh();
        status.update(Update::kill_runtime_pod(runtime_pod("a")), true);
        status.begin();
        status
    };
    for (which, mut status, orphan, expected) in [
        ("finished", finished(), true, Removal::Forget),
        ("finished, wanted again", finished(), false, Removal::Forget),
        ("not started", unstarted(), true, Removal::Forget),
        ("not started, wanted", unstarted(), false, Removal::Keep),
        ("running", running(), true, Removal::Wake),
        ("running, wanted", running(), false, Removal::Keep),
        ("terminating", terminating(), true, Removal::Wake),
        ("terminating, wanted", terminating(), false, Removal::Keep),
        ("terminated", terminated(), true, Removal::Wake),
        ("of the runtime", of_runtime(), true, Removal::Wake),
    ] {
        assert_eq!(status.remove(orphan), expected, "{which}");
        if expected == Removal::Wake {
            assert!(status.is_deleted() && status.is_termination_requested(), "{which}");
            assert!(status.begin().is_some(), "its worker goes on: {which}");
        }
    }
}

#[test]
fn an_orphan_has_its_own_grace() {
    let mut status = running();
    status.remove(true);
    assert_eq!(grace_of(&mut status), Some(30));
}

#[test]
fn no_course_of_updates_leads_back() {
    let mut random = rand::rng();
    for _ in 0..2000 {
        let mut status = fresh();
        let (mut before, mut course) = (Lifecycle::Sync, Vec::new());
        let (mut grace, mut first) = (i64::MAX, true);
        for _ in 0..12 {
            let step = random.random_range(0..9);
            course.push(step);
            match step {
                0 => _ = status.update(create(pod("a")), first),
                1 => _ = status.update(update(pod("a")), first),
                2 => _ = status.update(kill_within(pod("a"), random.random_range(0..40)), first),
                3 => _ = status.update(update(deleted(pod("a"), random.random_range(0..40))), first),
                4 => _ = status.update(Update::kill_runtime_pod(runtime_pod("a")), first),
                5 => _ = status.remove(true),
                6 => _ = status.remove(false),
                // A worker does one thing after the other.
                _ => match status.begin().map(|job| job.work) {
                    None => {}
                    Some(Work::Sync { .. }) if step == 7 => status.complete_sync(),
                    Some(Work::Sync { .. }) => {}
                    Some(Work::Terminate(_, termination)) => {
                        let now = termination.grace.unwrap_or(grace);
                        assert!(now <= grace && now >= 1, "{course:?}");
                        grace = now;
                        if step == 7 {
                            status.complete_terminating();
                        }
                    }
                    Some(Work::TerminateRuntime(_)) => status.complete_terminating(),
                    Some(Work::CleanUp(_)) => status.complete_terminated(),
                },
            }
            first &= step > 4;
            assert!(status.lifecycle() >= before, "{course:?}");
            before = status.lifecycle();
            assert!(!status.is_finished() || status.begin().is_none(), "{course:?}");
        }
    }
}
