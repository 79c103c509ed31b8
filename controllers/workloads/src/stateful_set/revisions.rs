//! A StatefulSet's history: which of its revisions are in use, and what must be written to it.

use std::collections::HashSet;

use steersman_api::{ArcStr, ObjectKey, Uid};

/// The revisions of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct Revisions {
    /// The revisions that the set owns or may adopt, from the lowest number to the highest.
    pub all: Vec<Revision>,
    /// The name of the last revision that has the set's template. `None` if none has it.
    pub newest: Option<ArcStr>,
    /// How often the name of a new revision was taken, in this sync included.
    pub collision_count: i32,
}

/// A revision.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revision {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the revision from others of its name.
    pub uid: Uid,
    /// The revision's number.
    pub number: i64,
    /// Whether no controller manages the revision.
    pub is_orphan: bool,
}

/// A write to the history.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RevisionStep {
    /// Become a revision's owner.
    Adopt(Revision),
    /// Give a revision a number above all others.
    Raise(Revision, i64),
    /// Create a revision with this number for the set's template.
    Create(i64),
    /// Delete a revision that nothing uses.
    Delete(Revision),
}

/// The result of a write to the history.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RevisionOutcome {
    /// The revision exists, or has changed.
    Is(Revision),
    /// The revision is gone.
    Gone,
    /// The revision of this name exists, and the name was taken so often.
    Created(Revision, i32),
}

impl Revisions {
    /// Adoptions of revisions that nothing manages.
    pub(super) fn adoptions(&self) -> impl Iterator<Item = RevisionStep> {
        self.all.iter().filter(|revision| revision.is_orphan).cloned().map(RevisionStep::Adopt)
    }

    /// The write that makes the last revision the one that has the set's template. `None` if it has.
    pub(super) fn settle(&self) -> Option<RevisionStep> {
        // Somebody may have created a revision with the highest number that there is.
        let next = self.all.last().map_or(1, |last| last.number.saturating_add(1));
        let newest = self.all.iter().find(|revision| Some(&revision.key.name) == self.newest.as_ref());
        match newest {
            None => Some(RevisionStep::Create(next)),
            Some(_) if self.update().is_some() => None,
            Some(newest) => Some(RevisionStep::Raise(newest.clone(), next)),
        }
    }

    /// The name of the revision that has the set's template. `None` until the history is settled.
    pub(super) fn update(&self) -> Option<&str> {
        let last = self.all.last().filter(|last| Some(&last.key.name) == self.newest.as_ref());
        last.map(|last| last.key.name.as_str())
    }

    /// The name of the revision that a rolling update comes from: the one that the status names, or the update revision if
    /// there is no such revision.
    pub(super) fn current(&self, named: &str) -> Option<&str> {
        let names = self.all.iter().map(|revision| revision.key.name.as_str());
        names.into_iter().find(|name| *name == named).or(self.update())
    }

    /// The key of the revision of this name.
    ///
    /// # Panics
    /// If the set has no such revision.
    pub(super) fn key(&self, name: &str) -> ObjectKey {
        let named = self.all.iter().find(|revision| revision.key.name == name);
        named.expect("a revision that policy names must exist").key.clone()
    }

    /// Deletes the oldest of the revisions that are not in use, so that `limit` of these are left. No steps if it is negative.
    pub(super) fn truncate<'a>(
        &self,
        in_use: impl Iterator<Item = &'a str>,
        limit: i32,
    ) -> Vec<RevisionStep> {
        let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
        let in_use: HashSet<&str> = in_use.collect();
        let is_unused = |revision: &&Revision| !in_use.contains(revision.key.name.as_str());
        let unused: Vec<&Revision> = self.all.iter().filter(is_unused).collect();
        let surplus = unused.len().saturating_sub(limit);
        unused[..surplus].iter().map(|revision| RevisionStep::Delete((*revision).clone())).collect()
    }

    /// Adds the result of a write.
    pub(super) fn absorb(&mut self, step: &RevisionStep, outcome: RevisionOutcome) {
        match (step, outcome) {
            (RevisionStep::Adopt(old), RevisionOutcome::Is(new)) => {
                if let Some(adopted) = self.all.iter_mut().find(|revision| revision.uid == old.uid) {
                    *adopted = new;
                }
            }
            (
                RevisionStep::Adopt(old) | RevisionStep::Raise(old, _) | RevisionStep::Delete(old),
                RevisionOutcome::Gone,
            ) => self.all.retain(|revision| revision.uid != old.uid),
            (RevisionStep::Create(_), RevisionOutcome::Created(new, collisions)) => {
                self.collision_count = collisions;
                self.settle_on(new);
            }
            (RevisionStep::Raise(..), RevisionOutcome::Is(new)) => self.settle_on(new),
            _ => {}
        }
    }

    /// Makes a revision the last one, whatever its number: a revision of another owner may have had the name and the data of
    /// the one that was to be created. The next sync sees it in its place.
    fn settle_on(&mut self, newest: Revision) {
        self.newest = Some(newest.key.name.clone());
        self.all.retain(|revision| revision.uid != newest.uid);
        self.all.push(newest);
    }
}
