//! Taints of the node, and what pods say to them.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use super::Unfit;

/// A pod that would be driven away at once is not let in.
pub(super) fn unfit(pod: &Pod, node: &Node) -> Option<Unfit> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let driving: Option<&Taint> =
        taints.filter(|taint| taint.effect == "NoExecute").find(|taint| !tolerates(pod, taint));
    driving.map(|_| Unfit::Predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"))
}

/// Whether the pod can bear the taint.
pub(super) fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    let mut all = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    all.any(|toleration| is_borne(toleration, taint))
}

fn is_borne(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    let applies = (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key);
    applies
        && match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => text(&toleration.value) == text(&taint.value),
            "Exists" => true,
            // Comparisons of numbers are not switched on in this version.
            _ => false,
        }
}
