//! The space that objects may take.

use super::Error;

/// What part of the limit deletes may use beyond it: an eighth. A delete with grace, and one that a finalizer holds, makes
/// its object larger first.
const FOR_DELETES: u64 = 8;

/// Counts the bytes that the objects of a store take, and decides which writes may take more.
///
/// Writes that need no more space than the state before are always allowed: nodes go on renewing their leases, and users
/// can delete.
#[derive(Debug)]
pub(super) struct Budget {
    /// How many bytes objects may take.
    limit: u64,
    /// How many they take, keys included.
    used: u64,
    /// Whether the disk has space for more.
    disk: Disk,
}

/// Whether the disk that objects are stored on has space for more. A store in memory has none, and always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    /// It has.
    Free,
    /// It is full, but for what is reserved for deletes.
    Full,
}

/// A write, as far as it concerns space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// How many bytes the object took before; zero for a new one.
    pub(super) before: u64,
    /// How many it takes after the write; zero for one that is removed.
    pub(super) after: u64,
    /// Whether the new state has a deletion timestamp.
    pub(super) deleting: bool,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: 0, disk: Disk::Free }
    }

    pub(super) fn set_disk(&mut self, disk: Disk) {
        self.disk = disk;
    }

    /// Counts an object that was stored by an earlier process, however much there is.
    pub(super) fn count(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// Counts a write, if there is space for it.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing is counted then.
    pub(super) fn take(&mut self, demand: Demand) -> Result<(), Error> {
        if !self.allows(demand) {
            return Err(Error::NoSpace);
        }
        self.used = self.after(demand);
        Ok(())
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Takes back what was counted for a write that is undone.
    pub(super) fn undo(&mut self, demand: Demand) {
        self.used = self.used.saturating_sub(demand.after).saturating_add(demand.before);
    }

    fn allows(&self, demand: Demand) -> bool {
        if demand.after <= demand.before {
            return true;
        }
        if demand.deleting {
            return self.after(demand) <= self.limit.saturating_add(self.limit / FOR_DELETES);
        }
        self.disk == Disk::Free && self.after(demand) <= self.limit
    }

    fn after(&self, demand: Demand) -> u64 {
        self.used.saturating_sub(demand.before).saturating_add(demand.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_ends_at_the_limit_and_deletes_go_on() {
        let cases = [
            // used, disk, before, after, deleting, allowed
            ("a new object up to the limit", 700, Disk::Free, 0, 100, false, true),
            ("a new object beyond it", 700, Disk::Free, 0, 101, false, false),
            ("growth beyond it", 800, Disk::Free, 50, 51, false, false),
            ("a state of the same size", 800, Disk::Free, 50, 50, false, true),
            ("a smaller state, far beyond it", 5000, Disk::Free, 50, 49, false, true),
            ("a removal, far beyond it", 5000, Disk::Full, 50, 0, true, true),
            ("the mark of a delete", 800, Disk::Free, 50, 150, true, true),
            ("the mark of a delete beyond what is reserved", 800, Disk::Free, 50, 151, true, false),
            ("a new object on a full disk", 0, Disk::Full, 0, 1, false, false),
            ("growth on a full disk", 100, Disk::Full, 50, 51, false, false),
            ("a state of the same size on a full disk", 100, Disk::Full, 50, 50, false, true),
            ("the mark of a delete on a full disk", 100, Disk::Full, 50, 60, true, true),
        ];
        for (what, used, disk, before, after, deleting, allowed) in cases {
            let mut budget = Budget { limit: 800, used, disk };
            let taken = budget.take(Demand { before, after, deleting });
            assert_eq!(taken.is_ok(), allowed, "{what}");
            assert_eq!(budget.used, if allowed { used - before + after } else { used }, "{what}");
            if allowed {
                budget.undo(Demand { before, after, deleting });
                assert_eq!(budget.used, used, "{what}, undone");
            }
        }
    }

    #[test]
    fn what_was_stored_counts_and_leaves_space_when_it_goes() {
        let mut budget = Budget::new(100);
        budget.count(150);
        let new = Demand { before: 0, after: 10, deleting: false };
        assert_eq!(budget.take(new), Err(Error::NoSpace));
        budget.take(Demand { before: 60, after: 0, deleting: false }).unwrap();
        budget.take(new).unwrap();
        assert_eq!(budget.take(new), Err(Error::NoSpace));
    }
}
