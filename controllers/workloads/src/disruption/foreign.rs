//! Reads the scale of owners that are not cached, by the scale subresource.

use std::sync::Arc;

use steersman_api::{
    ArcStr, GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey, OwnerReference,
};
use steersman_client::Sender;
use steersman_client::discovery::Resource;
use steersman_client::rest_mapper::{self, RestMapper};
use steersman_controller::client::ResourceClient;
use steersman_controller::controller::SyncError;

use super::observed::Replicas;
use super::owners::Scale;

/// Reads scale subresources.
pub(super) struct Scales {
    sender: Sender,
    mapper: Arc<RestMapper>,
}

/// The groups and versions of the kind `Scale` that can be read.
const SCALES: [(&str, &str); 4] =
    [("autoscaling", "v1"), ("apps", "v1beta1"), ("apps", "v1beta2"), ("extensions", "v1beta1")];

impl Scales {
    /// Reads through `sender`.
    pub(super) fn new(sender: Sender, mapper: Arc<RestMapper>) -> Self {
        Self { sender, mapper }
    }

    /// Reads how many pods an owner asks for, as upstream's `getScaleController`.
    ///
    /// # Errors
    /// A call failed, or the API server has no such kind: a new kind may not be known yet. That the kind has no scale is an
    /// answer and no error.
    pub(super) async fn read(
        &self,
        namespace: &ArcStr,
        owner: &OwnerReference,
    ) -> Result<Replicas, SyncError> {
        let GroupVersion { group, version } = GroupVersion::parse(&owner.api_version);
        let kind = GroupVersionKind::new(group.clone(), version, owner.kind.clone());
        let resource = match self.mapper.resource_for(&kind).await {
            Ok(resource) => resource,
            Err(rest_mapper::Error::NoMatch(_)) => {
                let why = format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version);
                return Err(SyncError::Failed(why));
            }
            Err(error) => return Err(SyncError::Failed(error.to_string())),
        };
        // Upstream asks for the scale in the preferred version, which is the one that surely has it.
        let preferred = self.mapper.preferred_for(&group, &owner.kind).await;
        let served = preferred.map_or_else(|_| resource.gvr.clone(), |preferred| preferred.gvr.clone());
        let client = ResourceClient::new(self.sender.clone(), served, owner.kind.clone());
        let key = ObjectKey::new(namespace.clone(), owner.name.clone());
        Ok(match client.scale(&key).await? {
            Some(scale) if scale.uid == owner.uid => {
                Replicas::Of(Scale { uid: scale.uid, replicas: scale.wanted })
            }
            None if !has_scale(&resource) => {
                let why =
                    format!("{} does not implement the scale subresource", group_resource(&resource.gvr));
                Replicas::Failed(why)
            }
            _ => Replicas::NoOwner,
        })
    }
}

fn has_scale(resource: &Resource) -> bool {
    let kind = resource.subresource("scale").map(|scale| &scale.gvk);
    kind.is_some_and(|kind| kind.kind == "Scale" && SCALES.contains(&(&*kind.group, &*kind.version)))
}

/// A resource as Go prints a `GroupResource`.
fn group_resource(resource: &GroupVersionResource) -> String {
    match &*resource.group {
        "" => resource.resource.to_string(),
        group => format!("{}.{group}", resource.resource),
    }
}
