//! Limits the number of addresses in an Endpoints object.

use steersman_kinds::endpoints::Subset;

/// Maximum number of addresses in one Endpoints object. Upstream: `maxCapacity`.
pub const MAX_CAPACITY: usize = 1000;

/// Whether all addresses fit into the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// All addresses fit.
    Whole,
    /// Some addresses were removed.
    Truncated,
}

/// Removes the addresses beyond [`MAX_CAPACITY`], those that are not ready first.
///
/// Each subset shrinks in proportion to its size. Shares are rounded up, so the last subsets may lose more, as in
/// upstream's `truncateEndpoints`. A subset that loses all of its addresses is removed. (Upstream keeps it, and the API
/// server refuses the object.)
pub fn truncate(subsets: &mut Vec<Subset>) -> Fit {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + not_ready <= MAX_CAPACITY {
        return Fit::Whole;
    }
    let too_many_ready = ready > MAX_CAPACITY;
    let (share, total) =
        if too_many_ready { (MAX_CAPACITY, ready) } else { (MAX_CAPACITY - ready, not_ready) };
    let mut left = share;
    for subset in subsets.iter_mut() {
        let shrinking = if too_many_ready {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        shrinking.truncate(proportion(shrinking.len(), total, share).min(left));
        left -= shrinking.len();
    }
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    Fit::Truncated
}

/// `part / total * share`, rounded up. Uses floating point, as upstream does, to get the same rounding errors.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of addresses are far below 2^52, and none is negative"
)]
fn proportion(part: usize, total: usize, share: usize) -> usize {
    ((part as f64 / total as f64) * share as f64).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use steersman_kinds::endpoints::Address;

    fn subset(ready: usize, not_ready: usize) -> Subset {
        let addresses = |count, mark| {
            (0..count).map(|at| Address { ip: format!("{mark}{at}").into(), ..Address::default() }).collect()
        };
        Subset {
            addresses: addresses(ready, "r"),
            not_ready_addresses: addresses(not_ready, "n"),
            ports: Vec::new(),
        }
    }

    fn truncated(counts: &[(usize, usize)]) -> (Fit, Vec<(usize, usize)>) {
        let mut subsets = counts.iter().map(|(ready, not_ready)| subset(*ready, *not_ready)).collect();
        let fit = truncate(&mut subsets);
        let left = |subset: &Subset| (subset.addresses.len(), subset.not_ready_addresses.len());
        (fit, subsets.iter().map(left).collect())
    }

    /// The expected counts are the results of upstream's formula.
    #[test]
    fn subsets_shrink_in_proportion_and_not_ready_addresses_first() {
        type Counts = &'static [(usize, usize)];
        let table: &[(Counts, Fit, Counts)] = &[
            (&[(500, 500)], Fit::Whole, &[(500, 500)]),
            (&[(400, 0), (600, 0)], Fit::Whole, &[(400, 0), (600, 0)]),
            (&[(1001, 0)], Fit::Truncated, &[(1000, 0)]),
            (&[(400, 100), (600, 100)], Fit::Truncated, &[(400, 0), (600, 0)]),
            (&[(100, 1000), (100, 1000)], Fit::Truncated, &[(100, 400), (100, 400)]),
            (&[(1000, 10), (2000, 20)], Fit::Truncated, &[(334, 0), (666, 0)]),
            (&[(400, 1), (100, 1500)], Fit::Truncated, &[(400, 1), (100, 499)]),
        ];
        for (before, fit, after) in table {
            assert_eq!(truncated(before), (*fit, after.to_vec()), "{before:?}");
        }
    }

    #[test]
    fn a_subset_that_loses_all_addresses_is_removed() {
        assert_eq!(truncated(&[(1200, 0), (0, 5)]), (Fit::Truncated, vec![(1000, 0)]));
    }

    proptest! {
        #[test]
        fn the_limit_is_filled_with_ready_addresses_first(
            counts in proptest::collection::vec((0..900_usize, 0..900_usize), 1..6)
        ) {
            let ready: usize = counts.iter().map(|(ready, _)| ready).sum();
            let all: usize = counts.iter().map(|(ready, not_ready)| ready + not_ready).sum();
            let (_, left) = truncated(&counts);
            prop_assert_eq!(left.iter().map(|(ready, _)| ready).sum::<usize>(), ready.min(MAX_CAPACITY));
            prop_assert_eq!(left.iter().map(|(r, n)| r + n).sum::<usize>(), all.min(MAX_CAPACITY));
        }
    }
}
