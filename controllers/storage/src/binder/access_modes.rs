//! Sets of access modes.

use steersman_informer::Interned;

/// A set of access modes. Modes that Kubernetes 1.36 does not know are left out, as upstream's `GetAccessModesAsString` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AccessModes(u8);

const NAMES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

impl AccessModes {
    /// The set with no modes, the least of all.
    pub(super) const NONE: Self = Self(0);
    /// The set with all modes, the greatest of all.
    pub(super) const ALL: Self = Self(15);

    /// The modes of a volume.
    pub(super) fn of(modes: &[Interned]) -> Self {
        Self(modes.iter().filter_map(bit).fold(0, |set, bit| set | bit))
    }

    /// The modes that a claim asks for. `None` if one of them is unknown: then no volume offers it.
    pub(super) fn asked(modes: &[Interned]) -> Option<Self> {
        modes.iter().map(bit).try_fold(0, |set, bit| Some(set | bit?)).map(Self)
    }

    /// Whether the set has all modes of another one.
    pub(super) fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The number of modes.
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }
}

fn bit(mode: &Interned) -> Option<u8> {
    NAMES.iter().position(|name| **mode == **name).map(|at| 1 << at)
}
