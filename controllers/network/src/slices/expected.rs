//! The changes of slices that a controller expects to see because it made them.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_api::{ResourceVersion, Uid};

/// Tells a controller's own changes of slices from those of others. Only the latter are a reason for a sync.
///
/// Holds an entry for each write until the cache shows it.
#[derive(Debug, Default)]
pub(super) struct Expected(Mutex<HashMap<Uid, Change>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Version(ResourceVersion),
    Deletion,
}

impl Expected {
    /// The controller has given a slice this version.
    pub(super) fn version(&self, slice: &Uid, version: ResourceVersion) {
        self.0.lock().insert(slice.clone(), Change::Version(version));
    }

    /// The controller has deleted a slice.
    pub(super) fn deletion(&self, slice: &Uid) {
        self.0.lock().insert(slice.clone(), Change::Deletion);
    }

    /// Whether the controller made this version of a slice, or has replaced it since.
    pub(super) fn has_version(&self, slice: &Uid, shown: ResourceVersion) -> bool {
        let mut expected = self.0.lock();
        match expected.get(slice) {
            Some(Change::Version(version)) if *version > shown => true,
            Some(Change::Version(version)) => {
                let same = *version == shown;
                expected.remove(slice);
                same
            }
            Some(Change::Deletion) => true,
            None => false,
        }
    }

    /// Whether the controller deleted a slice that is gone.
    pub(super) fn has_deletion(&self, slice: &Uid) -> bool {
        self.0.lock().remove(slice) == Some(Change::Deletion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controllers_own_changes_are_expected_once() {
        let (expected, slice) = (Expected::default(), Uid::from("1"));
        let version = ResourceVersion;
        assert!(!expected.has_version(&slice, version(5)));
        expected.version(&slice, version(7));
        assert!(expected.has_version(&slice, version(6)), "it is replaced already");
        assert!(expected.has_version(&slice, version(7)));
        assert!(!expected.has_version(&slice, version(7)));
        expected.version(&slice, version(9));
        assert!(!expected.has_version(&slice, version(10)), "another party has written after the controller");
        expected.version(&slice, version(11));
        assert!(!expected.has_deletion(&slice));
        expected.deletion(&slice);
        assert!(expected.has_version(&slice, version(12)));
        assert!(expected.has_deletion(&slice));
        assert!(!expected.has_deletion(&slice));
    }
}
