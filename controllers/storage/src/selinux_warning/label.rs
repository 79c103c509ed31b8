//! SELinux labels, as far as pods set them.

use std::fmt;

use steersman_informer::Interned;
use steersman_kinds::selinux::SelinuxOptions;

/// A label: `user:role:type:level`. A part that the pod does not set is empty. A node fills in the user, the role and the type
/// from its own settings, which the controller does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Label([Interned; 4]);

impl Label {
    /// The label that a container asks for.
    pub(super) fn of(options: &SelinuxOptions) -> Self {
        let SelinuxOptions { user, role, kind, level } = options;
        Self([user, role, kind, level].map(Clone::clone))
    }

    /// Whether no part is set.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|part| part.is_empty())
    }

    /// Whether two labels certainly differ on each node. Parts that a node fills in may turn out the same; no node fills in the
    /// level. Upstream: `ControllerSELinuxTranslator.Conflicts`.
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        let ([mine @ .., my_level], [others @ .., other_level]) = (&self.0, &other.0);
        let differ = |(a, b): (&Interned, &Interned)| !a.is_empty() && !b.is_empty() && a != b;
        my_level != other_level || mine.iter().zip(others).any(differ)
    }
}

/// As upstream writes labels: nothing for one without any part.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [user, role, kind, level] = &self.0;
        if self.is_empty() { Ok(()) } else { write!(f, "{}:{}:{}:{}", &**user, &**role, &**kind, &**level) }
    }
}
