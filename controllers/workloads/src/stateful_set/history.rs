//! The revisions of sets, as policy sees them.

use std::sync::Arc;

use steersman_api::{LabelSelector, Meta, ObjectKey};
use steersman_controller::children::{Claim, Owns};
use steersman_controller::controller::SyncError;
use steersman_controller::own_writes::OwnWrites;
use steersman_informer::wire::{Object, Opaque};
use steersman_kinds::controller_revision::ControllerRevision;
use steersman_kinds::stateful_set::StatefulSet;

use crate::revisions::{self, Created, History, Owner};

use super::SyncedStatefulSet;
use super::observed::{Observed, Set};
use super::revisions::{Revision, RevisionOutcome, RevisionStep, Revisions};

/// Which caches an observation of the history may trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The cache, as it is.
    Cached,
    /// The cache if it shows what earlier leaders have written, else the API server.
    Confirmed,
}

/// The set's revisions. Those that the set manages and that its selector does not select are none of them, as upstream.
pub(super) async fn observe(
    history: &History<StatefulSet>,
    own_writes: &OwnWrites,
    owner: &StatefulSet,
    set: &Set,
    look: Look,
) -> Result<Revisions, SyncError> {
    let selector = selector(owner)?;
    let owner = Owner { meta: owner.meta(), selector: &selector, template: &set.template };
    let mut all = match look {
        Look::Cached => history.observe(&owner, own_writes)?,
        Look::Confirmed => history.confirm(&owner, own_writes).await?,
    };
    all.retain(|revision| revision.claim != Claim::Stray);
    let newest = all.iter().rfind(|revision| revision.has_template);
    let newest = newest.map(|revision| revision.meta().key.name.clone());
    let collision_count = set.status.collision_count.unwrap_or(0);
    let all = all.iter().map(|revision| read(&revision.object, revision.claim == Claim::Orphan)).collect();
    Ok(Revisions { all, newest, collision_count })
}

/// The pod template of a revision.
pub(super) fn template(history: &History<StatefulSet>, key: &ObjectKey) -> Result<Opaque, SyncError> {
    let restored = history.template(key)?.filter(|template| !template.is_empty());
    restored.ok_or_else(|| SyncError::Failed(format!("revision {key} has no template")))
}

/// Carries out a write.
pub(super) async fn write(
    history: &History<StatefulSet>,
    own_writes: &OwnWrites,
    observed: &Observed,
    step: &RevisionStep,
) -> Result<RevisionOutcome, SyncError> {
    let set = &observed.set.meta;
    let changed = match step {
        RevisionStep::Adopt(revision) => history.adopt(set, own_writes, &meta(revision)).await?,
        RevisionStep::Raise(revision, number) => {
            history.renumber(set, own_writes, &meta(revision), *number).await?
        }
        RevisionStep::Delete(revision) => {
            history.delete(&set.key, own_writes, &meta(revision)).await?;
            None
        }
        RevisionStep::Create(number) => {
            let selector = LabelSelector::everything();
            let owner = Owner { meta: set, selector: &selector, template: &observed.set.template };
            let collisions = observed.revisions.collision_count;
            let created = history.create_for_stateful_set(&owner, own_writes, *number, collisions).await?;
            return match created {
                (Created::Now(revision), collisions) => Ok(RevisionOutcome::Created(
                    read(&revision, revision.meta().controller().is_none()),
                    collisions,
                )),
                (Created::Collision | Created::OwnerGone, _) => Err(SyncError::Failed(format!(
                    "creating a revision of StatefulSet {}: the set is gone",
                    set.key
                ))),
            };
        }
    };
    Ok(changed.map_or(RevisionOutcome::Gone, |revision: Arc<ControllerRevision>| {
        RevisionOutcome::Is(read(&revision, revision.meta().controller().is_none()))
    }))
}

fn read(revision: &ControllerRevision, is_orphan: bool) -> Revision {
    let meta = revision.meta();
    let number = revisions::number(revision);
    Revision { key: meta.key.clone(), uid: meta.uid.clone(), number, is_orphan }
}

fn meta(revision: &Revision) -> Meta {
    Meta { key: revision.key.clone(), uid: revision.uid.clone(), ..Meta::default() }
}

fn selector(owner: &StatefulSet) -> Result<LabelSelector, SyncError> {
    let failed = |error| SyncError::Failed(format!("StatefulSet {}: {error}", owner.meta().key));
    SyncedStatefulSet::selector(owner).map_err(failed)
}
