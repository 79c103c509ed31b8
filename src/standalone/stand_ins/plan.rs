//! What the stand-ins have to do. Pure.

use std::collections::BTreeMap;

use super::garbage;

/// The objects that the stand-ins look at.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) namespaces: BTreeMap<String, Namespace>,
    /// The objects that own others, or are owned.
    pub(super) objects: Vec<garbage::Object>,
}

/// The state of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// Not being deleted.
    Active,
    /// Being deleted.
    Terminating,
}

/// A call. Repeating one that has been made does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Delete the objects in the namespace, and finalize it once none is left.
    Empty(String),
    /// Delete or release an object because of its owner.
    Garbage(garbage::Step),
}

/// All steps that are due.
pub(super) fn plan(observed: &Observed) -> Vec<Step> {
    let terminating = observed.namespaces.iter().filter(|(_, state)| **state == Namespace::Terminating);
    let mut steps: Vec<Step> = terminating.map(|(name, _)| Step::Empty(name.clone())).collect();
    steps.extend(garbage::plan(&observed.objects).into_iter().map(Step::Garbage));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_emptied_once_it_is_deleted() {
        let observed = Observed {
            namespaces: [("a", Namespace::Active), ("b", Namespace::Terminating)]
                .map(|(name, state)| (name.to_owned(), state))
                .into(),
            ..Observed::default()
        };
        assert_eq!(plan(&observed), [Step::Empty("b".to_owned())]);
    }
}
