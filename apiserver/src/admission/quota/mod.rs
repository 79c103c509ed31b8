//! What the objects of a namespace may come to (upstream's plugin `ResourceQuota`). Pure.
//!
//! ```text
//! object ─> usage ─> does the quota speak of it (names, scopes)? ─> check: used + usage ≤ hard ─> what is used then
//! ```
//!
//! The limits are those of the quota's status, as upstream: the resource quota controller writes `hard` and `used` there, and
//! admission adds what it admits to `used`.

mod resized;
mod scopes;
mod usage;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::amounts::{self, Amounts};
use crate::object::{at, list_at, text_at};
use scopes::is_in_scope;
pub(super) use usage::{Measured, Write};

/// A quota as it is held to.
struct Quota<'a> {
    object: &'a Value,
    hard: Amounts,
    used: Amounts,
}

impl<'a> Quota<'a> {
    fn of(object: &'a Value) -> Self {
        let status = |member: &str| amounts::read(at(object, "status").and_then(|status| status.get(member)));
        Self { object, hard: status("hard"), used: status("used") }
    }

    /// What it bounds of what these objects use; nothing if it is not about this one.
    fn bounds(&self, measured: &Measured<'_>, object: &Value) -> Vec<&str> {
        let names = self.hard.keys().map(String::as_str).filter(|name| measured.is_of(name)).collect();
        if is_in_scope(self.object, measured, object) { names } else { Vec::new() }
    }
}

/// Why a write may not be, or what is used of which of the quotas after it (by their places).
///
/// # Errors
/// In upstream's words.
pub(super) fn check(
    quotas: &[impl Borrow<Value>],
    write: &Write<'_>,
) -> Result<BTreeMap<usize, Value>, String> {
    let mut charged = BTreeMap::new();
    if quotas.is_empty() || !write.is_counted() {
        return Ok(charged);
    }
    let measured = &write.measured;
    let usage = measured.usage(write.new);
    let quotas: Vec<Quota<'_>> = quotas.iter().map(|quota| Quota::of(quota.borrow())).collect();
    let mut about = Vec::new();
    for (place, quota) in quotas.iter().enumerate() {
        let bounded = quota.bounds(measured, write.new);
        if bounded.is_empty() {
            continue;
        }
        let name = text_at(quota.object, "metadata.name");
        if let Some(missing) = measured.missing(&bounded, write.new) {
            return Err(format!("failed quota: {name}: must specify {missing}"));
        }
        if bounded.iter().any(|name| !quota.used.contains_key(*name)) {
            return Err(format!("status unknown for quota: {name}, resources: {}", bounded.join(",")));
        }
        about.push((place, quota, name));
    }
    let negative: Vec<&str> = usage
        .iter()
        .filter(|(_, amount)| **amount < Default::default())
        .map(|(name, _)| name.as_str())
        .collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    for (place, quota, name) in about {
        let mut asked = usage.clone();
        // One that was counted before adds what is more.
        if let Some(old) = write.old.filter(|old| !quota.bounds(measured, old).is_empty()) {
            for (name, before) in measured.usage(old) {
                asked.entry(name).and_modify(|amount| *amount = *amount - before);
            }
        }
        asked.retain(|name, amount| *amount > Default::default() && quota.hard.contains_key(name));
        if asked.is_empty() {
            continue;
        }
        let mut used = quota.used.clone();
        amounts::add(&mut used, &asked);
        let exceeded = |name: &String| asked.contains_key(name) && used[name] > quota.hard[name];
        let only = |amounts: &Amounts| -> String {
            let of = amounts.iter().filter(|(name, _)| quota.hard.contains_key(*name) && exceeded(name));
            amounts::shown(&of.map(|(name, amount)| (name.clone(), *amount)).collect())
        };
        let (requested, before, limited) = (only(&asked), only(&quota.used), only(&quota.hard));
        if !requested.is_empty() {
            return Err(format!(
                "exceeded quota: {name}, requested: {requested}, used: {before}, limited: {limited}"
            ));
        }
        charged.insert(place, amounts::written(&used));
    }
    Ok(charged)
}

/// Whether a quota says something of scopes.
fn has_scopes(quota: &Value) -> bool {
    !list_at(quota, "spec.scopes").is_empty()
        || !list_at(quota, "spec.scopeSelector.matchExpressions").is_empty()
}

#[cfg(test)]
mod tests;
