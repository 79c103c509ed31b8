//! What becomes of objects whose owners are deleted. Pure.
//!
//! ```text
//! owner gone          ─> its dependents are deleted, or released if they have other owners
//! owner waits for     orphan: its dependents are released ─> its finalizer is removed
//!                     foregroundDeletion: those that block it are deleted, with their own dependents first ─> the same
//! ```

use std::collections::{BTreeMap, BTreeSet};

use steersman_api::{GroupVersionResource, ObjectKey, OwnerReference, Uid};
use steersman_controller::client::Propagation;

#[cfg(test)]
mod tests;

/// The finalizer of an owner whose dependents shall be released before it goes.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an owner whose dependents shall be deleted before it goes.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// A kind of objects that the controllers of this program make, or that own such objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Owned by a StatefulSet, or by one of its pods.
    PersistentVolumeClaim,
    Pod,
    /// Owned by a StatefulSet or a DaemonSet.
    ControllerRevision,
    /// Owned by a CronJob, or by nothing.
    Job,
    ReplicationController,
    /// Owned by a Service, or by the Endpoints that it mirrors.
    EndpointSlice,
    Endpoints,
    Service,
    CronJob,
    /// Owned by a Deployment, or by nothing.
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl Kind {
    /// All kinds, dependents before their owners.
    pub(super) const ALL: [Self; 13] = [
        Self::PersistentVolumeClaim,
        Self::Pod,
        Self::ControllerRevision,
        Self::Job,
        Self::ReplicationController,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Service,
        Self::CronJob,
        Self::ReplicaSet,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
    ];

    /// The kind's name, its API group and its plural name. The version of each is `v1`.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::PersistentVolumeClaim => ("PersistentVolumeClaim", "", "persistentvolumeclaims"),
            Self::Pod => ("Pod", "", "pods"),
            Self::ControllerRevision => ("ControllerRevision", "apps", "controllerrevisions"),
            Self::Job => ("Job", "batch", "jobs"),
            Self::ReplicationController => ("ReplicationController", "", "replicationcontrollers"),
            Self::EndpointSlice => ("EndpointSlice", "discovery.k8s.io", "endpointslices"),
            Self::Endpoints => ("Endpoints", "", "endpoints"),
            Self::Service => ("Service", "", "services"),
            Self::CronJob => ("CronJob", "batch", "cronjobs"),
            Self::ReplicaSet => ("ReplicaSet", "apps", "replicasets"),
            Self::Deployment => ("Deployment", "apps", "deployments"),
            Self::StatefulSet => ("StatefulSet", "apps", "statefulsets"),
            Self::DaemonSet => ("DaemonSet", "apps", "daemonsets"),
        }
    }

    /// The kind's name in the API.
    pub(super) fn name(self) -> &'static str {
        self.names().0
    }

    /// The kind's API group, version and plural name.
    pub(super) fn resource(self) -> GroupVersionResource {
        let (_, group, plural) = self.names();
        GroupVersionResource::new(group, "v1", plural)
    }

    /// The kind that a reference names, in any version of its group. `None` if it is not one of these.
    fn of(reference: &OwnerReference) -> Option<Self> {
        let named = |kind: &Self| kind.name() == reference.kind && kind.names().1 == reference.group();
        Self::ALL.into_iter().find(named)
    }
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) id: Id,
    pub(super) owners: Vec<OwnerReference>,
    /// `None` if the object is not being deleted.
    pub(super) deletion: Option<Deletion>,
}

/// Identifies an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) kind: Kind,
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
}

/// What an object that is being deleted waits for. An object that waits for nothing is gone at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// For the release of its dependents.
    Orphan,
    /// For the deletion of its dependents.
    Foreground,
    /// For a finalizer of another party, or for its node.
    Other,
}

/// A call. Repeating one that has been made does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Delete the object if the API server confirms that its owner is gone.
    Collect { object: Id, owner: Id },
    /// Delete the object, because its owner is being deleted.
    Delete { object: Id, propagation: Propagation },
    /// Remove the reference to the owner from the object.
    Release { object: Id, owner_uid: Uid },
    /// Remove this finalizer from the owner, because what it asks for is done.
    Finish { owner: Id, finalizer: &'static str },
}

/// All steps that are due.
pub(super) fn plan(objects: &[Object]) -> Vec<Step> {
    let by_uid: BTreeMap<&Uid, &Object> = objects.iter().map(|object| (&object.id.uid, object)).collect();
    let (mut owning, mut blocked) = (BTreeSet::new(), BTreeSet::new());
    for object in objects {
        for reference in &object.owners {
            if let Some(owner) = owner(reference, object, &by_uid) {
                owning.insert(&owner.id.uid);
                if blocks(reference) {
                    blocked.insert(&owner.id.uid);
                }
            }
        }
    }
    let of_dependents = objects.iter().filter_map(|object| {
        let with_dependents = owning.contains(&object.id.uid);
        let propagation = if with_dependents { Propagation::Foreground } else { Propagation::Background };
        of_dependent(object, &by_uid, propagation)
    });
    let mut steps: Vec<Step> = of_dependents.collect();
    for owner in objects {
        let (finalizer, holds) = match owner.deletion {
            Some(Deletion::Orphan) => (ORPHAN, owning.contains(&owner.id.uid)),
            Some(Deletion::Foreground) => (FOREGROUND, blocked.contains(&owner.id.uid)),
            Some(Deletion::Other) | None => continue,
        };
        if !holds {
            steps.push(Step::Finish { owner: owner.id.clone(), finalizer });
        }
    }
    steps
}

/// The owner that a reference names. An object's owner is in the object's own namespace, whatever uid the reference carries.
fn owner<'a>(
    reference: &OwnerReference,
    object: &Object,
    by_uid: &BTreeMap<&Uid, &'a Object>,
) -> Option<&'a Object> {
    let owner = by_uid.get(&reference.uid)?;
    let is_it =
        Kind::of(reference) == Some(owner.id.kind) && owner.id.key.namespace == object.id.key.namespace;
    is_it.then_some(owner)
}

/// Whether a foreground deletion of the owner waits for the object with this reference.
fn blocks(reference: &OwnerReference) -> bool {
    reference.block_owner_deletion == Some(true)
}

/// The step that is due for an object because of one of its owners.
///
/// An object that has other owners besides is released instead of deleted, because this function cannot tell whether those
/// exist. Once one reference is left, the object goes with that owner.
fn of_dependent(object: &Object, by_uid: &BTreeMap<&Uid, &Object>, propagation: Propagation) -> Option<Step> {
    let id = || object.id.clone();
    let (alone, stays) = (object.owners.len() == 1, object.deletion.is_none());
    object.owners.iter().find_map(|reference| {
        let kind = Kind::of(reference)?;
        let release = || Some(Step::Release { object: id(), owner_uid: reference.uid.clone() });
        match owner(reference, object, by_uid).map(|owner| owner.deletion) {
            None if alone && stays => {
                let key = ObjectKey::new(object.id.key.namespace.clone(), reference.name.clone());
                let owner = Id { kind, key, uid: reference.uid.clone() };
                Some(Step::Collect { object: id(), owner })
            }
            Some(Some(Deletion::Foreground)) if !blocks(reference) => None,
            Some(Some(Deletion::Foreground)) if alone => {
                stays.then(|| Step::Delete { object: id(), propagation })
            }
            Some(Some(Deletion::Foreground | Deletion::Orphan)) => release(),
            _ => None,
        }
    })
}
