//! Which subcommands run a function, and so where it lies.

/// The subcommands that were seen to run a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// `controller-manager` with all controllers.
    pub(crate) manager: bool,
    /// `controller-manager` with a few controllers.
    pub(crate) few: bool,
    pub(crate) node: bool,
    pub(crate) standalone: bool,
}

impl Roles {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            manager: self.manager || other.manager,
            few: self.few || other.few,
            node: self.node || other.node,
            standalone: self.standalone || other.standalone,
        }
    }

    /// Where such a function lies; none of those named if nobody ran it.
    pub(crate) fn group(self) -> Option<Group> {
        match (self.manager || self.few, self.node) {
            (true, false) if self.few => Some(Group::FewControllers),
            (true, false) => Some(Group::Manager),
            (true, true) => Some(Group::Both),
            (false, true) => Some(Group::Node),
            (false, false) => self.standalone.then_some(Group::Standalone),
        }
    }
}

/// Functions that lie together. What the manager and the node share lies between what each has alone, so that both find
/// theirs in one piece. Next to that is what a manager runs whichever controllers it has. `standalone` has them all. A pattern
/// may fit functions of another group: the first group has them, which is the node's, whose memory counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    Node,
    Both,
    FewControllers,
    Manager,
    Standalone,
}

impl Group {
    /// As they follow each other in memory.
    pub(crate) const IN_ORDER: [Self; 5] =
        [Self::Node, Self::Both, Self::FewControllers, Self::Manager, Self::Standalone];

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::FewControllers => "controller-manager with few controllers",
            Self::Manager => "controller-manager",
            Self::Both => "controller-manager and node",
            Self::Node => "node",
            Self::Standalone => "standalone",
        }
    }
}
