//! Syncs of pods and of PodGroups.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey, OwnerReference, Uid};
use steersman_client::events::EventType;
use steersman_controller::children::Look;
use steersman_controller::client::{
    Client, Created, Patch, StatusChange, Wrote, controller_reference, event_reference, group_version_kind,
};
use steersman_controller::controller::SyncError;
use steersman_informer::IndexValue;
use steersman_informer::wire::{Kind, Object};
use steersman_kinds::device_allocation::Consumer;
use steersman_kinds::pod::Pod;
use steersman_kinds::pod_device_claims::{DeviceClaim, GeneratedClaim};
use steersman_kinds::pod_group::PodGroup;
use steersman_kinds::resource_claim::ResourceClaim;
use steersman_kinds::resource_claim_template::{ClaimTemplate, TemplateRequests};

use super::beside;
use super::claim_syncs::{reservations, status};
use super::controller::ClaimController;
use super::draft::ClaimDraft;
use super::facts::{ClaimFacts, Claimant, ClaimantKind, owner};
use super::key::Key;
use super::pod_plan::{PodObserved, PodStep};
use crate::unreadable;

/// The field manager of the claims in a pod's status.
const FIELD_MANAGER: &str = "ResourceClaimController";

/// The claims of a namespace, by name.
type Claims = BTreeMap<ArcStr, ClaimFacts>;

/// The result of a step.
#[derive(Debug)]
pub(super) enum PodOutcome {
    /// The claims that the pod names or owns.
    Confirmed(Claims),
    /// The claim was created with this name.
    Created(ArcStr),
    /// The pod's status has the claims.
    Applied,
    /// The claim was reserved, and is in this state.
    Reserved(Box<ClaimFacts>),
    /// The object is gone, so that there is nothing left to do.
    Gone,
}

impl ClaimController {
    /// The pod and its claims, as the caches show them.
    pub(super) fn cached_pod(&self, key: &ObjectKey) -> Result<Option<PodObserved>, SyncError> {
        let Some(pod) = self.pods.get(key).map_err(unreadable("Pod"))? else { return Ok(None) };
        self.observed(Claimant::of_pod(pod.object(), self.with_groups())).map(Some)
    }

    /// The PodGroup and its claims, as the caches show them.
    pub(super) fn cached_group(&self, key: &ObjectKey) -> Result<Option<PodObserved>, SyncError> {
        self.group(key)?.map(|group| self.observed(group)).transpose()
    }

    fn observed(&self, pod: Claimant) -> Result<PodObserved, SyncError> {
        let group = self.group_of(&pod)?;
        let claims = self.cached_claims(&pod, group.as_ref())?;
        self.pod_observed(pod, group, claims)
    }

    /// A PodGroup in the cache. `None` without the gate.
    fn group(&self, key: &ObjectKey) -> Result<Option<Claimant>, SyncError> {
        let Some(groups) = &self.groups else { return Ok(None) };
        let group = groups.get(key).map_err(unreadable("PodGroup"))?;
        Ok(group.map(|group| Claimant::of_group(group.object())))
    }

    fn group_of(&self, pod: &Claimant) -> Result<Option<Claimant>, SyncError> {
        pod.group.as_ref().map_or(Ok(None), |name| self.group(&beside(&pod.key, name)))
    }

    /// The pod and its claims, as the API server has them.
    pub(super) async fn read_pod(
        &self,
        key: &Key,
        pod: &ObjectKey,
    ) -> Result<Option<PodObserved>, SyncError> {
        let Some(found) = self.pod_client.get(pod).await? else { return Ok(None) };
        let facts = Claimant::of_pod(&found, self.with_groups());
        self.reread(key, facts, Wrote::of::<Pod>(found.meta().resource_version)).await.map(Some)
    }

    /// The PodGroup and its claims, as the API server has them.
    pub(super) async fn read_group(
        &self,
        key: &Key,
        group: &ObjectKey,
    ) -> Result<Option<PodObserved>, SyncError> {
        let Some(found) = self.group_client.get(group).await? else { return Ok(None) };
        let facts = Claimant::of_group(&found);
        self.reread(key, facts, Wrote::of::<PodGroup>(found.meta().resource_version)).await.map(Some)
    }

    async fn reread(
        &self,
        key: &Key,
        pod: Claimant,
        version: Wrote<'static>,
    ) -> Result<PodObserved, SyncError> {
        let group = self.group_of(&pod)?;
        let claims = self.listed_claims(&pod, group.as_ref()).await?;
        let newest = claims.values().map(|claim| claim.meta.resource_version).max().unwrap_or_default();
        self.own_writes.reread(key, [version, Wrote::of::<ResourceClaim>(newest)], |_| true);
        Ok(PodObserved { is_confirmed: true, ..self.pod_observed(pod, group, claims)? })
    }

