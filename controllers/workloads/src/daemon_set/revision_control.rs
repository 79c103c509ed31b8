//! How the controller reads and writes the revisions of DaemonSets.

use std::sync::Arc;

use steersman_api::{ArcStr, Meta};
use steersman_controller::children::Claim;
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::SyncError;
use steersman_controller::own_writes::OwnWrites;
use steersman_controller::server_version::ServerVersion;
use steersman_informer::factory;
use steersman_informer::wire::Object;
use steersman_kinds::controller_revision::ControllerRevision;
use steersman_kinds::daemon_set::DaemonSet;

use super::HASH_LABEL;
use super::history::Revision;
use super::observed::Set;
use super::plan::Outcome;
use crate::pod_template::{self, Layout};
use crate::revisions::{self, Created, History, Owner, daemon_set_name};

/// Reads and writes the revisions of DaemonSets.
pub(super) struct RevisionControl {
    /// The revisions in the cache.
    pub history: History<DaemonSet>,
    server_version: ServerVersion,
}

impl RevisionControl {
    /// Makes the control. Its calls go through `sender`.
    ///
    /// # Errors
    /// The cache of revisions runs already without the fields that the controller reads.
    pub(super) fn new(
        context: &ControllerContext,
        sender: &steersman_client::Sender,
    ) -> Result<Self, factory::Error> {
        let history = History::new(context, sender)?;
        Ok(Self { history, server_version: context.server_version.clone() })
    }

    /// The revisions that concern a DaemonSet, as the cache shows them.
    ///
    /// # Errors
    /// A revision, or the DaemonSet's template, can't be read.
    pub(super) fn observe(&self, set: &Set, own_writes: &OwnWrites) -> Result<Vec<Revision>, SyncError> {
        self.history.observe(&owner(set), own_writes).map(read)
    }

    /// As [`observe`](Self::observe), but shows everything that earlier leaders have written.
    ///
    /// # Errors
    /// A call failed, or a revision or the DaemonSet's template can't be read.
    pub(super) async fn confirm(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
    ) -> Result<Vec<Revision>, SyncError> {
        self.history.confirm(&owner(set), own_writes).await.map(read)
    }

    /// Stores the DaemonSet's template as a revision of this number.
    ///
    /// # Errors
    /// A call failed.
    pub(super) async fn create(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
        number: i64,
    ) -> Result<Outcome, SyncError> {
        let layout = Layout::of_server(&self.server_version).await?;
        let hash = pod_template::hash(&set.template, set.status.collision_count, layout)
            .map_err(|error| SyncError::Failed(format!("DaemonSet {}: {error}", set.meta.key)))?;
        let name = daemon_set_name(&set.meta.key.name, &hash);
        let label = (HASH_LABEL, hash);
        Ok(match self.history.create(&owner(set), own_writes, name, label, number).await? {
            // As upstream: a revision of that name and template is the set's, whatever its owner.
            Created::Now(made) => Outcome::Revision(Box::new(Revision::of(&made, Claim::Owned, true))),
            Created::Collision => Outcome::Collision,
            Created::OwnerGone => Outcome::Gone,
        })
    }

    /// Makes the DaemonSet the owner of a revision.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn adopt(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
        revision: &Revision,
    ) -> Result<Outcome, SyncError> {
        let adopted = self.history.adopt(&set.meta, own_writes, &meta(revision)).await?;
        Ok(changed(adopted, revision))
    }

    /// Removes the DaemonSet from the owners of a revision.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn release(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
        revision: &Revision,
    ) -> Result<Outcome, SyncError> {
        self.history.release(&set.meta, own_writes, &meta(revision)).await.map(|()| Outcome::Done)
    }

    /// Gives a revision its name as its hash.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn label(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
        revision: &Revision,
    ) -> Result<Outcome, SyncError> {
        let label = (HASH_LABEL, &*revision.key.name);
        let labelled = self.history.label(&set.meta, own_writes, &meta(revision), label).await?;
        Ok(changed(labelled, revision))
    }

    /// Gives a revision another number.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn renumber(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
        revision: &Revision,
        number: i64,
    ) -> Result<Outcome, SyncError> {
        let renumbered = self.history.renumber(&set.meta, own_writes, &meta(revision), number).await?;
        Ok(changed(renumbered, revision))
    }

    /// Deletes a revision.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn delete(
        &self,
        set: &Set,
        own_writes: &OwnWrites,
        revision: &Revision,
    ) -> Result<Outcome, SyncError> {
        self.history.delete(&set.meta.key, own_writes, &meta(revision)).await.map(|()| Outcome::Done)
    }
}

impl Revision {
    fn of(revision: &ControllerRevision, claim: Claim, is_current: bool) -> Self {
        let meta = revision.meta();
        Self {
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            claim,
            hash: meta.labels.get(HASH_LABEL).cloned().unwrap_or_else(ArcStr::default),
            number: revisions::number(revision),
            is_current,
        }
    }
}

fn read(found: Vec<revisions::Revision>) -> Vec<Revision> {
    let read = |one: &revisions::Revision| Revision::of(&one.object, one.claim, one.has_template);
    found.iter().map(read).collect()
}

fn owner(set: &Set) -> Owner<'_> {
    Owner { meta: &set.meta, selector: &set.selector, template: &set.template }
}

fn meta(revision: &Revision) -> Meta {
    Meta { key: revision.key.clone(), uid: revision.uid.clone(), ..Meta::default() }
}

/// The new state of a revision. The write has not changed whose template it has.
fn changed(found: Option<Arc<ControllerRevision>>, before: &Revision) -> Outcome {
    found.map_or(Outcome::Gone, |found| {
        Outcome::Revision(Box::new(Revision::of(&found, Claim::Owned, before.is_current)))
    })
}
