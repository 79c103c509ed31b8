//! Verdicts, timers and the age of taints, as tables.

use std::time::Duration;

use steersman_api::{ArcStr, ObjectKey, Time, Uid};
use steersman_kinds::node::Taint;
use steersman_kinds::scheduling::Toleration;
use tokio::time::Instant;

use crate::taint_eviction::tainted::{Now, Seen, TaintedNodes};
use crate::taint_eviction::timers::{Cancelled, Timers};
use crate::taint_eviction::verdict::Verdict::{LeavesAt, LeavesNow, Stays, Untainted};
use crate::taint_eviction::verdict::{Comparisons, NoExecuteTaint, Since, Verdict, verdict};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn taint(key: &str, value: &str, since: Since) -> NoExecuteTaint {
    NoExecuteTaint { key: key.into(), value: value.into(), since }
}

fn toleration(key: &str, operator: &str, value: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        key: key.into(),
        operator: operator.into(),
        value: value.into(),
        effect: "NoExecute".into(),
        seconds,
    }
}

/// A toleration of all values of a taint.
fn of(key: &str, seconds: Option<i64>) -> Toleration {
    toleration(key, "Exists", "", seconds)
}

#[test]
fn a_pod_leaves_when_the_first_toleration_runs_out_that_it_uses() {
    let now = Instant::now() + seconds(10_000);
    let fresh = Since::instant(now);
    let (a, b) = (taint("a", "1", fresh), taint("b", "", fresh));
    let at = |after| LeavesAt(now + seconds(after));
    for (name, taints, tolerations, expected) in [
        ("no taint", vec![], vec![of("a", Some(1))], Untainted),
        ("no toleration", vec![a.clone()], vec![], LeavesNow),
        ("toleration of another taint", vec![a.clone()], vec![of("b", None)], LeavesNow),
        (
            "toleration of another value",
            vec![a.clone()],
            vec![toleration("a", "Equal", "2", None)],
            LeavesNow,
        ),
        ("unknown operator", vec![a.clone()], vec![toleration("a", "Like", "1", None)], LeavesNow),
        ("finite toleration", vec![a.clone()], vec![of("a", Some(100))], at(100)),
        ("infinite toleration", vec![a.clone()], vec![of("a", None)], Stays),
        ("infinite toleration of the value", vec![a.clone()], vec![toleration("a", "", "1", None)], Stays),
        ("toleration of everything", vec![a.clone(), b.clone()], vec![of("", None)], Stays),
        ("negative toleration", vec![a.clone()], vec![of("a", Some(-1))], at(0)),
        ("zero toleration", vec![a.clone()], vec![of("a", Some(0))], at(0)),
        ("absurd toleration", vec![a.clone()], vec![of("a", Some(i64::MAX))], at(3_153_600_000)),
        ("only one taint tolerated", vec![a.clone(), b.clone()], vec![of("a", Some(100))], LeavesNow),
        (
            "the first to run out counts",
            vec![a.clone(), b.clone()],
            vec![of("a", Some(1)), of("b", Some(100))],
            at(1),
        ),
        ("one for ever, one not", vec![a.clone(), b.clone()], vec![of("a", None), of("b", Some(60))], at(60)),
        ("the first that matches counts", vec![a.clone()], vec![of("a", Some(100)), of("", None)], at(100)),
        ("an unused toleration", vec![a.clone()], vec![of("a", Some(100)), of("b", Some(1))], at(100)),
    ] {
        assert_eq!(verdict(&taints, &tolerations, None, Comparisons::Off, now), expected, "{name}");
    }
    let no_schedule = Toleration { effect: "NoSchedule".into(), ..of("a", None) };
    assert_eq!(verdict(&[a], &[no_schedule], None, Comparisons::Off, now), LeavesNow);
}

#[test]
fn numbers_compare_only_if_the_gate_is_on() {
    let now = Instant::now();
    for (value, operator, tolerated, stays) in [
        ("5", "Lt", "6", true),
        ("6", "Lt", "6", false),
        ("7", "Gt", "6", true),
        ("-7", "Lt", "-6", true),
        ("05", "Lt", "6", false),
        ("5", "Lt", "+6", false),
        ("a", "Gt", "1", false),
        ("9223372036854775808", "Gt", "1", false),
    ] {
        let taints = [taint("a", value, Since::instant(now))];
        let tolerations = [toleration("a", operator, tolerated, None)];
        let on = verdict(&taints, &tolerations, None, Comparisons::On, now);
        assert_eq!(on, if stays { Stays } else { LeavesNow }, "{value} {operator} {tolerated}");
        assert_eq!(verdict(&taints, &tolerations, None, Comparisons::Off, now), LeavesNow);
    }
}

#[test]
fn a_toleration_runs_from_when_the_taint_was_added_or_the_pod_came() {
    let now = Instant::now() + seconds(10_000);
    let ago = |age| Since { seen: now, age: seconds(age) };
    for (name, added, bound, left) in [
        ("both new", ago(0), None, 300),
        ("the taint is older than this process", ago(100), None, 200),
        ("its time is over", ago(400), None, 0),
        ("the taint was seen to appear", Since::instant(now - seconds(50)), None, 250),
        ("an old pod", ago(100), Some(ago(100_000)), 200),
        ("a pod that came to a tainted node", ago(100_000), Some(ago(10)), 290),
        ("a pod that came this instant", ago(100_000), Some(Since::instant(now)), 300),
        ("a taint before time began", ago(400_000_000_000), None, 0),
    ] {
        let verdict = verdict(&[taint("a", "", added)], &[of("a", Some(300))], bound, Comparisons::Off, now);
        assert_eq!(verdict, LeavesAt(now + seconds(left)), "{name}");
    }
}

