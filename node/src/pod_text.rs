//! How a pod is named in messages.

use k8s_openapi::api::core::v1::Pod;

/// A pod as messages name it: `name_namespace(uid)`.
pub(crate) fn pod_text(pod: &Pod) -> String {
    let meta = &pod.metadata;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}_{}({})", part(&meta.name), part(&meta.namespace), part(&meta.uid))
}