    fn pod_observed(
        &self,
        pod: Claimant,
        group: Option<Claimant>,
        claims: Claims,
    ) -> Result<PodObserved, SyncError> {
        let mut templates = BTreeMap::new();
        for name in pod.claims.iter().filter_map(|claim| claim.template.as_ref()) {
            let found = self.templates.get(&beside(&pod.key, name));
            if let Some(template) = found.map_err(unreadable("ResourceClaimTemplate"))? {
                templates.insert(name.as_arc().clone(), template.get::<TemplateRequests>().spec.requests);
            }
        }
        Ok(PodObserved {
            pod,
            group,
            claims,
            templates,
            created: BTreeMap::new(),
            allows_alternatives: self.allows_alternatives,
            is_confirmed: false,
        })
    }

    /// The claims that the pod names or owns, and those that its group owns.
    fn cached_claims(&self, pod: &Claimant, group: Option<&Claimant>) -> Result<Claims, SyncError> {
        let mut claims = Vec::new();
        for name in pod.claims.iter().filter_map(|claim| pod.named(claim).name()) {
            claims.extend(self.claims.get(&beside(&pod.key, name)).map_err(unreadable("ResourceClaim"))?);
        }
        for owner in [Some(pod), group].into_iter().flatten() {
            let owner = IndexValue::Uid(owner.uid.clone());
            let owned = self.claims.by_index(&self.indexes.claims_by_owner, &owner);
            claims.extend(owned.map_err(unreadable("ResourceClaim"))?);
        }
        claims.retain(|claim| claim.meta().key.namespace == pod.key.namespace);
        Ok(by_name(claims.iter().map(|claim| ClaimFacts::of(claim.object()))))
    }

    async fn listed_claims(&self, pod: &Claimant, group: Option<&Claimant>) -> Result<Claims, SyncError> {
        let all = self.claim_client.list(&pod.key.namespace, &LabelSelector::everything()).await?;
        let is_named = |meta: &Meta| {
            pod.claims
                .iter()
                .any(|claim| pod.named(claim).name().is_some_and(|name| **name == *meta.key.name))
        };
        let is_owner = |uid: &Uid| *uid == pod.uid || group.is_some_and(|group| group.uid == *uid);
        let is_owned = |meta: &Meta| owner(meta).is_some_and(|(_, _, uid)| is_owner(uid));
        let of_pod = all.objects.iter().filter(|claim| is_named(claim.meta()) || is_owned(claim.meta()));
        Ok(by_name(of_pod.map(|claim| ClaimFacts::of(claim))))
    }

    /// Observes the claims again: the cache of a new leader may not show those that the previous leader has created.
    async fn confirm(&self, pod: &Claimant, group: Option<&Claimant>) -> Result<PodOutcome, SyncError> {
        let look = self.first_looks.look(self.claim_client.resource(), &self.claim_cache).await?;
        Ok(PodOutcome::Confirmed(match look {
            Look::Current => self.cached_claims(pod, group)?,
            Look::Behind => self.listed_claims(pod, group).await?,
        }))
    }

    pub(super) async fn act_on_pod(
        &self,
        key: &Key,
        observed: &PodObserved,
        step: &PodStep,
    ) -> Result<PodOutcome, SyncError> {
        let pod = &observed.pod;
        match step {
            PodStep::Confirm => self.confirm(pod, observed.group.as_ref()).await,
            PodStep::Create(claim) => self.create(key, pod, claim).await,
            PodStep::Refuse(claim, why) => Err(self.refuse(pod, claim, why)),
            PodStep::ApplyStatus(claims) => {
                let statuses = claims.iter().map(entry).collect::<Vec<_>>();
                let applied = match pod.kind {
                    ClaimantKind::Pod => self.apply_status(&self.pod_client, key, pod, statuses).await?,
                    ClaimantKind::PodGroup => {
                        self.apply_status(&self.group_client, key, pod, statuses).await?
                    }
                };
                Ok(if applied { PodOutcome::Applied } else { PodOutcome::Gone })
            }
            PodStep::Reserve(name, consumer) => self.reserve(key, &observed.claims[name], consumer).await,
        }
    }

    /// Sets the claims in the status of a pod or a PodGroup. Returns whether that still exists.
    async fn apply_status<K: Kind>(
        &self,
        client: &Client<K>,
        key: &Key,
        pod: &Claimant,
        statuses: Vec<Value>,
    ) -> Result<bool, SyncError> {
        let object = json!({
            "apiVersion": group_version_kind::<K>().api_version(),
            "kind": K::KIND,
            "metadata": {
                "name": pod.key.name.as_str(),
                "namespace": pod.key.namespace.as_str(),
                "uid": pod.uid,
            },
            "status": {"resourceClaimStatuses": statuses},
        });
        let apply = Patch::Apply { manager: FIELD_MANAGER, object };
        let applied = self.own_writes.write(key, client.patch_status(&pod.key, &apply)).await?;
        let what = || format!("update {} {} ResourceClaimStatuses", K::KIND, pod.key);
        Ok(applied.or_conflict(what)?.is_some())
    }

