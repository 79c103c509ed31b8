//! How fields change hands.

use serde_json::Value;

use super::compare::Comparison;
use super::managers::{Entry, ManagerId, Managers, Operation};
use super::set::FieldSet;
use super::walk::{fields_of, removed, with_listed};
use super::{Conflict, Error, Subject, View, merge, stripped};

/// A comparison of the same two states in each version that a manager speaks.
struct Versions<'s> {
    subject: &'s Subject<'s>,
    old: &'s Value,
    new: &'s Value,
    /// In the subject's own version.
    own: &'s Comparison,
    /// In others; `None` if the version is no longer served.
    others: Vec<(String, Option<Comparison>)>,
}

impl Versions<'_> {
    fn comparison(&mut self, version: &str) -> Result<Option<&Comparison>, Error> {
        if version == self.subject.api_version {
            return Ok(Some(self.own));
        }
        let at = match self.others.iter().position(|(known, _)| known == version) {
            Some(at) => at,
            None => {
                let views = (self.subject.view(version, self.old), self.subject.view(version, self.new));
                let comparison = match views {
                    (Some(old), Some(new)) => Some(self.subject.change(old.ty, &old.value, &new.value)?),
                    _ => None,
                };
                self.others.push((version.to_owned(), comparison));
                self.others.len() - 1
            }
        };
        Ok(self.others[at].1.as_ref())
    }
}

/// Takes from all managers but `writer` what the change from `old` to `new` changed.
///
/// `change` is the comparison in the subject's own version. Managers of versions that are no longer served go.
///
/// # Errors
/// There are managers to take from, and `force` is not set.
fn take_over(
    subject: &Subject<'_>,
    (old, new): (&Value, &Value),
    change: &Comparison,
    managers: &mut Managers,
    writer: Option<&ManagerId>,
    force: bool,
) -> Result<(), Error> {
    let mut versions = Versions { subject, old, new, own: change, others: Vec::new() };
    let mut gone = Vec::new();
    let mut taken: Vec<(ManagerId, FieldSet)> = Vec::new();
    let mut conflicts = Vec::new();
    managers.sort_for_people();
    for entry in managers.iter().filter(|entry| Some(&entry.id) != writer) {
        let Some(change) = versions.comparison(&entry.version)? else {
            gone.push(entry.id.clone());
            continue;
        };
        let conflict = entry.fields().intersection(&change.set);
        if !force {
            let paths = conflict.paths().into_iter();
            conflicts.extend(paths.map(|path| Conflict { manager: entry.id.clone(), path }));
        }
        let mut left = entry.fields().difference(&conflict);
        left.remove(&change.removed);
        taken.push((entry.id.clone(), left));
    }
    if !conflicts.is_empty() {
        return Err(Error::Conflicts(conflicts));
    }
    for (id, left) in taken {
        if let Some(entry) = managers.get_mut(&id) {
            entry.set_fields(left);
        }
    }
    managers.retain(|entry| !entry.fields().is_empty() && !gone.contains(&entry.id));
    Ok(())
}

/// Gives what a create, an update or a patch changed to its manager.
///
/// `change` is the comparison of `old` and `new`, as far as the write can change anything.
pub(super) fn update(
    subject: &Subject<'_>,
    (old, new): (&Value, &Value),
    change: Comparison,
    managers: &mut Managers,
    name: &str,
) -> Result<(), Error> {
    take_over(subject, (old, new), &change, managers, None, true)?;
    let set = stripped(change.set);
    if !set.is_empty() {
        let id = ManagerId::new(name, Operation::Update, subject.api_version, subject.subresource);
        let before = managers.get(&id).map(|entry| entry.fields().union(&set));
        let mut entry = Entry::new(id, subject.api_version, before.unwrap_or(set));
        entry.time = Some(subject.now.clone());
        managers.put(entry);
    }
    managers.cap();
    Ok(())
}

/// Applies a configuration. Returns the new state, or `None` if it is the old one.
pub(super) fn apply(
    subject: &Subject<'_>,
    old: &Value,
    config: &Value,
    managers: &mut Managers,
    name: &str,
    force: bool,
) -> Result<Option<Value>, Error> {
    let id = ManagerId::new(name, Operation::Apply, subject.api_version, subject.subresource);
    let merged = merge::merge(subject.ty, old, config)?;
    let mut set = fields_of(subject.ty, config)?;
    subject.reset.keep(&mut set);
    let last = managers.remove(&id);
    let mut entry = Entry::new(id.clone(), subject.api_version, set);
    entry.time = last.as_ref().and_then(|last| last.time.clone());
    managers.put(entry);
    let new = match &last {
        Some(last) => prune(subject, merged, managers, last)?,
        None => merged,
    };
    let change = subject.change(subject.ty, old, &new)?;
    take_over(subject, (old, &new), &change, managers, Some(&id), force)?;
    let changed = !super::value::same(old, &new);
    if let Some(mut entry) = managers.remove(&id) {
        let left = stripped(entry.fields().clone());
        if !left.is_empty() {
            entry.set_fields(left);
            if changed {
                entry.time = Some(subject.now.clone());
            }
            managers.put(entry);
        }
    }
    Ok(changed.then_some(new))
}

/// Takes out of `merged` what the applying manager has given up and nobody else has.
fn prune(subject: &Subject<'_>, merged: Value, managers: &Managers, last: &Entry) -> Result<Value, Error> {
    let Some(View { ty, value }) = subject.view(&last.version, &merged) else { return Ok(merged) };
    if last.fields().is_empty() {
        return Ok(merged);
    }
    let before = value.into_owned();
    let given_up = with_listed(ty, last.fields());
    let pruned = removed(ty, &before, &given_up)?;
    let pruned = add_back_owned(subject, &before, pruned, &last.version, managers)?;
    // What nobody has was not this manager's to remove.
    let Some(View { ty, value: pruned }) = subject.view(&last.version, &pruned) else { return Ok(merged) };
    let all = with_listed(ty, &fields_of(ty, &before)?);
    let left = with_listed(ty, &fields_of(ty, &pruned)?);
    let pruned = removed(ty, &before, &all.difference(&left).intersection(&given_up))?;
    let own = subject.view(subject.api_version, &pruned).map(|view| view.value.into_owned());
    Ok(own.unwrap_or(merged))
}

/// Puts back what managers have, in each version that they speak; the version of the pruned state comes first.
fn add_back_owned(
    subject: &Subject<'_>,
    merged: &Value,
    mut pruned: Value,
    version: &str,
    managers: &Managers,
) -> Result<Value, Error> {
    let mut owned: Vec<(&str, FieldSet)> = vec![(version, FieldSet::default())];
    for entry in managers.iter() {
        match owned.iter_mut().find(|(version, _)| *version == entry.version) {
            Some((_, set)) => *set = set.union(entry.fields()),
            None => owned.push((&entry.version, entry.fields().clone())),
        }
    }
    for (version, owned) in owned {
        let views = (subject.view(version, merged), subject.view(version, &pruned));
        let (Some(before), Some(after)) = views else { continue };
        let ty = before.ty;
        let all = with_listed(ty, &fields_of(ty, &before.value)?);
        let kept = with_listed(ty, &fields_of(ty, &after.value)?).union(&with_listed(ty, &owned));
        pruned = removed(ty, &before.value, &all.difference(&kept))?;
    }
    Ok(pruned)
}
