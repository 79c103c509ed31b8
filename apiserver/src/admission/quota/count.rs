//! What the objects of a namespace use of a quota: upstream's controller's part. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::scopes::is_in_scope;
use super::usage::{Measured, tables};
use crate::admission::amounts::{self, Amounts};
use crate::object::at;

/// A quota as it is specified, and what of it is used by the objects that were added up so far.
pub(in crate::admission) struct Count {
    quota: Arc<Value>,
    hard: Amounts,
    used: Amounts,
}

impl Count {
    /// Of a quota, with nothing used.
    pub(in crate::admission) fn new(quota: Arc<Value>) -> Self {
        let hard = amounts::read(at(&quota, "spec.hard"));
        let mut count = Self { quota, hard, used: Amounts::new() };
        for table in count.tables() {
            let measured = Measured::of_table(&table);
            let of_table = count.hard.keys().filter(|name| measured.is_of(name));
            count.used.extend(of_table.map(|name| (name.clone(), Default::default())));
        }
        count
    }

    /// Whether that is the same quota, as it was specified when its count began.
    pub(in crate::admission) fn is_of(&self, quota: &Value) -> bool {
        let same = |path: &str| at(&self.quota, path) == at(quota, path);
        same("metadata.uid") && same("spec")
    }

    /// The tables whose objects it counts.
    pub(in crate::admission) fn tables(&self) -> BTreeSet<String> {
        let mut tables = tables(self.hard.keys().map(String::as_str));
        tables.retain(|table| self.is_about(table));
        tables
    }

    /// Whether it counts objects of that table.
    pub(in crate::admission) fn is_about(&self, table: &str) -> bool {
        let measured = Measured::of_table(table);
        self.hard.keys().any(|name| measured.is_of(name))
    }

    /// What an object counts for.
    pub(in crate::admission) fn amounts_of(&self, measured: &Measured<'_>, object: &Value) -> Amounts {
        if !self.is_about(measured.table) || !is_in_scope(&self.quota, measured, object) {
            return Amounts::new();
        }
        let mut usage = measured.usage(object);
        usage.retain(|name, _| self.hard.contains_key(name));
        usage
    }

    /// Adds up one object more.
    pub(in crate::admission) fn add(&mut self, measured: &Measured<'_>, object: &Value) {
        let more = self.amounts_of(measured, object);
        amounts::add(&mut self.used, &more);
    }

    /// Takes off an object that was added up.
    pub(in crate::admission) fn take_off(&mut self, measured: &Measured<'_>, object: &Value) {
        for (name, amount) in self.amounts_of(measured, object) {
            self.used.entry(name).and_modify(|used| *used = *used - amount);
        }
    }

    /// The status of the quota.
    pub(in crate::admission) fn status(&self) -> Value {
        json!({"hard": amounts::written(&self.hard), "used": amounts::written(&self.used)})
    }
}
