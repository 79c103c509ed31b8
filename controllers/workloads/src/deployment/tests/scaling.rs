use super::*;
use crate::deployment::annotations::size_is_outdated;

/// A row of upstream's table: the Deployment before and after, its ReplicaSets from the newest to the oldest, and their
/// sizes after.
struct Row {
    name: &'static str,
    before: (i32, &'static str),
    after: (i32, &'static str),
    has_new: bool,
    sets: &'static [i32],
    expected: &'static [i32],
}

#[test]
fn sets_keep_their_proportions_when_users_scale() {
    let row = |name, before, after, has_new, sets, expected| Row {
        name,
        before: (before, "0"),
        after: (after, "0"),
        has_new,
        sets,
        expected,
    };
    let surged =
        |name, before, after, sets, expected| Row { name, before, after, has_new: true, sets, expected };
    for Row { name, before, after, has_new, sets, expected } in [
        row("10 -> 12", 10, 12, true, &[10], &[12]),
        row("10 -> 5", 10, 5, true, &[10], &[5]),
        row("proportional 5 -> 10", 5, 10, true, &[2, 3], &[4, 6]),
        row("proportional 5 -> 3", 5, 3, true, &[2, 3], &[1, 2]),
        row("proportional 9 -> 4", 9, 4, true, &[8, 1], &[4, 0]),
        row("proportional 7 -> 10", 7, 10, true, &[2, 3, 2], &[3, 4, 3]),
        row("proportional 13 -> 8", 13, 8, true, &[2, 8, 3], &[1, 5, 2]),
        row("leftover to the newest, 3 -> 4", 3, 4, true, &[1, 1, 1], &[2, 1, 1]),
        row("leftover from the oldest, 3 -> 2", 3, 2, true, &[1, 1, 1], &[1, 1, 0]),
        row("no new set, 4 -> 5", 4, 5, false, &[2, 2], &[3, 2]),
        row("to zero, 6 -> 0", 6, 0, true, &[3, 2, 1], &[0, 0, 0]),
        row("size and template, 10 -> 14", 10, 14, false, &[7, 3], &[10, 4]),
        surged("surge, 10 -> 20", (10, "2"), (20, "2"), &[6, 6], &[11, 11]),
        surged("surge and size, 10 -> 50", (10, "3"), (50, "6"), &[5, 8], &[22, 34]),
    ] {
        let (was, is) = [before, after]
            .map(|(replicas, surge)| Deployment { strategy: rolling(surge, "0"), ..web(replicas) })
            .into();
        let made = sets.iter().enumerate().map(|(at, size)| {
            let set = set(&format!("s{at}"), *size).age(i64::try_from(at).unwrap() * 100);
            let set = set.sized_for(was.replicas, was.max_replicas()).available_are(0);
            if at == 0 && has_new { set.updated().revision_is("9") } else { set }
        });
        let mut observed = observed(is, made.collect());
        observed.deployment.annotations.insert(REVISION.into(), "9".into());
        let mut sizes_now: Vec<i32> = sets.to_vec();
        for (set, to) in sizes(&observed) {
            sizes_now[set[1..].parse::<usize>().unwrap()] = to;
        }
        assert_eq!(sizes_now, expected, "{name}");
    }
}

fn fraction(replicas: i32, surge: &str, stored: i32, size: i32, max: Option<&str>) -> i64 {
    let mut deployment = Deployment { strategy: rolling(surge, "1"), ..web(replicas) };
    deployment.status.replicas = stored;
    let mut set = set("a", size);
    if let Some(max) = max {
        set.annotations.insert(MAX_REPLICAS.into(), max.into());
    }
    crate::deployment::scaling::fraction(&deployment, &set)
}

#[test]
fn a_share_goes_by_the_greatest_size_before_or_by_the_status_if_that_is_lost() {
    for (name, replicas, surge, stored, size, max, expected) in [
        ("to zero", 0, "0", 0, 10, None, -10),
        ("no annotation and no status", 10, "0", 0, 5, None, 0),
        ("zero in the annotation and no status", 10, "0", 0, 5, Some("0"), 0),
        ("no annotation", 120, "0", 100, 50, None, 10),
        ("zero in the annotation", 120, "0", 100, 50, Some("0"), 10),
        ("up by a fifth", 120, "0", 0, 50, Some("100"), 10),
        ("up with surge", 120, "10", 0, 50, Some("110"), 9),
        ("down by a sixth", 10, "0", 0, 6, Some("12"), -1),
        ("down with surge", 100, "10", 0, 50, Some("130"), -8),
        ("no number", 120, "0", 100, 50, Some("x"), 10),
        ("a signed number", 120, "0", 100, 50, Some("+50"), 10),
        ("more than 32 bits", 120, "0", 100, 50, Some("4294967296"), 10),
        ("a product of more than 32 bits", 60_000, "0", 0, 40_000, Some("50000"), 8_000),
        ("as much as possible", i32::MAX, "100%", 0, i32::MAX, Some("1"), 0),
    ] {
        assert_eq!(fraction(replicas, surge, stored, size, max), expected, "{name}");
    }
}

#[test]
fn sizes_stay_within_32_bits() {
    for replicas in [0, 1, i32::MAX] {
        let deployment = Deployment { strategy: rolling("100%", "0"), ..web(replicas) };
        for (desired, max) in [(1, 1), (5, i32::MAX), (i32::MAX, -2)] {
            let big = |name, age| set(name, i32::MAX).age(age).available_are(0).sized_for(desired, max);
            let new = || big("new", 100).updated().revision_is("9");
            let held = observed(deployment.clone(), vec![new(), big("b", 200), big("c", 300)]);
            assert!(sizes(&held).iter().all(|(_, size)| *size >= 0));
            let Plan::Act(_) = plan(&held, now()) else { panic!("the status is out of date") };
            let alone = observed(deployment.clone(), vec![new()]);
            assert!(sizes(&alone).iter().all(|(_, size)| *size >= 0));
        }
    }
}

#[test]
fn a_proportional_scaling_that_failed_half_way_is_taken_up_again() {
    let deployment = Deployment { strategy: rolling("0", "0"), ..web(5) };
    let set =
        |name, size, age: i64, desired| set(name, size).age(age).available_are(0).sized_for(desired, desired);
    let sets =
        vec![set("new", 2, 100, 5).updated().revision_is("9"), set("b", 1, 200, 3), set("c", 1, 300, 5)];
    let mut observed = observed(deployment, sets);
    observed.deployment.annotations.insert(REVISION.into(), "9".into());
    assert_eq!(sizes(&observed), [("b".into(), 2)]);
}

#[test]
fn old_sets_are_emptied_once_the_new_one_is_saturated() {
    let deployment = Deployment { paused: true, ..web(2) };
    let new = set("new", 2).updated().revision_is("2").sized_for(2, 3);
    let mut observed = observed(deployment, vec![set("old", 1).age(200), new]);
    assert_eq!(sizes(&observed), [("old".into(), 0)]);
    observed.sets[1].status.available = 0;
    let sizes_now = sizes(&observed);
    assert!(!sizes_now.contains(&("old".into(), 0)), "a broken new set takes no old pods: {sizes_now:?}");
}

#[test]
fn without_active_sets_the_new_one_or_the_youngest_gets_all_pods() {
    let paused = || Deployment { paused: true, ..web(3) };
    let old = || vec![set("a", 0).age(300), set("b", 0).age(200)];
    assert_eq!(sizes(&observed(paused(), old())), [("b".into(), 3)]);
    let mut with_new = old();
    with_new.push(set("new", 0).age(400).updated().revision_is("2"));
    assert_eq!(sizes(&observed(paused(), with_new)), [("new".into(), 3)]);
    assert_eq!(sizes(&observed(paused(), Vec::new())), []);
}

#[test]
fn a_single_set_of_the_right_size_learns_the_size_of_the_deployment() {
    let observed = observed(web(3), vec![set("old", 3).sized_for(5, 6)]);
    assert_eq!(sizes(&observed), [("old".into(), 3)], "else the scaling would never end");
}

#[test]
fn scaling_with_several_active_sets_does_not_keep_recreate_from_going_on() {
    let deployment = Deployment { strategy: Strategy::Recreate, ..web(3) };
    let sets = vec![set("a", 2).age(300).sized_for(5, 5), set("b", 2).age(200).sized_for(5, 5)];
    assert_eq!(sizes(&observed(deployment, sets)), [("a".into(), 0), ("b".into(), 0)]);
}

#[test]
fn sizes_are_outdated_as_soon_as_one_annotation_differs() {
    let deployment = web(3);
    assert!(size_is_outdated(&deployment, &set("a", 3)));
    assert!(size_is_outdated(&deployment, &set("a", 3).sized_for(3, 3)));
    assert!(size_is_outdated(&deployment, &set("a", 3).sized_for(2, 4)));
    assert!(!size_is_outdated(&deployment, &set("a", 3).sized_for(3, 4)));
}
