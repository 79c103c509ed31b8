//! What the stand-ins have to do. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::garbage;

/// The objects that the stand-ins look at.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) namespaces: BTreeMap<String, Namespace>,
    /// The namespaces that have a service account `default`.
    pub(super) with_account: BTreeSet<String>,
    /// The namespaces that have a config map `kube-root-ca.crt`.
    pub(super) with_root_ca: BTreeSet<String>,
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
    /// Create the service account `default`.
    Account(String),
    /// Create the config map `kube-root-ca.crt`.
    RootCa(String),
    /// Delete the objects in the namespace, and finalize it once none is left.
    Empty(String),
    /// Delete or release an object because of its owner.
    Garbage(garbage::Step),
}

/// All steps that are due.
pub(super) fn plan(observed: &Observed) -> Vec<Step> {
    let mut steps = Vec::new();
    for (name, state) in &observed.namespaces {
        match state {
            Namespace::Terminating => steps.push(Step::Empty(name.clone())),
            Namespace::Active => {
                if !observed.with_account.contains(name) {
                    steps.push(Step::Account(name.clone()));
                }
                if !observed.with_root_ca.contains(name) {
                    steps.push(Step::RootCa(name.clone()));
                }
            }
        }
    }
    steps.extend(garbage::plan(&observed.objects).into_iter().map(Step::Garbage));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_gets_what_pods_need_until_it_is_deleted() {
        let mut observed = Observed {
            namespaces: [("a", Namespace::Active), ("b", Namespace::Terminating), ("c", Namespace::Active)]
                .map(|(name, state)| (name.to_owned(), state))
                .into(),
            with_account: ["c".to_owned()].into(),
            ..Observed::default()
        };
        let text = |step: fn(String) -> Step, name: &str| step(name.to_owned());
        assert_eq!(
            plan(&observed),
            [
                text(Step::Account, "a"),
                text(Step::RootCa, "a"),
                text(Step::Empty, "b"),
                text(Step::RootCa, "c")
            ]
        );
        observed.namespaces.retain(|name, _| name == "c");
        observed.with_root_ca.insert("c".to_owned());
        assert_eq!(plan(&observed), []);
    }
}
