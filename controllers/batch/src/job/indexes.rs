//! Sets of completion indexes, in the text form of `status.completedIndexes`.

use std::fmt;

/// A set of indexes, kept as ordered intervals that neither overlap nor touch.
///
/// Its text is upstream's, such as `0-2,5,7,8`: intervals of three or more indexes have a dash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<Interval>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: u32,
    /// Included in the interval; at least `first`.
    last: u32,
}

impl Indexes {
    /// Parses the text of a status. Drops indexes that are not below `completions`, and ignores parts that are not
    /// intervals.
    pub(super) fn parse(text: &str, completions: usize) -> Self {
        let below = |index: u32| usize::try_from(index).is_ok_and(|index| index < completions);
        let intervals = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            let last = if below(last) { last } else { u32::try_from(completions).ok()?.checked_sub(1)? };
            (below(first) && first <= last).then_some(Interval { first, last })
        });
        Self::of(intervals.collect())
    }

    fn of(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_by_key(|interval| interval.first);
        let mut joined: Vec<Interval> = Vec::new();
        for interval in intervals {
            match joined.last_mut() {
                Some(before) if interval.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(interval.last);
                }
                _ => joined.push(interval),
            }
        }
        Self(joined)
    }

    /// The union of this set and `more`.
    pub(super) fn with(&self, more: impl IntoIterator<Item = u32>) -> Self {
        let more = more.into_iter().map(|index| Interval { first: index, last: index });
        Self::of(self.0.iter().copied().chain(more).collect())
    }

    /// The union of this set and `other`.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// The number of indexes that both sets contain.
    pub(super) fn common(&self, other: &Self) -> usize {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            let (first, last) = (a.first.max(b.first), a.last.min(b.last));
            common += last.checked_sub(first).map_or(0, |more| more as usize + 1);
            if a.last < b.last {
                ours.next()
            } else {
                theirs.next()
            };
        }
        common
    }

    /// Whether the set contains no index.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of indexes.
    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|interval| (interval.last - interval.first) as usize + 1).sum()
    }

    /// Whether the set contains the index.
    pub(super) fn has(&self, index: u32) -> bool {
        let at = self.0.partition_point(|interval| interval.last < index);
        self.0.get(at).is_some_and(|interval| interval.first <= index)
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub(super) fn missing(&self, count: usize, completions: usize) -> Vec<u32> {
        let completions = u32::try_from(completions).unwrap_or(u32::MAX);
        let mut next = 0;
        let mut missing = Vec::new();
        let end = Interval { first: completions, last: completions };
        for interval in self.0.iter().copied().chain([end]) {
            let gap = next..interval.first.min(completions);
            missing.extend(gap.take(count - missing.len()));
            next = interval.last.saturating_add(1);
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Interval { first, last }) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indexes_are_read_and_written_as_upstream_does() {
        for (text, completions, written) in [
            ("", 5, ""),
            ("0", 5, "0"),
            ("0,1", 5, "0,1"),
            ("0-2", 5, "0-2"),
            ("0-2,4", 5, "0-2,4"),
            ("0,1,2", 5, "0-2"),
            ("1-3,4-6", 9, "1-6"),
            // The job was scaled down: higher indexes no longer count.
            ("0-7", 5, "0-4"),
            ("3,6", 5, "3"),
            ("5-7", 5, ""),
            // Another client wrote an invalid text.
            ("x,2,3-y,4", 5, "2,4"),
            ("3-1", 5, ""),
            ("0", 0, ""),
        ] {
            assert_eq!(Indexes::parse(text, completions).to_string(), written, "{text:?} of {completions}");
        }
    }

    proptest! {
        #[test]
        fn a_set_of_indexes_behaves_as_a_set(
            first in proptest::collection::btree_set(0_u32..60, 0..40),
            second in proptest::collection::btree_set(0_u32..60, 0..40),
            count in 0_usize..70,
            completions in 0_usize..70,
        ) {
            let indexes = Indexes::default().with(first.clone()).with(second.clone());
            let all: BTreeSet<u32> = first.union(&second).copied().collect();
            prop_assert_eq!(indexes.total(), all.len());
            let [one, two] = [&first, &second].map(|set| Indexes::default().with(set.iter().copied()));
            prop_assert_eq!(&one.union(&two), &indexes);
            prop_assert_eq!(one.common(&two), first.intersection(&second).count());
            prop_assert_eq!(one.is_empty(), first.is_empty());
            prop_assert_eq!((0..60).filter(|i| indexes.has(*i)).collect::<BTreeSet<_>>(), all.clone());
            prop_assert_eq!(Indexes::parse(&indexes.to_string(), 60), indexes.clone());
            let missing: Vec<u32> =
                (0..u32::try_from(completions).unwrap()).filter(|i| !all.contains(i)).take(count).collect();
            prop_assert_eq!(indexes.missing(count, completions), missing);
        }
    }
}
