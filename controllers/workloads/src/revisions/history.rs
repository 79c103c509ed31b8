//! Reads and writes of the revisions of one kind's objects.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey};
use steersman_client::Sender;
use steersman_controller::call::{Content, JSON};
use steersman_controller::children::{
    Claim, FirstLooks, Look, WITHOUT_CONTROLLER, adoption, is_child_of, release, without_controller,
};
use steersman_controller::client::{self, Client, Delete, Deleted, Patch, controller_reference};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::SyncError;
use steersman_controller::own_writes::OwnWrites;
use steersman_informer::index::{BY_CONTROLLER, by_controller};
use steersman_informer::wire::{Kind, Object, Opaque};
use steersman_informer::{AnyInformer, Index, IndexValue, Informer, Lister, factory, keep};
use steersman_kinds::controller_revision::{ControllerRevision, RevisionData, RevisionNumber};

use super::data::{self, Form, data};
use super::name::{HASH_LABEL, stateful_set_hash, stateful_set_name};
use super::verdicts::{Comparison, Verdicts, data_of};
use super::{Owner, Revision, in_order};
use crate::pod_template;

keep! {
    /// What controllers read of a revision.
    pub(crate) struct SyncedRevision: ControllerRevision => RevisionData, RevisionNumber
}

/// The revisions of objects of kind `O`.
///
/// Writes go through the owner's [`OwnWrites`], which must [`watch`](OwnWrites::watch) the history's [cache](Self::cache).
/// They are safe to repeat: a revision's name follows from its data, and the others apply to one uid. So a write whose outcome is
/// unknown needs no look at the API server before the next one.
pub(crate) struct History<O> {
    informer: Informer<SyncedRevision>,
    lister: Lister<SyncedRevision>,
    by_controller: Index<SyncedRevision>,
    without_controller: Index<SyncedRevision>,
    client: Client<ControllerRevision>,
    owners: Client<O>,
    first_looks: FirstLooks,
    verdicts: Verdicts,
}

/// The result of creating a revision.
#[derive(Debug)]
pub(crate) enum Created {
    /// The revision exists now. It may have existed before: then its number may be another than the wanted one, and another
    /// owner may manage it.
    Now(Arc<ControllerRevision>),
    /// Another revision, with other data, has the name.
    Collision,
    /// The owner does not exist any more.
    OwnerGone,
}

impl<O: Kind> History<O> {
    /// Makes the history of one controller. Its calls go through `sender`.
    ///
    /// # Errors
    /// The cache of revisions runs already without the fields that this needs.
    pub(crate) fn new(context: &ControllerContext, sender: &Sender) -> Result<Self, factory::Error> {
        let informer = context.informers.informer::<SyncedRevision>()?;
        Ok(Self {
            lister: informer.lister(),
            by_controller: informer.add_index(BY_CONTROLLER, by_controller),
            without_controller: informer.add_index(WITHOUT_CONTROLLER, without_controller),
            client: Client::keeping::<SyncedRevision>(sender.clone()),
            owners: Client::new(sender.clone()),
            first_looks: context.first_looks.clone(),
            verdicts: Verdicts::new(Form::of_kind(O::KIND)),
            informer,
        })
    }

    /// The same history, which compares revisions with a template in this way.
    #[must_use]
    pub(crate) fn comparing(self, comparison: Comparison) -> Self {
        Self { verdicts: self.verdicts.comparing(comparison), ..self }
    }

    /// The cache of revisions, which must sync before the controller starts.
    pub(crate) fn cache(&self) -> Arc<dyn AnyInformer> {
        self.informer.any()
    }

    /// The informer of revisions, for the controller's mapping: see
    /// [`Children::dependent_changed`](steersman_controller::children::Children::dependent_changed).
    pub(crate) fn informer(&self) -> &Informer<SyncedRevision> {
        &self.informer
    }

