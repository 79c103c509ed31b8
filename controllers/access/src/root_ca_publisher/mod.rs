//! The root CA publisher: keeps the ConfigMap `kube-root-ca.crt` in each namespace, by which pods verify the API server.
//!
//! ```text
//! namespace added, or changed while active ─┐
//! its ConfigMap changed or deleted ─────────┴─> queue `root_ca_cert_publisher` ─> observe ─> plan: create, restore, or nothing
//! ```
//!
//! The cache holds only ConfigMaps of that name, and of each only whether it is as it should be.

use std::sync::Arc;

use steersman_api::{FieldSelector, GroupVersionResource, ObjectKey};
use steersman_controller::client::{Client, ResourceClient};
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::list_watch::Scope;
use steersman_informer::{Change, keep};
use steersman_kinds::config_map::{ConfigMap, Description, PublishedCa};
use steersman_kinds::content_digest::ContentDigest;
use steersman_kinds::namespace::NamespacePhase;

use crate::service_account::ServedNamespace;
use crate::service_account_token::{ServiceAccountOptions, root_ca};

mod controller;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("root-ca-certificate-publisher-controller", &["root-ca-cert-publisher"], construct)
        .rules(&[
            Rule::new(&[""], &["namespaces"], &["list", "watch"]),
            Rule::new(&[""], &["configmaps"], &["get", "list", "watch", "create", "update"]),
        ]);

/// The ConfigMap's name.
const NAME: &str = "kube-root-ca.crt";

keep! {
    /// What the controller reads of a ConfigMap.
    pub struct RootCaMap: ConfigMap => Description, PublishedCa
}

/// Makes the controller.
///
/// # Errors
/// `--root-ca-file` can't be read, a cache runs already without the fields that the controller reads, or its metrics are
/// registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let ca = root_ca(&context.options::<ServiceAccountOptions>(), context)?;
    let metrics = metrics::Metrics::new();
    metrics.register(&context.metrics)?;
    let namespaces = context.informers.informer::<ServedNamespace>()?;
    let scope = Scope { fields: FieldSelector::name(NAME), ..Scope::default() };
    let maps = context.informers.scoped::<RootCaMap>(scope)?;
    let queue = context.queue("root_ca_cert_publisher");
    namespaces.map({
        let queue = queue.clone();
        move |change| match change {
            Change::Updated { new, .. } if !new.get::<NamespacePhase>().is_active() => {}
            Change::Deleted { .. } => {}
            change => queue.add(change.key().clone()),
        }
    });
    maps.map({
        let queue = queue.clone();
        move |change| {
            if !matches!(change, Change::Added { .. }) {
                queue.add(ObjectKey::cluster(change.key().namespace.clone()));
            }
        }
    });
    let controller = controller::RootCaPublisher {
        maps: maps.lister(),
        client: Client::new(context.client_for("root-ca-cert-publisher")),
        reader: ResourceClient::new(
            context.reader(),
            GroupVersionResource::new("", "v1", "configmaps"),
            "ConfigMap",
        ),
        digest: ContentDigest::of(ca.as_bytes()),
        ca,
        metrics,
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [maps.any()]))
}
