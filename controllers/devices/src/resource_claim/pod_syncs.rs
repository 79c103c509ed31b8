//! Syncs of pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey};
use steersman_client::events::EventType;
use steersman_controller::children::Look;
use steersman_controller::client::{Created, Patch, StatusChange, Wrote, event_reference};
use steersman_controller::controller::SyncError;
use steersman_informer::IndexValue;
use steersman_informer::wire::Object;
use steersman_kinds::device_allocation::Consumer;
use steersman_kinds::pod::Pod;
use steersman_kinds::pod_device_claims::{DeviceClaim, GeneratedClaim};
use steersman_kinds::resource_claim::ResourceClaim;
use steersman_kinds::resource_claim_template::{ClaimTemplate, TemplateRequests};

use super::beside;
use super::claim_syncs::{reservations, status};
use super::controller::ClaimController;
use super::draft::ClaimDraft;
use super::facts::{ClaimFacts, PodFacts, owning_pod};
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
        let pod = PodFacts::of(pod.object());
        let claims = self.cached_claims(&pod)?;
        Ok(Some(self.pod_observed(pod, claims)?))
    }

    /// The pod and its claims, as the API server has them.
    pub(super) async fn read_pod(
        &self,
        key: &Key,
        pod: &ObjectKey,
    ) -> Result<Option<PodObserved>, SyncError> {
        let Some(found) = self.pod_client.get(pod).await? else { return Ok(None) };
        let facts = PodFacts::of(&found);
        let claims = self.listed_claims(&facts).await?;
        let newest = claims.values().map(|claim| claim.meta.resource_version).max().unwrap_or_default();
        let versions = [Wrote::of::<Pod>(found.meta().resource_version), Wrote::of::<ResourceClaim>(newest)];
        self.own_writes.reread(key, versions, |_| true);
        Ok(Some(PodObserved { is_confirmed: true, ..self.pod_observed(facts, claims)? }))
    }

    fn pod_observed(&self, pod: PodFacts, claims: Claims) -> Result<PodObserved, SyncError> {
        let mut templates = BTreeMap::new();
        for name in pod.claims.iter().filter_map(|claim| claim.template.as_ref()) {
            let found = self.templates.get(&beside(&pod.key, name));
            if let Some(template) = found.map_err(unreadable("ResourceClaimTemplate"))? {
                templates.insert(name.as_arc().clone(), template.get::<TemplateRequests>().spec.requests);
            }
        }
        Ok(PodObserved {
            pod,
            claims,
            templates,
            created: BTreeMap::new(),
            allows_alternatives: self.allows_alternatives,
            is_confirmed: false,
        })
    }

    /// The claims that the pod names or owns.
    fn cached_claims(&self, pod: &PodFacts) -> Result<Claims, SyncError> {
        let mut claims = Vec::new();
        for name in pod.claims.iter().filter_map(|claim| pod.named(claim).name()) {
            claims.extend(self.claims.get(&beside(&pod.key, name)).map_err(unreadable("ResourceClaim"))?);
        }
        let owner = IndexValue::Uid(pod.uid.clone());
        let owned = self.claims.by_index(&self.indexes.claims_by_pod, &owner);
        claims.extend(owned.map_err(unreadable("ResourceClaim"))?);
        claims.retain(|claim| claim.meta().key.namespace == pod.key.namespace);
        Ok(by_name(claims.iter().map(|claim| ClaimFacts::of(claim.object()))))
    }

    async fn listed_claims(&self, pod: &PodFacts) -> Result<Claims, SyncError> {
        let all = self.claim_client.list(&pod.key.namespace, &LabelSelector::everything()).await?;
        let is_named = |meta: &Meta| {
            pod.claims
                .iter()
                .any(|claim| pod.named(claim).name().is_some_and(|name| **name == *meta.key.name))
        };
        let is_owned = |meta: &Meta| owning_pod(meta).is_some_and(|(_, uid)| *uid == pod.uid);
        let of_pod = all.objects.iter().filter(|claim| is_named(claim.meta()) || is_owned(claim.meta()));
        Ok(by_name(of_pod.map(|claim| ClaimFacts::of(claim))))
    }

    /// Observes the claims again: the cache of a new leader may not show those that the previous leader has created.
    async fn confirm(&self, pod: &PodFacts) -> Result<PodOutcome, SyncError> {
        let look = self.first_looks.look(self.claim_client.resource(), &self.claim_cache).await?;
        Ok(PodOutcome::Confirmed(match look {
            Look::Current => self.cached_claims(pod)?,
            Look::Behind => self.listed_claims(pod).await?,
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
            PodStep::Confirm => self.confirm(pod).await,
            PodStep::Create(claim) => self.create(key, pod, claim).await,
            PodStep::Refuse(claim, why) => Err(self.refuse(pod, claim, why)),
            PodStep::ApplyStatus(claims) => {
                let object = json!({
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": pod.key.name.as_str(),
                        "namespace": pod.key.namespace.as_str(),
                        "uid": pod.uid,
                    },
                    "status": {"resourceClaimStatuses": claims.iter().map(entry).collect::<Vec<_>>()},
                });
                let apply = Patch::Apply { manager: FIELD_MANAGER, object };
                let write = self.pod_client.patch_status(&pod.key, &apply);
                let applied = self.own_writes.write(key, write).await?;
                let what = || format!("update pod {} ResourceClaimStatuses", pod.key);
                Ok(applied.or_conflict(what)?.map_or(PodOutcome::Gone, |_| PodOutcome::Applied))
            }
            PodStep::Reserve(name) => self.reserve(key, pod, &observed.claims[name]).await,
        }
    }

    async fn create(&self, key: &Key, pod: &PodFacts, claim: &DeviceClaim) -> Result<PodOutcome, SyncError> {
        let name = claim.template.as_ref().expect("a claim that is to be created must have a template");
        let template = self.templates.get(&beside(&pod.key, name));
        let Some(template) = template.map_err(unreadable("ResourceClaimTemplate"))? else {
            // It has been deleted since. The next sync says so in an event.
            return Err(SyncError::Failed(format!("resource claim template {name:?} is gone")));
        };
        let draft = ClaimDraft { pod: &pod.key, uid: &pod.uid, claim: &claim.name };
        let content = draft
            .fill_in(&template.get::<ClaimTemplate>().0)
            .map_err(|error| self.refuse(pod, &claim.name, &error.to_string()))?;
        let write = self.claim_client.create(&pod.key.namespace, content);
        let created = self.own_writes.write(key, write).await;
        let admin_access = template.get::<TemplateRequests>().spec.requests.admin_access;
        self.metrics.created(admin_access, matches!(created, Ok(Created::Now(_))));
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
    fn refuse(&self, pod: &PodFacts, claim: &str, why: &str) -> SyncError {
        let message = format!("PodResourceClaim {claim}: {why}");
        let meta = Meta { key: pod.key.clone(), uid: pod.uid.clone(), ..Meta::default() };
        let involved = event_reference::<Pod>(&meta);
        self.recorder.event(&involved, EventType::Warning, "FailedResourceClaimCreation", message.as_str());
        SyncError::Failed(format!("pod {}, {message}", pod.key))
    }

    async fn reserve(&self, key: &Key, pod: &PodFacts, claim: &ClaimFacts) -> Result<PodOutcome, SyncError> {
        let consumer = consumer(pod);
        let was = reservations(&claim.reserved_for);
        let is = reservations(claim.reserved_for.iter().chain([&consumer]));
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
            (_, PodOutcome::Reserved(mut claim)) => {
                // Even if the answer lacks the pod, no claim is reserved twice.
                if !claim.is_reserved_for(&self.pod.uid) {
                    claim.reserved_for.push(consumer(&self.pod));
                }
                self.claims.insert(claim.meta.key.name.clone(), *claim);
            }
            // The end of the sync: what is gone comes with its own event.
            _ => self.pod.is_deleting = true,
        }
    }
}

/// The pod as a consumer of claims.
fn consumer(pod: &PodFacts) -> Consumer {
    let (name, uid) = (pod.key.name.clone(), pod.uid.clone());
    Consumer { resource: "pods".into(), name, uid, ..Consumer::default() }
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
