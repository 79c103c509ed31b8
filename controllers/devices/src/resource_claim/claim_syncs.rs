//! Syncs of claims.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Uid};
use steersman_controller::client::{Changed, Delete, Patch, ResourceClient, StatusChange, Wrote};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::Object;
use steersman_kinds::device_allocation::Consumer;
use steersman_kinds::resource_claim::ResourceClaim;

use super::beside;
use super::claim_plan::{ClaimObserved, ClaimStep, ConsumerState, Owner};
use super::controller::ClaimController;
use super::facts::{ClaimFacts, Claimant, FINALIZER, owning_pod};
use super::key::Key;
use crate::unreadable;

/// The result of a step.
#[derive(Debug)]
pub(super) enum ClaimOutcome {
    /// Whether the pod of the wanted name and uid exists.
    Exists(bool),
    /// The claim was written, and is in this state.
    Written(Box<ClaimFacts>),
    /// The claim is gone, or deleted.
    Gone,
}

impl ClaimController {
    /// The claim, as the cache shows it.
    pub(super) fn cached_claim(&self, key: &ObjectKey) -> Result<Option<ClaimObserved>, SyncError> {
        let claim = self.claims.get(key).map_err(unreadable("ResourceClaim"))?;
        claim.map(|claim| self.claim_observed(ClaimFacts::of(claim.object()))).transpose()
    }

    /// The claim, as the API server has it.
    pub(super) async fn read_claim(
        &self,
        key: &Key,
        claim: &ObjectKey,
    ) -> Result<Option<ClaimObserved>, SyncError> {
        let found = self.claim_client.get(claim).await?;
        let version = found.as_ref().map(|claim| Wrote::of::<ResourceClaim>(claim.meta().resource_version));
        self.own_writes.reread(key, version, |_| true);
        found.map(|claim| self.claim_observed(ClaimFacts::of(&claim))).transpose()
    }

    fn claim_observed(&self, claim: ClaimFacts) -> Result<ClaimObserved, SyncError> {
        let key = &claim.meta.key;
        let states = claim.reserved_for.iter().map(|consumer| self.consumer(key, consumer));
        let consumers = states.collect::<Result<_, _>>()?;
        let owner = self.owner(&claim)?;
        Ok(ClaimObserved { claim, consumers, owner, has_released: false })
    }

    fn cached_facts(&self, claim: &ObjectKey, pod: &str) -> Result<Option<Claimant>, SyncError> {
        let pod = self.pods.get(&beside(claim, pod)).map_err(unreadable("Pod"))?;
        Ok(pod.map(|pod| Claimant::of_pod(pod.object(), self.with_groups())))
    }

    fn consumer(&self, claim: &ObjectKey, consumer: &Consumer) -> Result<ConsumerState, SyncError> {
        let is_group = consumer.is_pod_group() && self.groups.is_some();
        if !consumer.is_pod() && !is_group {
            return Ok(ConsumerState::Uses);
        }
        if self.deleted.has(&consumer.uid) {
            return Ok(ConsumerState::Done);
        }
        if is_group {
            let found = self.groups.as_ref().and_then(|groups| groups.meta(&beside(claim, &consumer.name)));
            let is_it = found.is_some_and(|group| group.uid == consumer.uid);
            return Ok(if is_it { ConsumerState::Uses } else { ConsumerState::Doubtful });
        }
        Ok(match self.cached_facts(claim, &consumer.name)? {
            Some(pod) if pod.uid == consumer.uid && pod.is_done() => ConsumerState::Done,
            Some(pod) if pod.uid == consumer.uid => ConsumerState::Uses,
            _ => ConsumerState::Doubtful,
        })
    }

    fn owner(&self, claim: &ClaimFacts) -> Result<Owner, SyncError> {
        let Some((name, uid)) = owning_pod(&claim.meta) else { return Ok(Owner::Keeps) };
        Ok(match self.cached_facts(&claim.meta.key, name)? {
            Some(pod) if pod.uid != *uid => Owner::Doubtful,
            Some(pod) if pod.is_done() => Owner::Done,
            _ => Owner::Keeps,
        })
    }

    /// Whether the API server has the object of this name and uid beside the claim.
    async fn exists(
        &self,
        resource: &ResourceClient,
        claim: &ObjectKey,
        name: &str,
        uid: &Uid,
    ) -> Result<ClaimOutcome, SyncError> {
        let found = resource.get_meta(&beside(claim, name)).await?;
        Ok(ClaimOutcome::Exists(found.is_some_and(|found| found.uid == *uid)))
    }

