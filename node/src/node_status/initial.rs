//! The Node as it is registered, before its status. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::settings::Settings;

/// Tells the attach-detach controller that it is responsible.
pub(super) const CONTROLLER_ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const OS: &str = "kubernetes.io/os";
pub(super) const ARCH: &str = "kubernetes.io/arch";
pub(super) const BETA_OS: &str = "beta.kubernetes.io/os";
pub(super) const BETA_ARCH: &str = "beta.kubernetes.io/arch";
/// A cloud controller takes it off once it has seen the node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The Node without a status. Its not-ready taint is the API server's to give.
pub(super) fn node(settings: &Settings, architecture: &str) -> Node {
    let own = [
        (HOSTNAME, settings.node_name.as_str()),
        (OS, "linux"),
        (BETA_OS, "linux"),
        (ARCH, architecture),
        (BETA_ARCH, architecture),
    ];
    let mut labels: BTreeMap<_, _> =
        own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    labels.extend(settings.node_labels.clone());
    let mut taints = settings.register_with_taints.clone();
    if settings.external_cloud_provider {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    let annotations = settings
        .enable_controller_attach_detach
        .then(|| BTreeMap::from([(CONTROLLER_ATTACH_DETACH.to_owned(), "true".to_owned())]));
    Node {
        metadata: ObjectMeta {
            name: Some(settings.node_name.clone()),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(settings.provider_id.clone()).filter(|id| !id.is_empty()),
            taints: Some(taints).filter(|taints| !taints.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

/// Labels without which pods are not scheduled here; sets them right. Says whether one was wrong.
pub(super) fn set_required_labels(node: &mut Node, architecture: &str) -> bool {
    let labels = node.metadata.labels.get_or_insert_default();
    let mut changed = false;
    for (name, value) in [(OS, "linux"), (ARCH, architecture)] {
        if labels.get(name).is_none_or(|found| found != value) {
            labels.insert(name.to_owned(), value.to_owned());
            changed = true;
        }
    }
    changed
}
