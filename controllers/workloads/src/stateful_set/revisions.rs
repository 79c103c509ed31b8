//! A StatefulSet's history: which of its revisions are in use, and what must be written to it.

use std::collections::HashSet;

use steersman_api::{ArcStr, ObjectKey, Uid};

/// The revisions of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct Revisions {
    /// The revisions that the set owns or may adopt, from the lowest number to the highest.
    pub all: Vec<Revision>,
    /// The revision that has the set's template.
    pub newest: Newest,
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

/// The revision that has the set's template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Newest {
    /// The last one has it.
    Last,
    /// An earlier one has it, so that it must become the last.
    Earlier(ArcStr),
    /// None has it.
    #[default]
    Missing,
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
        let next = self.all.last().map_or(1, |last| last.number + 1);
        match &self.newest {
            Newest::Last => None,
            Newest::Missing => Some(RevisionStep::Create(next)),
            Newest::Earlier(name) => {
                let equal = self.all.iter().find(|revision| revision.key.name == *name);
                equal.map(|revision| RevisionStep::Raise(revision.clone(), next))
            }
        }
    }

    /// The name of the revision that has the set's template. `None` until the history is settled.
    pub(super) fn update(&self) -> Option<&str> {
        let last = self.all.last().filter(|_| self.newest == Newest::Last);
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

    /// Deletes the oldest of the revisions that are not in use, while there are more of these than `limit`.
    pub(super) fn truncate<'a>(
        &self,
        in_use: impl Iterator<Item = &'a str>,
        limit: i32,
    ) -> Option<RevisionStep> {
        let limit = usize::try_from(limit).ok()?;
        let in_use: HashSet<&str> = in_use.collect();
        let is_used = |revision: &Revision| in_use.contains(revision.key.name.as_str());
        let mut unused = self.all.iter().filter(|revision| !is_used(revision));
        let oldest = unused.next()?;
        (unused.count() + 1 > limit).then(|| RevisionStep::Delete(oldest.clone()))
    }

    /// Adds the result of a write.
    pub(super) fn absorb(&mut self, step: &RevisionStep, outcome: RevisionOutcome) {
        let changed = match step {
            RevisionStep::Adopt(revision)
            | RevisionStep::Raise(revision, _)
            | RevisionStep::Delete(revision) => Some(&revision.uid),
            RevisionStep::Create(_) => None,
        };
        self.all.retain(|revision| Some(&revision.uid) != changed);
        let revision = match outcome {
            RevisionOutcome::Gone => return,
            RevisionOutcome::Is(revision) => revision,
            RevisionOutcome::Created(revision, collisions) => {
                self.collision_count = collisions;
                revision
            }
        };
        self.all.retain(|other| other.uid != revision.uid);
        let at = self.all.partition_point(|other| other.number <= revision.number);
        self.all.insert(at, revision);
        if matches!(step, RevisionStep::Raise(..) | RevisionStep::Create(_)) {
            self.newest = Newest::Last;
        }
    }
}
