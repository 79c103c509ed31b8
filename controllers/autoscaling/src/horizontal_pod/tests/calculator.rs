//! How many replicas a metric calls for. The situations are those of upstream's tests of its replica calculator.

use super::super::calculator::{Proposal, sum, sum_for_each};
use super::super::pods::{Pod, State};
use super::super::requests::requests;
use super::super::tolerance::Tolerances;
use super::super::usage::Goal;
use super::scenes::{Like, pod, pods, samples, scene};

const OK: fn(Pod) -> Pod = |pod| pod;
const UNREADY: fn(Pod) -> Pod = Like::unready;
const NEW: fn(Pod) -> Pod = Like::newly;
const NEW_UNREADY: fn(Pod) -> Pod = |pod| Like::newly(pod).unready();
const PENDING: fn(Pod) -> Pod = |pod| pod.unready().is(State::Pending);
const ENDING: fn(Pod) -> Pod = |pod| pod.is(State::Ending);

/// What a percentage of the requests of processors calls for.
fn percent(wanted: i32, pods: &[Pod], used: &[i64], percent: i32) -> Result<Proposal, String> {
    let goal = || Ok(Goal::Utilization { percent, requests: requests(pods, "", "cpu", true)? });
    scene(wanted, pods).by_pods(&samples(used), "cpu", goal)
}

fn average(wanted: i32, pods: &[Pod], used: &[i64], target: i64) -> Result<Proposal, String> {
    scene(wanted, pods).by_pods(&samples(used), "", || Ok(Goal::Average(target)))
}

#[test]
fn a_percentage_of_the_requests() {
    // Replicas, pods, what each uses (both containers together, of 2000m), the goal; then replicas, percentage, average.
    type Row<'a> = (&'a str, i32, Vec<fn(Pod) -> Pod>, &'a [i64], i32, (i32, i32, i64));
    let rows: &[Row<'_>] = &[
        ("grows", 3, vec![OK; 3], &[600, 1000, 1400], 30, (5, 50, 1000)),
        ("grows less with unready pods", 3, vec![UNREADY, OK, OK], &[600, 1000, 1400], 30, (4, 60, 1200)),
        ("grows less with new pods", 3, vec![NEW, OK, OK], &[600, 1000, 1400], 30, (4, 60, 1200)),
        ("unready pods prevent growth", 3, vec![OK, UNREADY, UNREADY], &[800, 1000, 1400], 30, (3, 40, 800)),
        (
            "new pods prevent growth",
            3,
            vec![OK, NEW_UNREADY, NEW_UNREADY],
            &[800, 1000, 1400],
            30,
            (3, 40, 800),
        ),
        ("ending pods don't count", 2, vec![OK, OK, ENDING, ENDING], &[1000, 1400], 30, (4, 60, 1200)),
        (
            "ending pods with values don't count",
            2,
            vec![OK, OK, ENDING],
            &[1000, 1400, 9000],
            30,
            (4, 60, 1200),
        ),
        ("shrinks", 5, vec![OK; 5], &[200, 600, 1000, 500, 500], 50, (3, 28, 560)),
        (
            "shrinks by the ready pods",
            5,
            vec![OK, OK, OK, UNREADY, UNREADY],
            &[200, 600, 1000, 500, 500],
            50,
            (2, 30, 600),
        ),
        (
            "shrinks by the scheduled pods",
            5,
            vec![OK, PENDING, PENDING, PENDING, PENDING],
            &[200],
            50,
            (1, 10, 200),
        ),
        (
            "shrinks by the older pods",
            5,
            vec![OK, OK, OK, NEW, NEW],
            &[200, 600, 1000, 500, 500],
            50,
            (2, 30, 600),
        ),
        (
            "pods that are gone have values",
            4,
            vec![OK; 4],
            &[8000, 19000, 6000, 14000, 6400, 4000],
            100,
            (24, 587, 11750),
        ),
        ("missing values shrink as if the pods used all", 4, vec![OK; 4], &[800, 190], 100, (3, 24, 495)),
        ("as called for, with missing values", 2, vec![OK; 2], &[2000], 100, (2, 100, 2000)),
        ("too much, with missing values", 2, vec![OK; 2], &[3800], 100, (2, 190, 3800)),
        ("too little, with missing values", 2, vec![OK; 2], &[1200], 100, (2, 60, 1200)),
        ("missing and unready, close to the goal", 3, vec![UNREADY, OK, OK], &[200, 900], 50, (3, 45, 900)),
        ("missing and new, close to the goal", 3, vec![NEW, OK, OK], &[200, 900], 50, (3, 45, 900)),
        ("missing and unready, much too much", 3, vec![UNREADY, OK, OK], &[200, 4000], 50, (4, 200, 4000)),
        ("missing and new, much too much", 3, vec![NEW_UNREADY, OK, OK], &[200, 4000], 50, (4, 200, 4000)),
        (
            "missing and unready, much too little",
            4,
            vec![UNREADY, OK, OK, OK],
            &[200, 200, 200],
            50,
            (3, 10, 200),
        ),
        ("more pods than replicas, one without a value", 2, vec![OK; 3], &[200, 200], 50, (2, 10, 200)),
    ];
    for (name, wanted, changes, used, goal, (replicas, used_percent, usage)) in rows {
        let found = percent(*wanted, &pods(changes), used, *goal);
        let expected = Proposal { replicas: *replicas, usage: *usage, percent: Some(*used_percent) };
        assert_eq!(found, Ok(expected), "{name}");
    }
}

