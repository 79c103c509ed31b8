//! Which changes make which claims and volumes be synced.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::ObjectKey;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Informer};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::claim::Claim;
use super::state::State;
use super::volume::{self, Volume};
use super::{BoundClaim, BoundVolume};

/// Enqueues each volume and each claim that changes, and what depends on the change.
pub(super) fn map(
    volumes: &Informer<BoundVolume>,
    claims: &Informer<BoundClaim>,
    state: &Arc<State>,
    [volume_queue, claim_queue]: [&WorkQueue<ObjectKey>; 2],
) {
    let queues = [volume_queue.clone(), claim_queue.clone()];
    volumes.map({
        let (state, [volume_queue, claim_queue]) = (Arc::clone(state), queues.clone());
        move |change| {
            let last =
                change.old().filter(|_| change.new().is_none()).map(|last| Volume(last.object().clone()));
            match (change.new().map(|volume| Volume(volume.object().clone())), &last) {
                (Some(volume), _) => state.volume_seen(volume),
                (None, Some(last)) => state.volume_gone(last),
                (None, None) => {}
            }
            volume_queue.add(change.key().clone());
            // A claim depends on the volume that it has, and on the one that is reserved for it.
            for volume in [change.old(), change.new()].into_iter().flatten() {
                if let Some(claim) = Volume(volume.object().clone()).claim_key() {
                    claim_queue.add(claim);
                }
            }
        }
    });
    claims.map({
        let (state, [volume_queue, claim_queue]) = (Arc::clone(state), queues);
        move |change: &Change<BoundClaim>| {
            claim_queue.add(change.key().clone());
            let claim = |claim: &steersman_informer::View<BoundClaim>| Claim(claim.object().clone());
            if let Some(claim) = change.new().map(claim) {
                state.claim_seen(&claim);
                return;
            }
            let Some(last) = change.old().map(claim) else { return };
            state.claim_gone(&last);
            if !last.volume_name().is_empty() {
                volume_queue.add(ObjectKey::cluster(last.volume_name().clone()));
            }
            // A binding may have ended before the claim named the volume.
            for volume in state.volumes_of(change.key()) {
                volume_queue.add(ObjectKey::cluster(volume));
            }
        }
    });
}

/// Enqueues each period what is not settled: claims without a volume, which may fit another one now, and volumes that are to
/// be reclaimed.
pub(super) async fn resync(
    state: &State,
    [volume_queue, claim_queue]: [&WorkQueue<ObjectKey>; 2],
    period: Duration,
    stop: &CancellationToken,
) {
    let period = period.max(Duration::from_millis(1));
    while stop.run_until_cancelled(sleep(period)).await.is_some() {
        state.for_each_claim(|claim| {
            if !claim.is_settled() {
                claim_queue.add(claim.meta().key.clone());
            }
        });
        state.for_each_volume(|volume| {
            if volume.phase() != volume::BOUND && volume.phase() != volume::AVAILABLE {
                volume_queue.add(volume.meta().key.clone());
            }
        });
    }
}
