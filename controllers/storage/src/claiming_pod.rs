//! Pods with claims.

use steersman_api::ArcStr;
use steersman_informer::{Index, IndexValue, Informer, View, keep};
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_volumes::PodVolumes;

keep! {
    /// What the controllers read of a pod.
    pub struct ClaimingPod: Pod => Placement, Phase, PodVolumes
}

/// The names of the claims of a cached pod's volumes, those for generic ephemeral volumes included.
pub(crate) fn claim_names_of(pod: &View<ClaimingPod>) -> impl Iterator<Item = ArcStr> {
    pod.get::<PodVolumes>().claim_names(&pod.meta().key.name)
}

/// An index of pods by the namespace and the name of each claim ([`IndexValue::Pair`]).
pub(crate) fn by_claim(pods: &Informer<ClaimingPod>) -> Index<ClaimingPod> {
    pods.add_index("claims and ephemeral volumes", |pod| {
        let pair = |claim| IndexValue::Pair(pod.meta().key.namespace.clone(), claim);
        claim_names_of(pod).map(pair).collect()
    })
}
