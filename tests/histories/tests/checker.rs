//! The checker, on histories of which it is known whether an order explains them.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use histories::{Act, Call, Model, Outcome, Register, linearize};
use proptest::prelude::*;

type RegisterCall = Call<(Act, Outcome)>;

fn call(began: u64, ended: u64, act: Act, outcome: Outcome) -> RegisterCall {
    Call { began, ended, is_certain: outcome != Outcome::Unknown, act: (act, outcome) }
}

const fn replace(expected: u64, value: u64) -> Act {
    Act::Replace { expected: Some(expected), value }
}

#[test]
fn orders_are_found_where_there_are_any() {
    use Act::{Create, Delete, Get};
    use Outcome::{Conflict, Done, Exists, Is, Missing, Unknown};
    let delete = Delete { expected: None };
    for (what, has_order, calls) in [
        ("nothing", true, vec![]),
        ("a write is read", true, vec![call(1, 2, Create(7), Done), call(3, 4, Get, Is(7))]),
        ("a write is lost", false, vec![call(1, 2, Create(7), Done), call(3, 4, Get, Missing)]),
        ("a read overlaps a write", true, vec![call(1, 4, Create(7), Done), call(2, 3, Get, Missing)]),
        (
            "a read sees less than one before it",
            false,
            vec![call(1, 9, Create(7), Done), call(2, 3, Get, Is(7)), call(4, 5, Get, Missing)],
        ),
        ("two create", false, vec![call(1, 3, Create(7), Done), call(2, 4, Create(8), Done)]),
        ("one of two creates", true, vec![call(1, 3, Create(7), Exists), call(2, 4, Create(8), Done)]),
        (
            "two replace the same",
            false,
            vec![
                call(1, 2, Create(1), Done),
                call(3, 5, replace(1, 2), Done),
                call(4, 6, replace(1, 3), Done),
            ],
        ),
        (
            "one of two replaces the same",
            true,
            vec![
                call(1, 2, Create(1), Done),
                call(3, 5, replace(1, 2), Conflict),
                call(4, 6, replace(1, 3), Done),
            ],
        ),
        (
            "what is not known has happened",
            true,
            vec![call(1, 9, Create(7), Unknown), call(2, 3, Get, Is(7))],
        ),
        ("it has not", true, vec![call(1, 9, Create(7), Unknown), call(2, 3, Get, Missing)]),
        (
            "it happens late",
            true,
            vec![call(1, 9, Create(7), Unknown), call(2, 3, Get, Missing), call(4, 5, Get, Is(7))],
        ),
        (
            "it happens too late",
            false,
            vec![call(1, 2, Create(7), Unknown), call(3, 4, Get, Missing), call(5, 6, Get, Is(7))],
        ),
        (
            "it happens twice",
            false,
            vec![
                call(1, 9, Create(7), Unknown),
                call(2, 3, Get, Is(7)),
                call(4, 5, delete, Done),
                call(6, 7, Get, Is(7)),
            ],
        ),
        (
            "of two that are not known, one after the other, the later comes first",
            false,
            vec![
                call(1, 2, Create(7), Unknown),
                call(3, 9, delete, Unknown),
                call(4, 5, Get, Missing),
                call(6, 7, Get, Is(7)),
            ],
        ),
    ] {
        assert_eq!(linearize::<Register>(None, &calls).is_ok(), has_order, "{what}");
    }
}

#[test]
fn who_is_stuck_says_where() {
    let calls = [call(1, 2, Act::Create(7), Outcome::Done), call(3, 4, Act::Get, Outcome::Is(8))];
    let stuck = linearize::<Register>(None, &calls).unwrap_err();
    assert_eq!((stuck.explained, stuck.next, stuck.states), (1, vec![1], vec![Some(7)]));
}

/// Tries all orders.
fn has_order(state: Option<u64>, calls: &[RegisterCall]) -> bool {
    if calls.iter().all(|call| !call.is_certain) {
        return true;
    }
    (0..calls.len()).any(|place| {
        let mut rest = calls.to_vec();
        let next = rest.remove(place);
        let is_first = rest.iter().all(|other| !other.is_certain || other.ended > next.began);
        // One that had ended before this one began is behind, or never takes effect.
        rest.retain(|other| other.is_certain || other.ended > next.began);
        let after = Register::after(&state, &next.act);
        let skipped = !next.is_certain && has_order(state, &rest);
        skipped || is_first && after.is_some_and(|after| has_order(after, &rest))
    })
}

fn calls() -> impl Strategy<Value = Vec<RegisterCall>> {
    let value = 0..3_u64;
    let act = prop_oneof![
        value.clone().prop_map(Act::Create),
        (proptest::option::of(value.clone()), value.clone())
            .prop_map(|(expected, value)| Act::Replace { expected, value }),
        value.clone().prop_map(Act::Set),
        proptest::option::of(value.clone()).prop_map(|expected| Act::Delete { expected }),
        Just(Act::Get),
    ];
    let outcome = prop_oneof![
        4 => Just(Outcome::Done),
        1 => Just(Outcome::Exists),
        1 => Just(Outcome::Missing),
        1 => Just(Outcome::Conflict),
        2 => value.prop_map(Outcome::Is),
        2 => Just(Outcome::Unknown),
    ];
    let one = (act, outcome, 0..12_u64, 1..6_u64);
    proptest::collection::vec(one, 0..6).prop_map(|all| {
        let spread = all.into_iter().enumerate().map(|(place, (act, outcome, began, lasts))| {
            // No two moments are the same.
            let place = place as u64;
            call(began * 20 + place, (began + lasts) * 20 + 10 + place, act, outcome)
        });
        spread.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn it_finds_an_order_just_where_trying_all_finds_one(calls in calls()) {
        prop_assert_eq!(linearize::<Register>(None, &calls).is_ok(), has_order(None, &calls));
    }
}
