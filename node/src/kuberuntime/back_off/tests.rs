use proptest::prelude::*;

use super::*;
use crate::kuberuntime::actions::testing;

const KEY: BackOffKey = BackOffKey(1);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn wait(delay: u64, until: i64) -> Decision {
    Decision::Wait { delay: Duration::from_secs(delay), until: at(until) }
}

#[test]
fn the_wait_doubles_from_ten_seconds_to_five_minutes() {
    let mut back_off = CrashLoopBackOff::default();
    let mut now = 0;
    assert_eq!(back_off.check_key(KEY, at(now), at(now)), Decision::Start);
    for delay in [10, 20, 40, 80, 160, 300, 300, 300] {
        // It ends at once, is held to its wait, and starts when that is over.
        let due = now + i64::try_from(delay).unwrap();
        assert_eq!(back_off.check_key(KEY, at(now), at(due - 1)), wait(delay, due));
        assert_eq!(back_off.check_key(KEY, at(now), at(due)), Decision::Start, "after {delay} s");
        now = due;
    }
}

#[test]
fn a_container_that_ran_for_ten_minutes_starts_over() {
    let mut back_off = CrashLoopBackOff::default();
    for ended in [0, 10, 30] {
        assert_eq!(back_off.check_key(KEY, at(ended), at(ended + 20)), Decision::Start);
    }
    // Started at 50 s; an end at exactly ten minutes later is still held to its wait.
    assert_eq!(back_off.check_key(KEY, at(650), at(651)), wait(40, 690));
    assert_eq!(back_off.check_key(KEY, at(651), at(651)), Decision::Start);
    assert_eq!(back_off.check_key(KEY, at(652), at(653)), wait(10, 662));
}

#[test]
fn a_lower_cap_lowers_the_first_wait_too() {
    let mut back_off = CrashLoopBackOff::new(Duration::from_secs(3));
    assert_eq!(back_off.check_key(KEY, at(0), at(0)), Decision::Start);
    assert_eq!(back_off.check_key(KEY, at(0), at(1)), wait(3, 3));
    assert_eq!(back_off.check_key(KEY, at(0), at(3)), Decision::Start);
    assert_eq!(back_off.check_key(KEY, at(3), at(4)), wait(3, 6));
}

#[test]
fn only_a_container_that_ended_waits() {
    let mut scene = testing::base();
    let container = scene.pod.spec.as_ref().unwrap().containers[0].clone();
    let mut back_off = CrashLoopBackOff::default();
    for _ in 0..3 {
        // It runs: nothing is counted.
        assert_eq!(back_off.check(&scene.pod, &container, &scene.status, at(0)), Decision::Start);
    }
    assert!(back_off.is_empty());
    scene.status.containers[0].state = ContainerState::Exited;
    scene.status.containers[0].finished_at = Some(at(0));
    assert_eq!(back_off.check(&scene.pod, &container, &scene.status, at(1)), Decision::Start);
    assert_eq!(back_off.check(&scene.pod, &container, &scene.status, at(2)), wait(10, 10));

    let changed = Container { image: Some("busybox:2".into()), ..container };
    assert_eq!(back_off.check(&scene.pod, &changed, &scene.status, at(2)), Decision::Start, "a new image");
}

#[test]
fn what_would_start_over_is_forgotten() {
    let mut back_off = CrashLoopBackOff::default();
    back_off.check_key(KEY, at(0), at(0));
    back_off.check_key(BackOffKey(2), at(0), at(1));
    back_off.collect_garbage(at(600));
    assert_eq!(back_off.len(), 2);
    back_off.collect_garbage(at(601));
    assert_eq!(back_off.len(), 1);
}

#[test]
fn messages_tell_the_wait_as_go_prints_it() {
    let pod = testing::base().pod;
    for (seconds, text) in
        [(1.5, "1.5s"), (10.0, "10s"), (80.0, "1m20s"), (300.0, "5m0s"), (3600.0, "1h0m0s")]
    {
        let expected = format!("back-off {text} restarting failed container=app pod=foo_foo-ns(12345678)");
        assert_eq!(message(Duration::from_secs_f64(seconds), "app", &pod), expected);
    }
}

proptest! {
    /// However a container's ends and the checks fall, its waits stay between the first and the longest, none is longer than
    /// twice the one before, and one that is waited out ends in a start.
    #[test]
    fn waits_stay_in_bounds(steps in prop::collection::vec((0i64..1000, 0i64..400), 1..40)) {
        let mut back_off = CrashLoopBackOff::default();
        let (mut now, mut before) = (0, Duration::ZERO);
        for (ran, late) in steps {
            let finished = now + ran;
            now = finished + late;
            if let Decision::Wait { delay, until } = back_off.check_key(KEY, at(finished), at(now)) {
                prop_assert!(delay >= INITIAL && delay <= MAX);
                prop_assert!(before.is_zero() || delay <= before * 2);
                prop_assert!(until > at(now));
                prop_assert_eq!(back_off.check_key(KEY, at(finished), until), Decision::Start);
                before = delay;
                now = until.as_second() - at(0).as_second();
            } else {
                before = Duration::ZERO;
            }
        }
    }
}