#[test]
fn a_goal_beyond_the_requests_is_what_pods_without_values_use_when_replicas_are_removed() {
    let request = |at: usize, cpu: &str| pod(&format!("p{at}")).requests(cpu);
    let pods = [request(0, "1").unready(), request(1, "1"), request(2, "2"), request(3, "2")];
    let found = percent(4, &pods, &[400, 200, 200], 300).unwrap();
    assert_eq!((found.replicas, found.percent, found.usage), (2, Some(6), 200));
}

#[test]
fn small_deviations_have_no_effect() {
    let pods: Vec<Pod> = ["900m", "1", "1100m"]
        .iter()
        .enumerate()
        .map(|(at, cpu)| pod(&format!("p{at}")).requests(cpu))
        .collect();
    assert_eq!(percent(3, &pods, &[2020, 2060, 2040], 100).unwrap().replicas, 3);
    let with = |tolerances, values: &[i64], target| {
        let scene = super::super::calculator::Scene { tolerances, ..scene(3, &pods) };
        scene.by_pods(&samples(values), "", || Ok(Goal::Average(target))).unwrap().replicas
    };
    let (usual, exact) = (Tolerances { down: 0.1, up: 0.1 }, Tolerances { down: 0.1, up: 0.01 });
    assert_eq!(with(usual, &[20_000, 21_000, 21_000], 20_000), 3);
    assert_eq!(with(exact, &[20_000, 21_000, 21_000], 20_000), 4);
    assert_eq!(with(usual, &[12_000, 12_000, 12_000], 20_000), 2);
    assert_eq!(with(Tolerances { down: 0.5, up: 0.1 }, &[12_000, 12_000, 12_000], 20_000), 3);
    // The bounds themselves are within, as far as floats can tell.
    assert_eq!(with(usual, &[11_000, 11_000, 11_000], 10_000), 3);
    assert_eq!(with(usual, &[11_001, 11_001, 11_001], 10_000), 4);
}

#[test]
fn an_average_of_a_metric_of_pods() {
    type Row<'a> = (&'a str, i32, Vec<fn(Pod) -> Pod>, &'a [i64], i64, (i32, i64));
    let rows: &[Row<'_>] = &[
        ("grows", 3, vec![OK; 3], &[20_000, 10_000, 30_000], 15_000, (4, 20_000)),
        (
            "readiness does not count",
            3,
            vec![OK, OK, NEW_UNREADY],
            &[50_000, 10_000, 30_000],
            15_000,
            (6, 30_000),
        ),
        (
            "readiness does not count at all",
            3,
            vec![NEW_UNREADY, OK, NEW_UNREADY],
            &[50_000, 15_000, 30_000],
            15_000,
            (7, 31_666),
        ),
        ("shrinks", 5, vec![OK; 5], &[12_000; 5], 20_000, (3, 12_000)),
        (
            "as called for, with missing values",
            5,
            vec![OK; 5],
            &[20_000, 19_000, 21_000],
            20_000,
            (5, 20_000),
        ),
        (
            "more pods than replicas, one without a value",
            2,
            vec![OK; 3],
            &[10_000, 10_000],
            17_000,
            (2, 10_000),
        ),
        ("unready only if pending", 2, vec![OK, PENDING], &[30_000, 30_000], 10_000, (3, 30_000)),
    ];
    for (name, wanted, changes, used, goal, (replicas, usage)) in rows {
        let found = average(*wanted, &pods(changes), used, *goal);
        assert_eq!(found, Ok(Proposal { replicas: *replicas, usage: *usage, percent: None }), "{name}");
    }
}

#[test]
fn a_value_for_the_whole_target() {
    let all = pods(&[OK; 5]);
    let one = pods(&[UNREADY, OK, UNREADY]);
    let exact = Tolerances { down: 0.1, up: 0.01 };
    let leaving = pods(&[OK, OK, |pod| Pod { state: State::Ending, ..pod }, ENDING]);
    for (name, pods, wanted, usage, target, replicas) in [
        ("pods that are being deleted count while they are ready", &leaving[..], 2, 20_000, 10_000, 6),
        ("grows by the pods", &all[..3], 3, 20_000, 15_000, 4),
        ("only ready pods count", &one[..], 3, 50_000, 10_000, 5),
        ("only ready pods count, few", &one[..], 3, 8_600, 4_400, 2),
        ("shrinks", &all[..], 5, 12_000, 20_000, 3),
        ("shrinks by a hair", &all[..], 5, 8_600, 14_334, 3),
        ("close", &all[..3], 3, 20_666, 20_000, 3),
        ("close below", &all[..3], 3, 8_600, 8_888, 3),
        ("grows from zero, whatever the tolerance", &[], 0, 10_500, 10_000, 2),
        ("grows from zero", &[], 0, 1, 10_000, 1),
        ("stays at zero", &[], 0, 0, 10_000, 0),
        ("is huge", &all[..3], 3, i64::MAX, 1, i32::MAX),
    ] {
        let found = scene(wanted, pods).by_value(usage, target).unwrap();
        assert_eq!(found, Proposal { replicas, usage, percent: None }, "{name}");
    }
    let scene = super::super::calculator::Scene { tolerances: exact, ..scene(3, &all[..3]) };
    assert_eq!(scene.by_value(20_666, 20_000).unwrap().replicas, 4);
    assert_eq!(scene.by_value(8_900, 8_800).unwrap().replicas, 4);
}

