//! How endpoints are divided among slices.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use steersman_kinds::endpoint_slice::Member;

use crate::endpoint_slice::packing::{Desired, Fate, Packing, Stored, pack};

fn members(identities: impl IntoIterator<Item = u64>) -> Vec<Member> {
    identities.into_iter().map(|identity| Member { identity, content: 0, hints: None }).collect()
}

fn desired(identities: impl IntoIterator<Item = u64>) -> Vec<Desired<'static>> {
    identities.into_iter().map(|identity| Desired { identity, content: 0, name: "" }).collect()
}

fn packed(slices: &[Vec<Member>], desired: &[Desired<'_>], max: usize) -> Packing {
    let stored: Vec<_> = slices.iter().map(|members| Stored { members, stale_labels: false }).collect();
    pack(&stored, desired, max)
}

/// The number of endpoints of each slice, in the order of stored slices and then of new ones. `=` marks a slice that is not
/// written, `-` one that is deleted.
fn sizes(slices: &[Vec<Member>], packing: &Packing) -> Vec<String> {
    let stored = slices.iter().zip(&packing.fates).map(|(members, fate)| match fate {
        Fate::Unchanged => format!("={}", members.len()),
        Fate::Update { endpoints, .. } => endpoints.len().to_string(),
        Fate::Delete => "-".to_owned(),
    });
    stored.chain(packing.creates.iter().map(|endpoints| format!("+{}", endpoints.len()))).collect()
}

/// The situations of upstream's tests of the reconciler.
#[test]
fn few_slices_are_written() {
    // Slices of these sizes, of which the first endpoints of each are no longer desired; new endpoints; the result.
    type Row = (&'static [(usize, usize)], usize, &'static [&'static str]);
    let table: &[Row] = &[
        (&[], 0, &[]),
        (&[], 250, &["+100", "+100", "+50"]),
        (&[(100, 0)], 0, &["=100"]),
        (&[(100, 100)], 0, &["-"]),
        (&[(50, 0)], 30, &["80"]),
        (&[(62, 0), (61, 0)], 127, &["89", "=61", "+100"]),
        (&[(62, 0), (61, 0)], 140, &["=62", "=61", "+100", "+40"]),
        (&[(50, 0)], 130, &["80", "+100"]),
        (&[(62, 0), (61, 0)], 38, &["100", "=61"]),
        (&[(62, 0), (61, 0)], 39, &["=62", "100"]),
        (&[(62, 0), (61, 0)], 40, &["=62", "=61", "+40"]),
        (&[(62, 0), (61, 0)], 100, &["=62", "=61", "+100"]),
        (&[(60, 1), (50, 0)], 60, &["100", "69"]),
        (&[(60, 1), (50, 1)], 60, &["100", "68"]),
        (&[(60, 1), (80, 1)], 21, &["59", "100"]),
        (&[(100, 1), (80, 0)], 1, &["100", "=80"]),
        (&[(0, 0)], 10, &["10"]),
    ];
    for (stored, new, expected) in table {
        let (mut next, mut slices, mut kept) = (0, Vec::new(), Vec::new());
        for (size, gone) in *stored {
            let all: Vec<u64> = (next..next + *size as u64).collect();
            next += *size as u64;
            kept.extend(all[*gone..].to_vec());
            slices.push(members(all));
        }
        kept.extend(next..next + *new as u64);
        let packing = packed(&slices, &desired(kept), 100);
        assert_eq!(sizes(&slices, &packing), *expected, "{stored:?} {new}");
        let gone: usize = stored.iter().map(|(_, gone)| gone).sum();
        assert_eq!((packing.added, packing.removed), (*new, gone), "{stored:?} {new}");
    }
}

#[test]
fn a_changed_endpoint_stays_in_its_slice() {
    let slices = [members([1, 2]), members([3])];
    let mut desired = desired([3, 2, 1]);
    desired[1].content = 7;
    let packing = packed(&slices, &desired, 100);
    assert_eq!(
        packing.fates,
        [Fate::Update { endpoints: vec![2, 1], kept: false }, Fate::Unchanged],
        "in the slice's order"
    );
}

#[test]
fn stale_labels_are_a_reason_to_write_and_then_to_fill() {
    let slices = [members([1]), members([2])];
    let stored = [
        Stored { members: &slices[0], stale_labels: false },
        Stored { members: &slices[1], stale_labels: true },
    ];
    let packing = pack(&stored, &desired([1, 2, 3]), 100);
    assert_eq!(packing.fates, [Fate::Unchanged, Fate::Update { endpoints: vec![1, 2], kept: true }]);
}

#[test]
fn an_endpoint_that_is_in_two_slices_stays_in_the_first() {
    let slices = [members([1, 2]), members([2, 3, 3])];
    let packing = packed(&slices, &desired([1, 2, 3]), 100);
    assert_eq!(packing.fates, [Fate::Unchanged, Fate::Update { endpoints: vec![2], kept: false }]);
}

#[test]
fn new_endpoints_are_taken_in_the_order_of_names() {
    let desired = [("c", 1), ("a", 2), ("b", 3)];
    let desired = desired.map(|(name, identity)| Desired { identity, content: 0, name });
    assert_eq!(packed(&[], &desired, 2).creates, [vec![1, 2], vec![0]]);
}

proptest! {
    #[test]
    fn packing_keeps_its_promises(
        slices in vec(vec((0..60_u64, 0..2_u64), 0..8), 0..6),
        desired in proptest::collection::btree_map(0..60_u64, 0..2_u64, 0..50),
        max in 1..9_usize,
    ) {
        let slices: Vec<Vec<Member>> = slices
            .into_iter()
            .map(|slice| slice.into_iter().map(|(identity, content)| Member { identity, content, hints: None }).collect())
            .collect();
        let desired: Vec<_> =
            desired.into_iter().map(|(identity, content)| Desired { identity, content, name: "" }).collect();
        let packing = packed(&slices, &desired, max);

        let mut places = Vec::new();
        for (stored, fate) in slices.iter().zip(&packing.fates) {
            let now: Vec<(u64, u64)> = match fate {
                Fate::Delete => Vec::new(),
                Fate::Unchanged => stored.iter().map(|member| (member.identity, member.content)).collect(),
                Fate::Update { endpoints, .. } => {
                    endpoints.iter().map(|at| (desired[*at].identity, desired[*at].content)).collect()
                }
            };
            // No slice grows over the maximum.
            prop_assert!(now.len() <= max.max(stored.len()));
            places.push(now);
        }
        for created in &packing.creates {
            prop_assert!(!created.is_empty() && created.len() <= max);
            places.push(created.iter().map(|at| (desired[*at].identity, desired[*at].content)).collect());
        }
        // Each desired endpoint is in one slice, as it should be, and there is no other.
        let mut all: Vec<_> = places.iter().flatten().copied().collect();
        all.sort_unstable();
        let expected: Vec<_> = desired.iter().map(|one| (one.identity, one.content)).collect();
        prop_assert_eq!(all, expected);
        // No endpoint leaves the first slice that has it.
        let mut seen = HashSet::new();
        let wanted: HashSet<u64> = desired.iter().map(|one| one.identity).collect();
        for (slice, now) in slices.iter().zip(&places) {
            for member in slice {
                if seen.insert(member.identity) && wanted.contains(&member.identity) {
                    prop_assert!(now.iter().any(|(identity, _)| *identity == member.identity));
                }
            }
        }
        // No more slices are created than the new endpoints need.
        prop_assert!(packing.creates.len() <= packing.added.div_ceil(max));
    }

    #[test]
    fn packing_twice_changes_nothing(count in 0..40_u64, more in 0..40_u64, max in 1..9_usize) {
        let first = packed(&[], &desired(0..count), max);
        let slices: Vec<_> =
            first.creates.iter().map(|slice| members(slice.iter().map(|at| *at as u64))).collect();
        prop_assert!(packed(&slices, &desired(0..count), max).fates.iter().all(|fate| *fate == Fate::Unchanged));
        // Endpoints that come fill new slices. What is less than a slice goes to one that is there, if it fits.
        let grown = packed(&slices, &desired(0..count + more), max);
        let updates = grown.fates.iter().filter(|fate| **fate != Fate::Unchanged).count();
        let added = usize::try_from(more).unwrap();
        prop_assert!(updates <= 1);
        prop_assert_eq!(grown.creates.len(), if updates == 1 { added / max } else { added.div_ceil(max) });
    }
}
