//! The owners of a budget's pods: whose number of replicas counts for the budget.

use steersman_api::{ArcStr, ObjectKey, OwnerReference, Uid};
use steersman_informer::wire::{Kind, Object, Selection};
use steersman_informer::{AnyInformer, Informer, Lister, SharedInformerFactory, View, factory, keep};
use steersman_kinds::deployment::{Deployment, DeploymentSpec};
use steersman_kinds::replica_set::{ReplicaSet, ReplicaSetSpec};
use steersman_kinds::replication_controller::{ReplicationController, ReplicationControllerSpec};
use steersman_kinds::stateful_set::{StatefulSet, StatefulSetSpec};

use std::sync::Arc;

keep! {
    /// What the controller reads of a ReplicationController.
    pub struct ScaledReplicationController: ReplicationController => ReplicationControllerSpec
}
keep! {
    /// What the controller reads of a ReplicaSet.
    pub struct ScaledReplicaSet: ReplicaSet => ReplicaSetSpec
}
keep! {
    /// What the controller reads of a Deployment.
    pub struct ScaledDeployment: Deployment => DeploymentSpec
}
keep! {
    /// What the controller reads of a StatefulSet.
    pub struct ScaledStatefulSet: StatefulSet => StatefulSetSpec
}

/// The owner whose scale counts for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// No controller manages the pod.
    Unmanaged,
    /// This object asks for that many pods. A pod of a Deployment's ReplicaSet has the Deployment here.
    Scaled(Scale),
    /// Only the scale subresource of the pod's managing owner can tell.
    Foreign(OwnerReference),
    /// The cached owner can't be read, for this reason.
    Unreadable(String),
}

/// How many pods an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// The object.
    pub uid: Uid,
    /// The number of pods.
    pub replicas: i32,
}

/// The kinds whose numbers of replicas are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// A ReplicationController.
    ReplicationController,
    /// A ReplicaSet.
    ReplicaSet,
    /// A Deployment.
    Deployment,
    /// A StatefulSet.
    StatefulSet,
}

/// A cached object that asks for pods.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The object and its number of replicas.
    pub scale: Scale,
    /// The object's own managing owner.
    pub controller: Option<OwnerReference>,
}

impl Cached {
    /// The kind that an owner reference names. Upstream accepts the old group of Deployments and ReplicaSets, too.
    fn of(reference: &OwnerReference) -> Option<Self> {
        match (&*reference.kind, reference.group()) {
            ("ReplicationController", "") => Some(Self::ReplicationController),
            ("ReplicaSet", "apps" | "extensions") => Some(Self::ReplicaSet),
            ("Deployment", "apps" | "extensions") => Some(Self::Deployment),
            ("StatefulSet", "apps") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

impl Owner {
    /// The owner whose scale counts for a pod with this managing owner, as upstream's finders. `look` finds an object of a
    /// cache.
    pub(super) fn of(
        reference: &OwnerReference,
        namespace: &ArcStr,
        look: impl Fn(Cached, &ObjectKey) -> Result<Option<Found>, String>,
    ) -> Self {
        let found = |kind, reference: &OwnerReference| {
            let key = ObjectKey::new(namespace.clone(), reference.name.clone());
            Ok::<_, String>(look(kind, &key)?.filter(|found| found.scale.uid == reference.uid))
        };
        let find = || match Cached::of(reference) {
            Some(kind @ (Cached::ReplicationController | Cached::StatefulSet)) => {
                Ok(found(kind, reference)?.map(|found| found.scale))
            }
            Some(Cached::ReplicaSet) => {
                let Some(set) = found(Cached::ReplicaSet, reference)? else { return Ok(None) };
                match &set.controller {
                    Some(above) if above.kind == Deployment::KIND => match Cached::of(above) {
                        Some(Cached::Deployment) => {
                            Ok(found(Cached::Deployment, above)?.map(|found| found.scale))
                        }
                        // A foreign kind of the same name.
                        _ => Ok(None),
                    },
                    _ => Ok(Some(set.scale)),
                }
            }
            // No pod belongs to a Deployment itself.
            Some(Cached::Deployment) | None => Ok(None),
        };
        match find() {
            Ok(Some(scale)) => Self::Scaled(scale),
            Ok(None) => Self::Foreign(reference.clone()),
            Err(why) => Self::Unreadable(why),
        }
    }
}

/// The caches of owners.
pub(super) struct Owners {
    replication_controllers: Informer<ScaledReplicationController>,
    replica_sets: Informer<ScaledReplicaSet>,
    deployments: Informer<ScaledDeployment>,
    stateful_sets: Informer<ScaledStatefulSet>,
}

impl Owners {
    /// Asks for the caches.
    ///
    /// # Errors
    /// One of them runs already without the fields that the controller reads.
    pub(super) fn new(informers: &SharedInformerFactory) -> Result<Self, factory::Error> {
        Ok(Self {
            replication_controllers: informers.informer()?,
            replica_sets: informers.informer()?,
            deployments: informers.informer()?,
            stateful_sets: informers.informer()?,
        })
    }

    /// The caches that must sync before the controller starts.
    pub(super) fn caches(&self) -> [Arc<dyn AnyInformer>; 4] {
        [
            self.replication_controllers.any(),
            self.replica_sets.any(),
            self.deployments.any(),
            self.stateful_sets.any(),
        ]
    }

    /// The owner whose scale counts for a pod with this managing owner.
    pub(super) fn of(&self, reference: &OwnerReference, namespace: &ArcStr) -> Owner {
        Owner::of(reference, namespace, |kind, key| match kind {
            Cached::ReplicationController => found(&self.replication_controllers.lister(), key, |v| {
                v.get::<ReplicationControllerSpec>().replicas
            }),
            Cached::ReplicaSet => {
                found(&self.replica_sets.lister(), key, |v| v.get::<ReplicaSetSpec>().replicas)
            }
            Cached::Deployment => {
                found(&self.deployments.lister(), key, |v| v.get::<DeploymentSpec>().replicas)
            }
            Cached::StatefulSet => {
                found(&self.stateful_sets.lister(), key, |v| v.get::<StatefulSetSpec>().replicas)
            }
        })
    }
}

fn found<S: Selection<Kind: Kind>>(
    cache: &Lister<S>,
    key: &ObjectKey,
    replicas: impl Fn(&View<S>) -> Option<i32>,
) -> Result<Option<Found>, String> {
    let view = cache.get(key).map_err(|error| format!("{} {error}", S::Kind::KIND))?;
    Ok(view.map(|view| {
        let meta = view.object().meta();
        let scale = Scale { uid: meta.uid.clone(), replicas: replicas(&view).unwrap_or(1) };
        Found { scale, controller: meta.controller().cloned() }
    }))
}