#[test]
fn a_value_for_each_pod() {
    for (name, current, usage, target, replicas, average) in [
        ("grows", 3, 20_000, 5_000, 4, 6_667),
        ("grows, rounded", 3, 8_600, 2_150, 4, 2_867),
        ("shrinks", 5, 6_000, 2_000, 3, 1_200),
        ("shrinks, rounded", 5, 8_600, 2_867, 3, 1_720),
        ("close", 4, 20_166, 5_000, 4, 5_042),
        ("close below", 3, 8_600, 2_900, 3, 2_867),
        ("has no pods", 0, 8_600, 2_000, 5, i64::MAX),
        ("has no pods and no work", 0, 0, 2_000, 0, 0),
        ("is huge", 1, i64::MAX, 1, i32::MAX, i64::MAX),
        ("is huge, and so is the goal", 1, i64::MAX, i64::MAX, 1, i64::MAX),
        ("is huge, and divided", 4, i64::MAX, i64::MAX, 1, 1 << 61),
    ] {
        let found = scene(current, &[]).by_value_per_pod(usage, target);
        assert_eq!((found.replicas, found.usage), (replicas, average), "{name}");
    }
    // Upstream divides a huge value of an object, but not a huge sum of an external metric's values.
    assert_eq!(scene(4, &[]).by_sum_per_pod(i64::MAX, i64::MAX).usage, i64::MAX);
    assert_eq!(scene(4, &[]).by_sum_per_pod(20_166, 5_000).usage, 5_042);
    let exact = Tolerances { down: 0.1, up: 0.01 };
    let scene = |current| super::super::calculator::Scene { tolerances: exact, ..scene(current, &[]) };
    assert_eq!(scene(4).by_value_per_pod(20_208, 5_000).replicas, 5);
    assert_eq!(scene(3).by_value_per_pod(8_600, 2_800).replicas, 4);
}

#[test]
fn the_values_of_series_are_added_without_overflow() {
    assert_eq!(sum(&[]), 0);
    assert_eq!(sum(&[8_600, -600]), 8_000);
    assert_eq!(sum(&[i64::MAX / 2 + 1, i64::MAX / 2 + 1]), i64::MAX);
    // What follows an overflow does not count.
    assert_eq!(sum(&[i64::MAX, 1, -5]), i64::MAX);
    assert_eq!(sum(&[-5, 3]), -2);
    assert_eq!(sum_for_each(&[8_600, -600]), 8_000);
    assert_eq!(sum_for_each(&[i64::MAX, 1, 7]), i64::MAX);
    // Upstream takes this for an overflow.
    assert_eq!(sum_for_each(&[-5, 30]), i64::MAX);
    assert_eq!(scene(3, &pods(&[OK; 3])).by_value(i64::MAX, i64::MAX).unwrap().replicas, 3);
}

#[test]
fn without_pods_or_values_nothing_is_called_for() {
    let error = |found: Result<Proposal, String>| found.unwrap_err();
    let unready = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(
        error(percent(1, &[], &[100], 50)),
        "no pods returned by selector while calculating replica count"
    );
    assert_eq!(error(percent(2, &pods(&[UNREADY, ENDING]), &[100, 100], 50)), unready);
    assert_eq!(error(average(2, &pods(&[PENDING, PENDING]), &[100, 100], 50)), unready);
    let found = scene(1, &pods(&[OK])).by_pods(&samples(&[]), "cpu", || Ok(Goal::Average(1)));
    assert_eq!(error(found), unready);
    // The only value is that of a pod that is gone.
    let elsewhere = [pod("other")];
    assert_eq!(error(percent(1, &elsewhere, &[100], 100)), "no metrics returned matched known pods");
    let none = "unable to calculate ready pods: no pods returned by selector while calculating replica count";
    assert_eq!(error(scene(1, &[]).by_value(5, 1)), none);
}

#[test]
fn hostile_values_do_no_harm() {
    let all = pods(&[OK; 2]);
    for values in [[i64::MAX, i64::MAX], [i64::MIN, i64::MIN], [i64::MIN, i64::MAX], [0, -1]] {
        for goal in [1, i32::MAX] {
            drop(percent(2, &all, &values, goal));
            drop(average(2, &all, &values, goal.into()));
        }
    }
    for (usage, target) in [(i64::MIN, 1), (i64::MAX, 0), (0, 0), (1, -1)] {
        drop(scene(2, &all).by_value(usage, target));
        scene(2, &all).by_value_per_pod(usage, target);
    }
}