#[test]
fn a_taint_that_was_there_before_counts_from_its_stamp_and_a_new_one_from_when_it_was_seen() {
    let now = Now { instant: Instant::now(), stamp: Time::from_seconds(1_000_000) };
    let added = |ago: i64| Taint {
        key: "a".into(),
        effect: "NoExecute".into(),
        time_added: Some(Time::from_seconds(1_000_000 - ago)),
        ..Taint::default()
    };
    let unstamped = Taint { time_added: None, ..added(0) };
    for (name, taint, seen, age) in [
        ("old", added(100), Seen::Initially, 100),
        ("from the future", added(-100), Seen::Initially, 0),
        ("without a stamp", unstamped, Seen::Initially, 0),
        ("new, by a clock that is behind", added(100), Seen::Changing, 0),
    ] {
        let mut nodes = TaintedNodes::default();
        let node = ArcStr::from("n");
        assert!(nodes.update(&node, std::slice::from_ref(&taint), seen, now), "{name}");
        assert_eq!(nodes.of("n")[0].since, Since { seen: now.instant, age: seconds(age) }, "{name}");
        // The same taint again, with another stamp, after the wall clock jumped.
        let later = Now { instant: now.instant + seconds(5), stamp: Time::from_seconds(5_000_000) };
        assert!(!nodes.update(&node, &[added(7)], Seen::Changing, later), "{name}");
        assert_eq!(nodes.of("n")[0].since, Since { seen: now.instant, age: seconds(age) }, "{name}");
        let cordoned = Taint { effect: "NoSchedule".into(), ..added(0) };
        assert!(nodes.update(&node, &[cordoned], Seen::Changing, later), "{name}");
        assert_eq!((nodes.of("n"), nodes.nodes().count()), (&[][..], 0), "{name}");
    }
}

#[test]
fn a_running_timer_is_cancelled_or_left_alone() {
    let now = Instant::now() + seconds(10_000);
    let at = |after| LeavesAt(now + seconds(after));
    for (name, verdicts, cancelled, due_after) in [
        ("it runs out", vec![at(10)], Cancelled::No, Some(10)),
        ("a longer toleration changes nothing", vec![at(10), at(100)], Cancelled::No, Some(10)),
        ("nor does a shorter one", vec![at(10), at(5)], Cancelled::No, Some(10)),
        ("the taint goes", vec![at(10), Untainted], Cancelled::Yes, None),
        ("it is tolerated for ever", vec![at(10), Stays], Cancelled::Yes, None),
        ("it is tolerated for ever, then not", vec![at(10), Stays, at(7)], Cancelled::No, Some(7)),
        ("another taint is not tolerated", vec![at(10), LeavesNow], Cancelled::Yes, Some(0)),
        ("twice", vec![at(10), LeavesNow, LeavesNow], Cancelled::No, Some(0)),
        ("nothing ran", vec![Stays, Untainted], Cancelled::No, None),
    ] {
        let (pod, uid) = (ObjectKey::new("ns", "a"), Uid::from("u"));
        let mut timers = Timers::default();
        let last = verdicts.into_iter().map(|verdict: Verdict| timers.apply(&pod, &uid, verdict, now)).last();
        assert_eq!(last, Some(cancelled), "{name}");
        let before = due_after.and_then(|after: u64| after.checked_sub(1));
        if let Some(before) = before {
            assert_eq!(timers.due(now + seconds(before)), None, "{name}");
        }
        let due = timers.due(now + seconds(1000));
        assert_eq!(due.map(|due| due.at), due_after.map(|after| now + seconds(after)), "{name}");
        assert_eq!(timers.due(now + seconds(1000)), None, "{name}");
    }
}

#[test]
fn a_deletion_that_failed_is_due_again_and_one_that_succeeded_is_not() {
    let now = Instant::now();
    let (pod, uid) = (ObjectKey::new("ns", "a"), Uid::from("u"));
    let mut timers = Timers::default();
    timers.apply(&pod, &uid, LeavesNow, now);
    let mut when = now;
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        let due = timers.due(when).expect("the pod must be due");
        assert_eq!(timers.apply(&pod, &uid, LeavesNow, when), Cancelled::No);
        timers.failed(&due, when);
        when += seconds(wait);
        assert_eq!((timers.next(), due.at), (Some(when), now));
    }
    let due = timers.due(when).unwrap();
    timers.deleted(&due);
    assert!(!timers.knows(&pod));
    // Another pod of that name begins anew.
    timers.apply(&pod, &uid, LeavesAt(now + seconds(5)), now);
    assert_eq!(timers.apply(&pod, &Uid::from("v"), LeavesAt(now + seconds(9)), now), Cancelled::Yes);
    assert_eq!(timers.due(now + seconds(8)), None);
    assert_eq!(timers.due(now + seconds(9)).unwrap().uid, Uid::from("v"));
}
