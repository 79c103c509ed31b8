//! The histories of StatefulSets and DaemonSets: their ControllerRevisions.
//!
//! ```text
//! template ─> data: Go's JSON ─> name: a hash of it (StatefulSets), or of the template (DaemonSets)
//! cache ─> History::observe ─> the owner's revisions, sorted; which of them have its template ─> the owner's plan
//! plan ─> History::adopt, release, create, renumber, label, delete
//! ```
//!
//! A controller-manager of upstream finds the revisions that [`History`] makes, and the other way round, since data and names
//! are upstream's byte for byte.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_api::{LabelSelector, Meta};
use steersman_controller::children::Claim;
use steersman_informer::wire::{Group, Object, Opaque};
use steersman_kinds::controller_revision::{ControllerRevision, RevisionNumber};

mod data;
mod history;
mod name;
#[cfg(test)]
mod tests;
mod verdicts;

pub(crate) use history::{Created, History};
pub(crate) use name::daemon_set_name;
pub(crate) use verdicts::Comparison;

/// What a history must know of its owner.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    /// The owner's metadata.
    pub(crate) meta: &'a Meta,
    /// The owner's selector, which selects its revisions.
    pub(crate) selector: &'a LabelSelector,
    /// The owner's pod template.
    pub(crate) template: &'a Opaque,
}

/// A revision that concerns an owner.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    /// The revision.
    pub(crate) object: Arc<ControllerRevision>,
    /// What the revision is to the owner.
    pub(crate) claim: Claim,
    /// Whether the revision has the owner's template. Several can have it. A revision that the owner has lost never has it.
    pub(crate) has_template: bool,
}

impl Revision {
    /// The revision's metadata.
    pub(crate) fn meta(&self) -> &Meta {
        self.object.meta()
    }
}

/// A revision's number.
pub(crate) fn number(revision: &ControllerRevision) -> i64 {
    RevisionNumber::of(revision).map_or(0, |number| number.0)
}

/// The order of revisions: by number, then by age, then by name. Upstream's `SortControllerRevisions`.
fn in_order(a: &ControllerRevision, b: &ControllerRevision) -> Ordering {
    let created = |revision: &ControllerRevision| revision.meta().created;
    let by_number = number(a).cmp(&number(b));
    by_number
        .then_with(|| created(a).cmp(&created(b)))
        .then_with(|| a.meta().key.name.cmp(&b.meta().key.name))
}