    /// Forgets what is remembered from an earlier term: owners may have gone since. Call this in
    /// [`Controller::term_begins`](steersman_controller::controller::Controller::term_begins).
    pub(crate) fn term_begins(&self) {
        self.verdicts.clear();
    }

    /// Forgets what is remembered of an owner that is gone.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.verdicts.forget(owner);
    }

    /// The revisions that concern an owner, as the cache shows them, sorted by number. Those that the controller has deleted are
    /// not among them, though the cache may still show them.
    ///
    /// # Errors
    /// A revision in the cache, or the owner's template, can't be read.
    pub(crate) fn observe(
        &self,
        owner: &Owner<'_>,
        own_writes: &OwnWrites,
    ) -> Result<Vec<Revision>, SyncError> {
        let key = &owner.meta.key;
        let owned = |revision: &Meta| is_child_of::<O>(revision, key, &owner.meta.uid);
        let by_owner = IndexValue::Owner(key.namespace.clone(), owner.meta.uid.clone());
        let mut all =
            self.lister.by_index_where(&self.by_controller, &by_owner, owned).map_err(unreadable)?;
        let selected = |revision: &Meta| owner.selector.matches(&revision.labels);
        let namespace = key.namespace.clone().into();
        let free = self.lister.by_index_where(&self.without_controller, &namespace, selected);
        all.extend(free.map_err(unreadable)?);
        let gone = own_writes
            .gone::<ControllerRevision>(key, |uid| all.iter().any(|revision| revision.meta().uid == *uid));
        let objects = all.iter().map(|revision| Arc::clone(revision.object()));
        self.revisions(owner, objects.filter(|revision| !gone.is_condemned(&revision.meta().uid)))
    }

    /// As [`observe`](Self::observe), but shows everything that earlier leaders have written. Call this before the first write of a
    /// term, as [`Children::confirm`](steersman_controller::children::Children::confirm).
    ///
    /// # Errors
    /// A call failed, or a revision or the owner's template can't be read.
    pub(crate) async fn confirm(
        &self,
        owner: &Owner<'_>,
        own_writes: &OwnWrites,
    ) -> Result<Vec<Revision>, SyncError> {
        match self.first_looks.look(self.client.resource(), &self.cache()).await? {
            Look::Current => self.observe(owner, own_writes),
            Look::Behind => {
                let all = LabelSelector::everything();
                let listed = self.client.list(&owner.meta.key.namespace, &all).await?;
                self.revisions(owner, listed.objects.into_iter())
            }
        }
    }

    /// The pod template that a revision restores, from the cache. `None` if the cache does not have the revision.
    ///
    /// # Errors
    /// The revision can't be read.
    pub(crate) fn template(&self, revision: &ObjectKey) -> Result<Option<Opaque>, SyncError> {
        let Some(found) = self.lister.get(revision).map_err(unreadable)? else { return Ok(None) };
        let restored = data::template(data_of(found.object()));
        restored.map(Some).map_err(|error| SyncError::Failed(format!("revision {revision}: {error}")))
    }

    /// Makes the owner the managing owner of a revision that has none. Returns the revision's new state, or `None` if it is gone.
    /// The caller must have checked that the owner is alive.
    ///
    /// # Errors
    /// The call failed.
    pub(crate) async fn adopt(
        &self,
        owner: &Meta,
        own_writes: &OwnWrites,
        revision: &Meta,
    ) -> Result<Option<Arc<ControllerRevision>>, SyncError> {
        self.patch(owner, own_writes, revision, adoption::<O>(owner, revision, &[])).await
    }

    /// Removes the owner from a revision's owner references.
    ///
    /// # Errors
    /// The call failed. A revision that is gone, or has no owners any more, is no error.
    pub(crate) async fn release(
        &self,
        owner: &Meta,
        own_writes: &OwnWrites,
        revision: &Meta,
    ) -> Result<(), SyncError> {
        let patch = release(owner, revision, &[]);
        match own_writes.write(&owner.key, self.client.patch(&revision.key, &patch)).await {
            Err(error) if error.is("Invalid") => Ok(()),
            result => {
                result?.or_conflict(|| format!("releasing revision {}", revision.key))?;
                Ok(())
            }
        }
    }

    /// Gives a revision another number. Returns its new state, or `None` if it is gone.
    ///
    /// # Errors
    /// The call failed.
    pub(crate) async fn renumber(
        &self,
        owner: &Meta,
        own_writes: &OwnWrites,
        revision: &Meta,
        number: i64,
    ) -> Result<Option<Arc<ControllerRevision>>, SyncError> {
        let patch = json!({"metadata": {"uid": revision.uid}, "revision": number});
        self.patch(owner, own_writes, revision, Patch::Merge(patch)).await
    }

    /// Sets a label of a revision. Returns its new state, or `None` if it is gone.
    ///
    /// # Errors
    /// The call failed.
    pub(crate) async fn label(
        &self,
        owner: &Meta,
        own_writes: &OwnWrites,
        revision: &Meta,
        label: (&str, &str),
    ) -> Result<Option<Arc<ControllerRevision>>, SyncError> {
        let (key, value) = label;
        let patch = json!({"metadata": {"uid": revision.uid, "labels": {key: value}}});
        self.patch(owner, own_writes, revision, Patch::Merge(patch)).await
    }

    /// Deletes a revision. One that is gone is no error.
    ///
    /// # Errors
    /// The call failed.
    pub(crate) async fn delete(
        &self,
        owner: &ObjectKey,
        own_writes: &OwnWrites,
        revision: &Meta,
    ) -> Result<(), SyncError> {
        let options = Delete::of(&revision.uid);
        let delete = self.client.delete(&revision.key, &options);
        match own_writes.remove::<ControllerRevision, _>(owner, &revision.uid, delete).await? {
            // A conflict: another revision has the name now.
            Deleted::Now(..) | Deleted::Gone | Deleted::Conflict(_) => Ok(()),
        }
    }

    /// Creates the revision of a StatefulSet's template, as upstream's `CreateControllerRevision`. Each taken name raises the
    /// collision count, which is returned, and leads to the next name.
    ///
    /// # Errors
    /// A call failed.
    pub(crate) async fn create_for_stateful_set(
        &self,
        owner: &Owner<'_>,
        own_writes: &OwnWrites,
        number: i64,
        mut collision_count: i32,
    ) -> Result<(Created, i32), SyncError> {
        let data = self.data(owner)?;
        // Upstream does not change the label with the name.
        let label = (HASH_LABEL, stateful_set_hash(&data, collision_count));
        loop {
            let name = stateful_set_name(&owner.meta.key.name, &stateful_set_hash(&data, collision_count));
            match self.create_named(owner, own_writes, &data, name, label.clone(), number).await? {
                Created::Collision => collision_count = collision_count.wrapping_add(1),
                created => return Ok((created, collision_count)),
            }
        }
    }

    /// Creates the revision of the owner's template with this name and label, beside the labels of the template.
    ///
    /// # Errors
    /// A call failed.
    pub(crate) async fn create(
        &self,
        owner: &Owner<'_>,
        own_writes: &OwnWrites,
        name: ArcStr,
        label: (&str, ArcStr),
        number: i64,
    ) -> Result<Created, SyncError> {
        let data = self.data(owner)?;
        self.create_named(owner, own_writes, &data, name, label, number).await
    }

    async fn create_named(
        &self,
        owner: &Owner<'_>,
        own_writes: &OwnWrites,
        data: &str,
        name: ArcStr,
        label: (&str, ArcStr),
        number: i64,
    ) -> Result<Created, SyncError> {
        let key = ObjectKey::new(owner.meta.key.namespace.clone(), name);
        // A revision has its owner's annotations, which no cache keeps.
        let live = self.owners.resource().get_json(&owner.meta.key).await?;
        let is_it = |live: &Value| live["metadata"]["uid"] == owner.meta.uid.to_string();
        let Some(live) = live.filter(is_it) else { return Ok(Created::OwnerGone) };
        let metadata = json!({
            "name": key.name.as_str(),
            "labels": labels(owner, label)?,
            "annotations": live["metadata"]["annotations"],
            "ownerReferences": [controller_reference::<O>(owner.meta)],
        });
        let object = new_revision(&metadata, data, number);
        let create = self.client.create(&key.namespace, object);
        match own_writes.write(&owner.meta.key, create).await? {
            client::Created::Now(made) => Ok(Created::Now(made)),
            client::Created::NamespaceTerminating => {
                Err(SyncError::Failed(format!("creating revision {key}: its namespace is being deleted")))
            }
            client::Created::Exists(status) => match self.client.get(&key).await? {
                Some(found) if data::is_same(data_of(&found), data) => Ok(Created::Now(found)),
                Some(_) => Ok(Created::Collision),
                None => Err(SyncError::Refused { what: format!("creating revision {key}"), status }),
            },
        }
    }

    fn data(&self, owner: &Owner<'_>) -> Result<String, SyncError> {
        data(Form::of_kind(O::KIND), owner.template).map_err(|error| broken(owner, &error))
    }

    async fn patch(
        &self,
        owner: &Meta,
        own_writes: &OwnWrites,
        revision: &Meta,
        patch: Patch,
    ) -> Result<Option<Arc<ControllerRevision>>, SyncError> {
        let changed = own_writes.write(&owner.key, self.client.patch(&revision.key, &patch)).await?;
        changed.or_conflict(|| format!("changing revision {}", revision.key))
    }

    /// The revisions among `objects` that concern the owner, sorted.
    fn revisions(
        &self,
        owner: &Owner<'_>,
        objects: impl Iterator<Item = Arc<ControllerRevision>>,
    ) -> Result<Vec<Revision>, SyncError> {
        let claimed = |object: Arc<ControllerRevision>| {
            let claim = Claim::of::<O>(owner.meta, owner.selector, object.meta())?;
            Some(Revision { object, claim, has_template: false })
        };
        let mut revisions: Vec<Revision> = objects.filter_map(claimed).collect();
        revisions.sort_by(|a, b| in_order(&a.object, &b.object));
        let is_kept = |revision: &&Revision| revision.claim != Claim::Stray;
        let verdicts =
            self.verdicts.of(owner, revisions.iter().filter(is_kept).map(|revision| &*revision.object))?;
        let kept = revisions.iter_mut().filter(|revision| revision.claim != Claim::Stray);
        kept.zip(verdicts).for_each(|(revision, has)| revision.has_template = has);
        Ok(revisions)
    }
}

fn unreadable(object: steersman_informer::Unreadable) -> SyncError {
    SyncError::Unreadable(format!("ControllerRevision {}", object.key))
}

fn broken(owner: &Owner<'_>, error: &pod_template::Error) -> SyncError {
    SyncError::Failed(format!("{}: {error}", owner.meta.key))
}

/// The labels of the owner's template and one more.
fn labels(owner: &Owner<'_>, (key, value): (&str, ArcStr)) -> Result<Value, SyncError> {
    let template = pod_template::json(owner.template).map_err(|error| broken(owner, &error))?;
    let mut labels = json!({});
    if template["metadata"]["labels"].is_object() {
        labels = template["metadata"]["labels"].clone();
    }
    labels[key] = value.as_str().into();
    Ok(labels)
}

/// A revision with this data, byte for byte.
fn new_revision(metadata: &Value, data: &str, number: i64) -> Content {
    let text = format!(
        r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{metadata},"data":{data},"revision":{number}}}"#
    );
    Content { media_type: JSON, bytes: text.into() }
}
