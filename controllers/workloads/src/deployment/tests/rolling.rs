use super::*;
use crate::deployment::plan::Stage;

#[test]
fn surge_is_rounded_up_and_unavailability_down_and_one_of_them_is_never_zero() {
    for (replicas, surge, unavailable, expected) in [
        (0, "0%", "0%", (0, 0)),
        (10, "39%", "39%", (4, 3)),
        (10, "0", "39%", (0, 3)),
        (10, "39%", "0", (4, 0)),
        (10, "0", "0", (0, 1)),
        (10, "1", "5", (1, 5)),
        (10, "1", "10", (1, 10)),
        (5, "1", "10", (1, 5)),
        (0, "1", "10", (1, 0)),
        (10, "1", "50%", (1, 5)),
        (5, "1", "100%", (1, 5)),
        (4, "25%", "25%", (1, 1)),
        (3, "25%", "25%", (1, 0)),
        (2, "0%", "1%", (0, 1)),
        (1, "1%", "25%", (1, 0)),
        (i32::MAX, "100%", "100%", (i32::MAX, i32::MAX)),
        (10, "4000000000%", "0", (400_000_000, 0)),
        (i32::MAX, "200%", "0", (i32::MAX, 0)),
    ] {
        let deployment = Deployment { strategy: rolling(surge, unavailable), ..web(replicas) };
        let bounds = (deployment.max_surge(), deployment.max_unavailable());
        assert_eq!(bounds, expected, "{replicas} replicas, surge {surge}, unavailable {unavailable}");
        assert_eq!(deployment.min_available(), replicas - expected.1);
    }
    let recreate = Deployment { strategy: Strategy::Recreate, ..web(10) };
    assert_eq!((recreate.max_surge(), recreate.max_unavailable()), (0, 0));
}

#[test]
fn the_new_set_grows_as_far_as_the_surge_allows() {
    for (name, surge, old, new, expected) in [
        ("no surge", "0", 10, 0, None),
        ("surge", "2", 10, 0, Some(2)),
        ("surge and room", "2", 5, 0, Some(7)),
        ("surge is used up", "2", 10, 2, None),
        ("no more than wanted", "10", 5, 2, Some(10)),
        ("too many", "2", 2, 11, Some(10)),
    ] {
        let deployment = Deployment { strategy: rolling(surge, "0"), ..web(10) };
        let sets = vec![
            set("old", old).available_are(0),
            set("new", new).updated().revision_is("2").available_are(0),
        ];
        let expected: Vec<_> = expected.map(|size| (ArcStr::from("new"), size)).into_iter().collect();
        let mut sizes = sizes(&observed(deployment, sets));
        sizes.retain(|(name, _)| name == "new");
        assert_eq!(sizes, expected, "{name}");
    }
}

#[test]
fn old_pods_go_as_far_as_availability_allows() {
    for (name, unavailable, old, old_available, new, new_available, expected) in [
        ("one of both bounds is one", "0", 10, 10, 0, 0, &[9][..]),
        ("two may be unavailable", "2", 10, 10, 0, 0, &[8]),
        ("two are unavailable, and go", "2", 10, 8, 0, 0, &[8]),
        ("one is unavailable and goes first", "2", 10, 9, 0, 0, &[9]),
        ("unavailable new pods hold old ones", "2", 8, 8, 2, 0, &[]),
        ("available new pods let old ones go", "2", 8, 8, 2, 2, &[6]),
        ("too few are available, and the rest goes up to the limit", "2", 10, 1, 0, 0, &[8]),
        ("nothing is left", "2", 0, 0, 10, 10, &[]),
    ] {
        let deployment = Deployment { strategy: rolling("0", unavailable), ..web(10) };
        let new = set("new", new).updated().revision_is("2").available_are(new_available);
        let sets = vec![set("old", old).available_are(old_available), new];
        let expected: Vec<_> = expected.iter().map(|size| (ArcStr::from("old"), *size)).collect();
        assert_eq!(sizes(&observed(deployment, sets)), expected, "{name}");
    }
}

