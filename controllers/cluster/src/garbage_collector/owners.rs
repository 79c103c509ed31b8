//! Finds out whether the owner that a reference names exists.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::{Meta, ObjectKey, OwnerReference};
use steersman_client::discovery::Scope;
use steersman_client::{RestMapper, Sender};
use steersman_controller::client::ResourceClient;
use steersman_controller::controller::SyncError;

use super::collector::Collector;
use super::coordinates::Coordinates;
use super::graph::is_waiting;

/// Whether an owner exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The caches do not tell. Only the API server knows.
    Unknown,
    /// The owner exists.
    Solid,
    /// The owner exists, and waits for its dependents to be deleted.
    Waiting,
    /// There is no such owner.
    Dangling,
    /// A cluster-scoped object names an owner of a namespaced kind. The reference does not say which namespace is meant.
    Invalid,
    /// The API server does not have the owner's kind, or does not answer for its group. The owner may exist. The time until the
    /// collector should look for the kind again.
    Unmapped(Duration),
}

/// Finds out whether owners exist: from the caches and from earlier answers, or else from the API server.
pub(super) struct Owners {
    pub(super) collector: Arc<Collector>,
    pub(super) mapper: Arc<RestMapper>,
    pub(super) sender: Sender,
}

impl Owners {
    /// What is known of the owner that a reference names, without a call. The absence of an owner from a cache tells nothing;
    /// that its deletion was seen does.
    pub(super) fn known(&self, reference: &OwnerReference, namespace: &str) -> Standing {
        let (kind, owner) =
            (self.collector.kinds.named(reference), Coordinates::of(reference, namespace.into()));
        if namespace.is_empty() {
            let scope = kind.as_ref().map(|kind| kind.scope);
            match scope.or_else(|| self.mapper.known_for(&owner.gvk()).map(|resource| resource.scope)) {
                Some(Scope::Cluster) => {}
                Some(Scope::Namespaced) => return Standing::Invalid,
                None => return self.unmapped(&owner),
            }
        }
        if self.collector.graph.lock().is_gone(reference, namespace, &self.collector.kinds) {
            return Standing::Dangling;
        }
        if let Some(kind) = kind
            && let Some(owner) = kind.informer.meta_by_uid(&reference.uid)
            && owner.key.name == reference.name
            && (kind.scope == Scope::Cluster || owner.key.namespace == namespace)
        {
            return standing(&owner);
        }
        if self.collector.absent.has(&owner) {
            return Standing::Dangling;
        }
        let gvk = owner.gvk();
        if self.mapper.known_for(&gvk).is_none() {
            return self.unmapped(&owner);
        }
        self.collector.missing.found(&gvk);
        Standing::Unknown
    }

    fn unmapped(&self, owner: &Coordinates) -> Standing {
        Standing::Unmapped(self.collector.missing.missed(owner.gvk()))
    }

    /// Asks the API server.
    ///
    /// # Errors
    /// The API server did not say whether there is such an owner.
    pub(super) async fn look(&self, owner: &Coordinates) -> Result<Standing, SyncError> {
        if self.collector.absent.has(owner) {
            return Ok(Standing::Dangling);
        }
        // What the last discovery found: workers do not wait for another.
        let Some(resource) = self.mapper.known_for(&owner.gvk()) else {
            tracing::debug!(%owner, "The API server does not have the owner's kind");
            return Ok(self.unmapped(owner));
        };
        let key = match resource.scope {
            Scope::Cluster => ObjectKey::cluster(owner.name.clone()),
            Scope::Namespaced if owner.namespace.is_empty() => return Ok(Standing::Invalid),
            Scope::Namespaced => owner.key(),
        };
        let client =
            ResourceClient::new(self.sender.clone(), resource.gvr.clone(), resource.gvk.kind.clone());
        match client.get_meta(&key).await? {
            Some(found) if found.uid == owner.uid => Ok(standing(&found)),
            _ => {
                let absent =
                    if resource.scope == Scope::Cluster { owner.cluster_scoped() } else { owner.clone() };
                self.collector.absent.add(absent);
                Ok(Standing::Dangling)
            }
        }
    }
}

/// The standing of an owner that exists.
fn standing(owner: &Meta) -> Standing {
    if is_waiting(owner) { Standing::Waiting } else { Standing::Solid }
}
