//! Pods with claims.

use steersman_api::{ArcStr, Meta};
use steersman_informer::{Index, IndexValue, Informer, View, keep};
use steersman_kinds::ephemeral_volumes::EphemeralVolumes;
use steersman_kinds::pod::{Claims, Phase, Placement, Pod};

keep! {
    /// What the controllers read of a pod.
    pub struct ClaimingPod: Pod => Placement, Phase, Claims, EphemeralVolumes
}

/// The name of the claim for a generic ephemeral volume. Upstream: `VolumeClaimName`.
pub(crate) fn claim_name(pod: &str, volume: &str) -> ArcStr {
    format!("{pod}-{volume}").into()
}

/// The names of the claims of a pod's volumes, those for generic ephemeral volumes included.
pub(crate) fn claim_names<'a>(
    pod: &'a Meta,
    claims: &'a Claims,
    ephemeral: &'a EphemeralVolumes,
) -> impl Iterator<Item = ArcStr> + 'a {
    let named = claims.volumes.0.iter().map(|volume| volume.claim.clone());
    named.chain(ephemeral.names.0.iter().map(|volume| claim_name(&pod.key.name, volume)))
}

/// The names of the claims of a cached pod's volumes.
pub(crate) fn claim_names_of(pod: &View<ClaimingPod>) -> impl Iterator<Item = ArcStr> {
    claim_names(pod.meta(), pod.get::<Claims>(), pod.get::<EphemeralVolumes>())
}

/// An index of pods by the namespace and the name of each claim ([`IndexValue::Pair`]).
pub(crate) fn by_claim(pods: &Informer<ClaimingPod>) -> Index<ClaimingPod> {
    pods.add_index("claims and ephemeral volumes", |pod| {
        let pair = |claim| IndexValue::Pair(pod.meta().key.namespace.clone(), claim);
        claim_names_of(pod).map(pair).collect()
    })
}