    async fn create(&self, key: &Key, pod: &Claimant, claim: &DeviceClaim) -> Result<PodOutcome, SyncError> {
        let name = claim.template.as_ref().expect("a claim that is to be created must have a template");
        let template = self.templates.get(&beside(&pod.key, name));
        let Some(template) = template.map_err(unreadable("ResourceClaimTemplate"))? else {
            // It has been deleted since. The next sync says so in an event.
            return Err(SyncError::Failed(format!("resource claim template {name:?} is gone")));
        };
        let owner = match pod.kind {
            ClaimantKind::Pod => controller_reference::<Pod>,
            ClaimantKind::PodGroup => controller_reference::<PodGroup>,
        };
        // As upstream's claims, ours do not hold up a deletion of the owner in the foreground.
        let owner = OwnerReference { block_owner_deletion: None, ..owner(&meta(pod)) };
        let draft = ClaimDraft { owner, claim: &claim.name };
        let content = draft
            .fill_in(&template.get::<ClaimTemplate>().0)
            .map_err(|error| self.refuse(pod, &claim.name, &error.to_string()))?;
        let write = self.claim_client.create(&pod.key.namespace, content);
        let created = self.own_writes.write(key, write).await;
        let admin_access = template.get::<TemplateRequests>().spec.requests.admin_access;
        // A request that was kept back, or given up, at the end of leadership counts for nothing.
        if !created.as_ref().is_err_and(SyncError::is_end_of_leadership) {
            self.metrics.created(admin_access, matches!(created, Ok(Created::Now(_))));
        }
        let why = match created {
            Ok(Created::Now(created)) => {
                return Ok(PodOutcome::Created(created.meta().key.name.clone()));
            }
            Ok(Created::NamespaceTerminating) => {
                return Err(SyncError::Failed("the namespace is being terminated".to_owned()));
            }
            Ok(Created::Exists(status)) => status.message,
            Err(error) if error.is_end_of_leadership() => return Err(error),
            Err(error) => match error.status() {
                Some(status) => status.message.clone(),
                None => error.to_string(),
            },
        };
        // A claim has no name before it is created. Upstream's message has a space in its place.
        Err(self.refuse(pod, &claim.name, &format!("create ResourceClaim : {why}")))
    }

    /// Records that a claim can't be made, and returns the error that ends the sync.
    fn refuse(&self, pod: &Claimant, claim: &str, why: &str) -> SyncError {
        let kind = pod.kind.as_str();
        let message = format!("{kind}ResourceClaim {claim}: {why}");
        let involved = match pod.kind {
            ClaimantKind::Pod => event_reference::<Pod>,
            ClaimantKind::PodGroup => event_reference::<PodGroup>,
        };
        let involved = involved(&meta(pod));
        self.recorder.event(&involved, EventType::Warning, "FailedResourceClaimCreation", message.as_str());
        SyncError::Failed(format!("{kind} {}, {message}", pod.key))
    }

    async fn reserve(
        &self,
        key: &Key,
        claim: &ClaimFacts,
        consumer: &Consumer,
    ) -> Result<PodOutcome, SyncError> {
        let was = reservations(&claim.reserved_for);
        let is = reservations(claim.reserved_for.iter().chain([consumer]));
        let change = StatusChange::between(&claim.meta, &status(was), &status(is))
            .expect("a further consumer must change the status");
        let write = self.statuses.write(&claim.meta.key, &change);
        let written = self.own_writes.write(key, write).await?;
        let what = || format!("reserve claim {}", claim.meta.key);
        let written: Option<Arc<ResourceClaim>> = written.or_conflict(what)?;
        Ok(written.map_or(PodOutcome::Gone, |claim| PodOutcome::Reserved(ClaimFacts::of(&claim).into())))
    }
}

impl PodObserved {
    /// Takes over the result of a step.
    pub(super) fn absorb(&mut self, step: PodStep, outcome: PodOutcome) {
        match (step, outcome) {
            (_, PodOutcome::Confirmed(claims)) => {
                self.claims = claims;
                self.is_confirmed = true;
            }
            (PodStep::Create(claim), PodOutcome::Created(name)) => {
                self.created.insert(claim.name, name);
            }
            (PodStep::ApplyStatus(claims), PodOutcome::Applied) => self.pod.generated = claims,
            (PodStep::Reserve(_, consumer), PodOutcome::Reserved(mut claim)) => {
                // Even if the answer lacks the consumer, no claim is reserved twice.
                if !claim.is_reserved_for(&self.pod) {
                    claim.reserved_for.push(consumer);
                }
                self.claims.insert(claim.meta.key.name.clone(), *claim);
            }
            // The end of the sync: what is gone comes with its own event.
            _ => self.pod.is_deleting = true,
        }
    }
}

fn meta(pod: &Claimant) -> Meta {
    Meta { key: pod.key.clone(), uid: pod.uid.clone(), ..Meta::default() }
}

fn entry(claim: &GeneratedClaim) -> Value {
    let mut entry = json!({"name": &*claim.name});
    if let Some(name) = &claim.claim {
        entry["resourceClaimName"] = (**name).into();
    }
    entry
}

fn by_name(claims: impl Iterator<Item = ClaimFacts>) -> Claims {
    claims.map(|claim| (claim.meta.key.name.clone(), claim)).collect()
}
