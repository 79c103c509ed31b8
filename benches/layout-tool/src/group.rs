//! Which subcommands run a function, and so where it lies.

/// The subcommands that were seen to run a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) manager: bool,
    pub(crate) node: bool,
    pub(crate) standalone: bool,
}

impl Roles {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            manager: self.manager || other.manager,
            node: self.node || other.node,
            standalone: self.standalone || other.standalone,
        }
    }

    /// Where such a function lies; none of those named if nobody ran it.
    pub(crate) fn group(self) -> Option<Group> {
        match (self.manager, self.node) {
            (true, false) => Some(Group::Manager),
            (true, true) => Some(Group::Both),
            (false, true) => Some(Group::Node),
            (false, false) => self.standalone.then_some(Group::Standalone),
        }
    }
}

/// Functions that lie together. What the manager and the node share lies between what each has alone, so that both find
/// theirs in one piece; `standalone` has them all. A pattern may fit what is another group's: the first one has it, which is
/// the node's, whose memory counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    Node,
    Both,
    Manager,
    Standalone,
}

impl Group {
    /// As they follow each other in memory.
    pub(crate) const IN_ORDER: [Self; 4] = [Self::Node, Self::Both, Self::Manager, Self::Standalone];

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Manager => "controller-manager",
            Self::Both => "controller-manager and node",
            Self::Node => "node",
            Self::Standalone => "standalone",
        }
    }
}