    pub(super) async fn act_on_claim(
        &self,
        key: &Key,
        observed: &ClaimObserved,
        step: &ClaimStep,
    ) -> Result<ClaimOutcome, SyncError> {
        let claim = &observed.claim;
        let was = reservations(&claim.reserved_for);
        let was = if claim.is_allocated { allocated(was) } else { status(was) };
        match step {
            ClaimStep::ReadConsumer(consumer) => {
                let resource =
                    if consumer.is_pod() { self.pod_client.resource() } else { self.group_client.resource() };
                self.exists(resource, &claim.meta.key, &consumer.name, &consumer.uid).await
            }
            ClaimStep::ReadOwner => match owning_pod(&claim.meta) {
                Some((name, uid)) => {
                    self.exists(self.pod_client.resource(), &claim.meta.key, name, uid).await
                }
                None => Ok(ClaimOutcome::Exists(true)),
            },
            ClaimStep::Release(left) => {
                let keeps_devices = claim.is_allocated && !(left.is_empty() && claim.has_finalizer());
                let left = reservations(left);
                let is = if keeps_devices { allocated(left) } else { status(left) };
                self.write_status(key, claim, &was, &is).await
            }
            ClaimStep::Deallocate => {
                let is = status(reservations(&claim.reserved_for));
                self.write_status(key, claim, &was, &is).await
            }
            ClaimStep::RemoveFinalizer => {
                let left: Vec<_> = claim.meta.finalizers.iter().filter(|name| **name != FINALIZER).collect();
                let patch = json!({"metadata": {
                    "uid": claim.meta.uid,
                    "resourceVersion": claim.meta.resource_version,
                    "finalizers": left.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
                }});
                let patch = Patch::Merge(patch);
                let write = self.claim_client.patch(&claim.meta.key, &patch);
                written(self.own_writes.write(key, write).await?, claim)
            }
            ClaimStep::Delete => {
                let delete = Delete::of(&claim.meta.uid);
                let write = self.claim_client.delete(&claim.meta.key, &delete);
                self.own_writes.write(key, write).await.map(|_| ClaimOutcome::Gone)
            }
        }
    }

    async fn write_status(
        &self,
        key: &Key,
        claim: &ClaimFacts,
        was: &Value,
        is: &Value,
    ) -> Result<ClaimOutcome, SyncError> {
        let Some(change) = StatusChange::between(&claim.meta, was, is) else {
            return Ok(ClaimOutcome::Written(claim.clone().into()));
        };
        let write = self.statuses.write(&claim.meta.key, &change);
        written(self.own_writes.write(key, write).await?, claim)
    }
}

impl ClaimObserved {
    /// Takes over the result of a step. It relies on the step rather than on the answer, so that no step is taken twice.
    pub(super) fn absorb(&mut self, step: &ClaimStep, outcome: ClaimOutcome) {
        match (step, outcome) {
            (ClaimStep::ReadConsumer(consumer), ClaimOutcome::Exists(exists)) => {
                self.read_consumer(consumer, exists);
            }
            (_, ClaimOutcome::Exists(exists)) => {
                self.owner = if exists { Owner::Keeps } else { Owner::Done };
            }
            (ClaimStep::Release(left), ClaimOutcome::Written(claim)) => {
                let is_allocated =
                    self.claim.is_allocated && !(left.is_empty() && self.claim.has_finalizer());
                self.written(ClaimFacts { is_allocated, ..*claim });
                self.has_released = true;
            }
            (ClaimStep::Deallocate, ClaimOutcome::Written(claim)) => {
                self.written(ClaimFacts { is_allocated: false, ..*claim });
            }
            (_, ClaimOutcome::Written(mut claim)) => {
                claim.meta.finalizers =
                    claim.meta.finalizers.iter().filter(|f| **f != FINALIZER).cloned().collect();
                self.written(*claim);
            }
            (_, ClaimOutcome::Gone) => *self = Self::default(),
        }
    }
}

fn written(changed: Changed<ResourceClaim>, claim: &ClaimFacts) -> Result<ClaimOutcome, SyncError> {
    let what = || format!("updating ResourceClaim {}", claim.meta.key);
    let written: Option<Arc<ResourceClaim>> = changed.or_conflict(what)?;
    Ok(written.map_or(ClaimOutcome::Gone, |claim| ClaimOutcome::Written(ClaimFacts::of(&claim).into())))
}

/// The list of a claim's consumers, as its status has it.
pub(super) fn reservations<'a>(consumers: impl IntoIterator<Item = &'a Consumer>) -> Vec<Value> {
    let one = |consumer: &Consumer| {
        let mut one = json!({
            "resource": &*consumer.resource, "name": consumer.name.as_str(), "uid": consumer.uid,
        });
        if !consumer.api_group.is_empty() {
            one["apiGroup"] = (*consumer.api_group).into();
        }
        one
    };
    consumers.into_iter().map(one).collect()
}

/// A status without an allocation, as far as the controller changes it.
pub(super) fn status(reserved_for: Vec<Value>) -> Value {
    if reserved_for.is_empty() { json!({}) } else { json!({"reservedFor": reserved_for}) }
}

/// A status with an allocation. The controller does not change an allocation, so that its contents do not matter.
fn allocated(reserved_for: Vec<Value>) -> Value {
    let mut status = status(reserved_for);
    status["allocation"] = json!({});
    status
}
