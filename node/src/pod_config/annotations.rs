//! What marks a pod: where it comes from, which hash it has, when it was first seen, whose mirror it is.

use k8s_openapi::api::core::v1::Pod;

use super::update::Source;

/// Which source a pod came from; on this node only, never from the API server.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// On mirror pods: the hash of the static pod that they mirror.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
/// When this node first saw a pod.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// On static pods: their hash, which is also their uid.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// Where pods live that name no namespace.
pub(crate) const POD_NAMESPACE_DEFAULT: &str = "default";

/// Annotations that the node keeps itself: a source saying otherwise changes nothing.
pub(super) const LOCAL: [&str; 3] = [CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN];

/// An annotation of a pod.
pub fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Where a pod came from; `None` for one that no source gave.
pub fn source_of(pod: &Pod) -> Option<Source> {
    Source::parse(annotation(pod, CONFIG_SOURCE)?)
}

/// Whether a pod stands in for a static pod on the API server.
pub fn is_mirror_pod(pod: &Pod) -> bool {
    annotation(pod, CONFIG_MIRROR).is_some()
}

/// Whether a pod comes from a manifest: a known source other than the API server.
pub fn is_static_pod(pod: &Pod) -> bool {
    annotation(pod, CONFIG_SOURCE).is_some_and(|source| source != Source::Api.as_str())
}

/// Whether `mirror` stands in for exactly this state of the static pod.
pub fn is_mirror_of(mirror: &Pod, pod: &Pod) -> bool {
    mirror.metadata.name == pod.metadata.name
        && mirror.metadata.namespace == pod.metadata.namespace
        && annotation(mirror, CONFIG_MIRROR).is_some_and(|hash| Some(hash) == annotation(pod, CONFIG_HASH))
}

/// `name_namespace`: what tells two pods of a node apart while their uids may change.
pub fn full_name(pod: &Pod) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    text(&pod.metadata.name) + "_" + &text(&pod.metadata.namespace)
}
