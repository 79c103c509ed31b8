//! Which subcommands run a function, and so where it lies.

/// The subcommands that were seen to run a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// `controller-manager` with all controllers.
    pub(crate) manager: bool,
    /// `controller-manager` with a few controllers.
    pub(crate) few: bool,
    /// `controller-manager` with the controllers of workloads.
    pub(crate) workloads: bool,
    pub(crate) node: bool,
    pub(crate) standalone: bool,
}

impl Roles {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            manager: self.manager || other.manager,
            few: self.few || other.few,
            workloads: self.workloads || other.workloads,
            node: self.node || other.node,
            standalone: self.standalone || other.standalone,
        }
    }

    /// Returns the group of a function with these roles, or `None` if no profile ran the function.
    pub(crate) fn group(self) -> Option<Group> {
        match (self.manager || self.few || self.workloads, self.node) {
            (true, false) if self.few && self.workloads => Some(Group::AnyControllers),
            (true, false) if self.few => Some(Group::FewControllers),
            (true, false) if self.workloads => Some(Group::Workloads),
            (true, false) => Some(Group::Manager),
            (true, true) => Some(Group::Both),
            (false, true) => Some(Group::Node),
            (false, false) => self.standalone.then_some(Group::Standalone),
        }
    }
}

/// Functions that lie together. What the manager and the node share lies between what each has alone, so that both find
/// theirs in one piece. The manager's own functions follow, in four groups: what every manager runs, what the workload controllers
/// run, what the controllers that every cluster needs run, and the rest. `standalone` runs all of them. If patterns of two groups
/// match a function, it lies in the first of them: the node's group comes first, since its memory counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    Node,
    Both,
    AnyControllers,
    Workloads,
    FewControllers,
    Manager,
    Standalone,
}

impl Group {
    /// As they follow each other in memory.
    pub(crate) const IN_ORDER: [Self; 7] = [
        Self::Node,
        Self::Both,
        Self::AnyControllers,
        Self::Workloads,
        Self::FewControllers,
        Self::Manager,
        Self::Standalone,
    ];

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::AnyControllers => "controller-manager with any controllers",
            Self::FewControllers => "controller-manager with few controllers",
            Self::Workloads => "controller-manager with the controllers of workloads",
            Self::Manager => "controller-manager",
            Self::Both => "controller-manager and node",
            Self::Node => "node",
            Self::Standalone => "standalone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_lies_with_the_smallest_selection_of_controllers_that_runs_it() {
        let nobody = Roles::default();
        let all = Roles { manager: true, ..nobody };
        let (workloads, few) = (Roles { workloads: true, ..all }, Roles { few: true, ..all });
        for (roles, expected) in [
            (nobody, None),
            (Roles { standalone: true, ..nobody }, Some(Group::Standalone)),
            (Roles { standalone: true, ..all }, Some(Group::Manager)),
            (workloads, Some(Group::Workloads)),
            (Roles { manager: false, ..workloads }, Some(Group::Workloads)),
            (few, Some(Group::FewControllers)),
            (Roles { workloads: true, ..few }, Some(Group::AnyControllers)),
            (Roles { node: true, ..few }, Some(Group::Both)),
            (Roles { node: true, ..workloads }, Some(Group::Both)),
            (Roles { node: true, ..nobody }, Some(Group::Node)),
        ] {
            assert_eq!(roles.group(), expected, "{roles:?}");
        }
    }

    #[test]
    fn roles_of_several_symbols_add_up() {
        let (few, workloads) =
            (Roles { few: true, ..Roles::default() }, Roles { workloads: true, ..Roles::default() });
        assert_eq!(few.and(workloads), Roles { few: true, workloads: true, ..Roles::default() });
    }
}
