//! Amounts of resources, by name.

use std::collections::BTreeMap;

use steersman_api::{ArcStr, Quantity};
use steersman_kinds::resource_list::ResourceList;

/// Amounts by the names of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(BTreeMap<ArcStr, Quantity>);

impl Amounts {
    /// One of each name.
    pub(super) fn one_each<const N: usize>(names: [&str; N]) -> Self {
        Self(names.map(|name| (name.into(), Quantity::new(1))).into())
    }

    /// The amount under a name.
    pub(super) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// Sets the amount under a name.
    pub(super) fn set(&mut self, name: impl Into<ArcStr>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Adds to the amount under a name.
    pub(super) fn add(&mut self, name: &ArcStr, amount: Quantity) {
        let sum = self.0.entry(name.clone()).or_default();
        *sum = *sum + amount;
    }

    /// Adds all of `more`.
    pub(super) fn add_all(&mut self, more: &Self) {
        more.0.iter().for_each(|(name, amount)| self.add(name, *amount));
    }

    /// Raises each amount that is less than in `least`, and takes over the names that are missing.
    pub(super) fn raise(&mut self, least: &Self) {
        for (name, amount) in &least.0 {
            let raised = self.0.entry(name.clone()).or_insert(*amount);
            if *amount > *raised {
                *raised = *amount;
            }
        }
    }

    /// All names with their amounts, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ArcStr, Quantity)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Drops the names that `keep` does not want.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| keep(name));
    }
}

impl From<&ResourceList> for Amounts {
    fn from(list: &ResourceList) -> Self {
        Self(list.iter().map(|(name, amount)| (name.as_arc().clone(), amount)).collect())
    }
}

impl From<&Amounts> for ResourceList {
    fn from(amounts: &Amounts) -> Self {
        amounts.iter().map(|(name, amount)| (name.as_str(), amount)).collect()
    }
}
