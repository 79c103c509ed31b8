//! Devices that pods claim by dynamic resource allocation, which this node has no drivers for. Pure.
//!
//! A pod must not run without the devices that it claims: its sandbox is refused, and so is each container that uses a claim,
//! as the sandbox may be the work of a kubelet that had the drivers.

use k8s_openapi::api::core::v1::{Container, Pod, PodResourceClaim};

/// Why the pod's sandbox can't be made: the first claim of the pod, if it has one.
pub(super) fn refusal(pod: &Pod) -> Option<String> {
    let mut claims = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    claims.find_map(|claim| claim_name(pod, claim)).or_else(|| extended_claim(pod)).map(unsupported)
}

/// Why the container can't be configured: the first claim that it uses, if it uses one.
pub(super) fn refusal_of_container(pod: &Pod, container: &Container) -> Option<String> {
    let used = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    let claims = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let named = claims
        .filter(|claim| used.clone().any(|used| used.name == claim.name))
        .find_map(|claim| claim_name(pod, claim));
    let extended = || extended_claim(pod).filter(|_| uses_extended_claim(pod, container));
    named.or_else(extended).map(unsupported)
}

/// The name of the `ResourceClaim`; the pod's own name for it while its controller has not created it. `None` if the
/// controller found that the template needs no claim.
fn claim_name<'a>(pod: &'a Pod, claim: &'a PodResourceClaim) -> Option<&'a str> {
    if let Some(name) = &claim.resource_claim_name {
        return Some(name);
    }
    let mut statuses = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    match statuses.find(|status| status.name == claim.name) {
        Some(status) => status.resource_claim_name.as_deref(),
        None => Some(&claim.name),
    }
}

/// The name of the claim that the scheduler made for extended resources that the pod requests.
fn extended_claim(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?.extended_resource_claim_status.as_ref()?;
    Some(&status.resource_claim_name)
}

/// Whether the scheduler mapped a request of the container to the claim for extended resources.
fn uses_extended_claim(pod: &Pod, container: &Container) -> bool {
    let status = pod.status.as_ref().and_then(|status| status.extended_resource_claim_status.as_ref());
    let mut mappings = status.iter().flat_map(|status| &status.request_mappings);
    mappings.any(|mapping| mapping.container_name == container.name)
}

fn unsupported(claim: &str) -> String {
    format!("ResourceClaim {claim:?}: dynamic resource allocation is not supported by this node")
}