#[test]
fn unhealthy_old_pods_go_before_available_ones_and_from_the_oldest_set_first() {
    let deployment = Deployment { strategy: rolling("0", "3"), ..web(10) };
    let sets = vec![
        set("a", 5).age(300).available_are(4),
        set("b", 5).age(200).available_are(4),
        set("new", 0).updated().age(100).revision_is("2"),
    ];
    let mut observed = observed(deployment, sets);
    assert_eq!(sizes(&observed), [("a".into(), 4), ("b".into(), 4)]);
    for (set, to) in observed.sets.iter_mut().zip([4, 4]) {
        set.replicas = to;
    }
    observed.done.scaled = Some(Stage::Unhealthy);
    assert_eq!(sizes(&observed), [("a".into(), 3)], "one more may be unavailable");
    observed.sets[0].replicas = 3;
    observed.done.scaled = Some(Stage::Old);
    assert_eq!(sizes(&observed), [], "a sync scales once");
}

#[test]
fn a_set_that_was_scaled_down_counts_as_what_it_will_be() {
    // It still reports ten available pods, of which it must delete two.
    let shrunk = ReplicaSet { replicas: 8, ..set("old", 10) };
    let deployment = Deployment { strategy: rolling("0", "2"), ..web(10) };
    let sets = vec![shrunk.clone(), set("new", 1).updated().revision_is("2")];
    let observed_ = observed(deployment.clone(), sets);
    assert_eq!(sizes(&observed_), [("old".into(), 7)], "upstream would keep only 5");
    // And it still has the two pods.
    let sets = vec![shrunk, set("new", 0).updated().revision_is("2")];
    assert_eq!(sizes(&observed(deployment, sets)), [], "no room for new pods yet");
}

#[test]
fn a_rollout_over_a_held_one_takes_the_place_of_the_broken_pods() {
    // Ten are wanted, two may be unavailable, three may be surplus; five new pods crash, and a node took an old one.
    let deployment = Deployment { strategy: rolling("3", "2"), ..web(10) };
    let held = |back: bool| {
        let (good, bad) = (set("good", 8).age(200).available_are(7), set("bad", 5).available_are(0));
        let (good, bad) = match back {
            true => (good.updated().revision_is("3"), bad.revision_is("2")),
            false => (good, bad.updated().revision_is("2")),
        };
        observed(deployment.clone(), vec![good, bad])
    };
    assert_eq!(sizes(&held(false)), [], "held");
    assert_eq!(sizes(&held(true)), [("bad".into(), 1)], "rolled back: four broken pods go");
}

#[test]
fn a_rollout_of_as_many_pods_as_a_number_holds_stays_within_its_bounds() {
    for (surge, unavailable, old, new, expected) in [
        ("100%", "0", i32::MAX, None, None),
        ("100%", "0", 5, None, Some(("web-hash", i32::MAX - 5))),
        ("100%", "0", i32::MAX, Some(i32::MAX), Some(("old", 0))),
        ("0", "100%", i32::MAX, Some(0), Some(("old", 0))),
    ] {
        let deployment = Deployment { strategy: rolling(surge, unavailable), ..web(i32::MAX) };
        let new = new.map(|new| set("new", new).updated().revision_is("2"));
        let sets = [set("old", old)].into_iter().chain(new).collect();
        let step = steps(&observed(deployment, sets)).into_iter().next();
        let size = match &step {
            Some(Step::Create(new)) => Some((&*new.name, new.replicas)).filter(|(_, size)| *size > 0),
            Some(Step::Scale(scale)) => Some((&*scale.set.key.name, scale.to)),
            other => panic!("{other:?}"),
        };
        assert_eq!(size, expected, "surge {surge}, unavailable {unavailable}, {old} old pods");
    }
}
