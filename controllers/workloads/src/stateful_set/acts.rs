//! How a step about one pod is carried out: its calls and its events.

use serde_json::{Value, json};
use steersman_api::{ArcStr, ObjectKey, OwnerReference, ResourceVersion, Uid};
use steersman_client::events::EventType;
use steersman_controller::call::{Content, JSON};
use steersman_controller::children::Claim as PodClaim;
use steersman_controller::client::{Created, Delete, Deleted, controller_reference};
use steersman_controller::controller::SyncError;
use steersman_controller::pod_template::{PodDraft, PodName, name_prefix};
use steersman_informer::wire::Object;
use steersman_kinds::pod::Pod as CachedPod;
use steersman_kinds::stateful_set::StatefulSet;

use super::claims::Claim;
use super::controller::StatefulSetController;
use super::draft::{ClaimDraft, PodSpec};
use super::history;
use super::identity::{POD_INDEX, POD_NAME, REVISION};
use super::observed::Observed;
use super::pods::Pod;
use super::steps::{Did, Goal, PodStep, Which, Write};

/// Why a step failed, and the event about the pod that says so.
struct Failure {
    error: SyncError,
    /// The verb in the event about the pod. `None` if there is none.
    verb: Option<&'static str>,
}

impl Goal {
    /// The verb in events about a pod whose step has this goal.
    fn verb(self) -> Option<&'static str> {
        match self {
            Self::Create => Some("Create"),
            Self::Update => Some("Update"),
            Self::Delete => Some("Delete"),
            Self::Complete | Self::Release => None,
        }
    }
}

impl StatefulSetController {
    /// Carries out the writes of a step, and records upstream's events about the set.
    pub(super) async fn change_pod(
        &self,
        observed: &Observed,
        step: &PodStep,
    ) -> Result<Vec<Did>, SyncError> {
        let set = &observed.set.meta.key.name;
        let about =
            |verb: &str, result: &str| format!("{verb} Pod {} in StatefulSet {set} {result}", step.pod.name);
        match self.write_all(observed, step).await {
            Ok(did) => {
                let is_done = did.len() == step.writes.len();
                if let Some(verb) = step.goal.verb().filter(|_| is_done) {
                    self.tell(
                        observed,
                        EventType::Normal,
                        &format!("Successful{verb}"),
                        about(verb, "successful"),
                    );
                }
                Ok(did)
            }
            Err(Failure { error, verb }) => {
                if let Some(verb) = verb.filter(|_| !error.is_end_of_leadership()) {
                    let message = about(verb, &format!("failed error: {}", words(&error)));
                    self.tell(observed, EventType::Warning, &format!("Failed{verb}"), message);
                }
                Err(error)
            }
        }
    }

    /// Stops early, without an error, where the namespace is being deleted.
    async fn write_all(&self, observed: &Observed, step: &PodStep) -> Result<Vec<Did>, Failure> {
        let Some(mut did) = self.make_claims(observed, step).await? else { return Ok(Vec::new()) };
        for write in &step.writes {
            did.push(match write {
                Write::CreateClaim { .. } | Write::WaitForClaim(_) => continue,
                Write::Warn(claim) => {
                    let message = format!(
                        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging \
                         controller, the retention policy is ignored for this claim"
                    );
                    self.tell(observed, EventType::Warning, "ConflictingController", message);
                    Did::Nothing
                }
                Write::SetOwners { name, uid, version, owners } => {
                    let set = self.set_owners(observed, name, (uid, *version), owners).await.map_err(|error| {
                        let why = words(&error);
                        let verb = (step.goal != Goal::Release).then_some("Update");
                        let told = format!("could not update claim {name} for delete policy ownerRefs: {why}");
                        Failure { error: reworded(error, told), verb }
                    })?;
                    Did::Claim(name.clone(), Claim { owners: owners.clone(), ..set })
                }
                Write::CreatePod(which) => match self.create_pod(observed, step, *which).await? {
                    Some(pod) => Did::Pod(Box::new(pod)),
                    None => return Ok(did),
                },
                Write::UpdatePod => {
                    let updated = self.update_pod(observed, step).await;
                    Did::Pod(Box::new(updated.map_err(|error| Failure { error, verb: step.goal.verb() })?))
                }
                Write::DeletePod => {
                    let deleted = self.delete_pod(observed, step).await;
                    deleted.map_err(|error| Failure { error, verb: step.goal.verb() })?;
                    Did::Deleted
                }
            });
        }
        Ok(did)
    }

    /// Tries to create each claim, and fails if one of them can't be created. `None` if the namespace is being deleted.
    async fn make_claims(&self, observed: &Observed, step: &PodStep) -> Result<Option<Vec<Did>>, Failure> {
        let (mut did, mut faults, mut first) = (Vec::new(), Vec::new(), None);
        for write in &step.writes {
            match write {
                Write::CreateClaim { template, name, owners } => {
                    let made = self.create_claim(observed, step, *template, name, owners).await;
                    match made {
                        Ok(Some(claim)) => did.push(Did::Claim(name.clone(), claim)),
                        Ok(None) => return Ok(None),
                        Err(error) => {
                            faults.push(format!("failed to create PVC {name}: {}", words(&error)));
                            first.get_or_insert(error);
                        }
                    }
                }
                Write::WaitForClaim(name) => faults.push(format!("pvc {name} is being deleted")),
                _ => {}
            }
        }
        let told = match &faults[..] {
            [] => return Ok(Some(did)),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let error = match first {
            Some(error) => reworded(error, told),
            None => SyncError::Failed(told),
        };
        Err(Failure { error, verb: step.goal.verb() })
    }

    /// `None` if the namespace is being deleted.
    async fn create_claim(
        &self,
        observed: &Observed,
        step: &PodStep,
        template: usize,
        name: &str,
        owners: &[OwnerReference],
    ) -> Result<Option<Claim>, SyncError> {
        let set = &observed.set;
        let key = &set.meta.key;
        let draft = ClaimDraft { name, namespace: &key.namespace, labels: &set.match_labels, owners };
        let what = || format!("creating claim {}/{name}", key.namespace);
        let content = draft
            .fill_in(&set.claims[template].claim)
            .map_err(|error| SyncError::Failed(format!("{}: {error}", what())))?;
        let create = self.claim_client.create(&key.namespace, content);
        let pod = &step.pod.name;
        match self.children.own_writes().write(key, create).await {
            Ok(Created::Now(claim)) => {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", key.name);
                self.tell(observed, EventType::Normal, "SuccessfulCreate", message);
                Ok(Some(Claim::of(claim.meta())))
            }
            // The cache will show it.
            Ok(Created::Exists(status)) => Err(SyncError::Refused { what: what(), status }),
            Ok(Created::NamespaceTerminating) => Ok(None),
            Err(error) => {
                if !error.is_end_of_leadership() {
                    let message = format!(
                        "Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {}",
                        key.name,
                        words(&error)
                    );
                    self.tell(observed, EventType::Warning, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    /// `None` if the namespace is being deleted.
    async fn create_pod(
        &self,
        observed: &Observed,
        step: &PodStep,
        which: Which,
    ) -> Result<Option<Pod>, Failure> {
        let told = |error| Failure { error, verb: step.goal.verb() };
        let (set, revisions) = (&observed.set, &observed.revisions);
        let current = revisions.current(&set.status.current_revision);
        let update = revisions.update();
        let (revision, template) = match which {
            Which::Current if current != update => {
                let name = current.expect("a set whose pods are planned must have a history");
                (name, history::template(&self.history, &revisions.key(name)).map_err(&told)?)
            }
            _ => (update.expect("a set whose pods are planned must have a history"), set.template.clone()),
        };
        let failed = |error: &dyn std::fmt::Display| {
            told(SyncError::Failed(format!("creating pod {}: {error}", step.pod)))
        };
        let spec = PodSpec { subdomain: &set.service_name, claims: set.storage(step.ordinal).collect() };
        let template = spec.add_to(&template).map_err(|error| failed(&error))?;
        let labels = [
            (POD_NAME, step.pod.name.clone()),
            (POD_INDEX, step.ordinal.to_string().as_str().into()),
            (REVISION, revision.into()),
        ];
        let draft = PodDraft {
            name: PodName::Both { prefix: name_prefix(&set.meta.key.name), name: step.pod.name.clone() },
            owner: controller_reference::<StatefulSet>(&set.meta),
            labels: labels.map(|(key, value)| (key.into(), value)).into(),
            annotations: Vec::new(),
            finalizers: Vec::new(),
            hostname: Some(step.pod.name.clone()),
            variables: Vec::new(),
        };
        let content = draft.fill_in(&template).map_err(|error| failed(&error))?;
        let create = self.children.child_client().create(&step.pod.namespace, content);
        match self.children.own_writes().write(&set.meta.key, create).await.map_err(told)? {
            Created::Now(pod) => Ok(Some(Pod::of(&pod, &set.meta.key.name, PodClaim::Owned))),
            Created::NamespaceTerminating => Ok(None),
            // No event is recorded, as upstream: the cache will show the pod.
            Created::Exists(status) => {
                let error = SyncError::Refused { what: format!("creating pod {}", step.pod), status };
                Err(Failure { error, verb: None })
            }
        }
    }

    /// Reads the whole pod, since a change of its volumes must name all of them.
    async fn update_pod(&self, observed: &Observed, step: &PodStep) -> Result<Pod, SyncError> {
        let set = &observed.set;
        let client = self.children.child_client();
        let what = || format!("updating pod {}", step.pod);
        let found = client.resource().get_json(&step.pod).await?;
        let uid = step.uid.as_ref().map(ToString::to_string);
        let Some(mut pod) = found.filter(|pod| pod["metadata"]["uid"].as_str() == uid.as_deref()) else {
            return Err(SyncError::Failed(format!("{}: the pod is gone", what())));
        };
        let claims: Vec<_> = set.storage(step.ordinal).collect();
        if !has_storage(observed, step) {
            let spec = PodSpec { subdomain: &set.service_name, claims };
            pod["spec"]["volumes"] = spec.volumes(&pod["spec"]["volumes"]).into();
        }
        if !pod["metadata"]["labels"].is_object() {
            pod["metadata"]["labels"] = json!({});
        }
        pod["metadata"]["labels"][POD_NAME] = json!(step.pod.name.as_str());
        pod["metadata"]["labels"][POD_INDEX] = json!(step.ordinal.to_string());
        let update = client.update(&step.pod, Content::json(JSON, &pod));
        let updated = self.children.own_writes().write(&set.meta.key, update).await?;
        let updated: Option<std::sync::Arc<CachedPod>> = updated.or_conflict(what)?;
        let Some(updated) = updated else {
            return Err(SyncError::Failed(format!("{}: the pod is gone", what())));
        };
        Ok(Pod::of(&updated, &set.meta.key.name, PodClaim::Owned))
    }

    async fn delete_pod(&self, observed: &Observed, step: &PodStep) -> Result<(), SyncError> {
        let uid = step.uid.as_ref().expect("a pod that is deleted must exist");
        let delete = Delete::of(uid);
        let delete = self.children.child_client().delete(&step.pod, &delete);
        let own_writes = self.children.own_writes();
        match own_writes.remove::<CachedPod, _>(&observed.set.meta.key, uid, delete).await? {
            Deleted::Now(..) | Deleted::Gone => Ok(()),
            Deleted::Conflict(status) => {
                Err(SyncError::Refused { what: format!("deleting pod {}", step.pod), status })
            }
        }
    }

    /// Replaces a claim's owners. Kubernetes's own role for the controller grants no patches of claims.
    async fn set_owners(
        &self,
        observed: &Observed,
        name: &ArcStr,
        (uid, version): (&Uid, ResourceVersion),
        owners: &[OwnerReference],
    ) -> Result<Claim, SyncError> {
        let set = &observed.set.meta.key;
        let key = ObjectKey::new(set.namespace.clone(), name.clone());
        let what = || format!("updating claim {key}");
        let Some(mut claim) = self.claim_client.resource().get_json(&key).await? else {
            return Err(SyncError::Failed(format!("{}: the claim is gone", what())));
        };
        let meta = &mut claim["metadata"];
        if meta["uid"] != uid.to_string() || meta["resourceVersion"] != version.to_string() {
            return Err(SyncError::Failed(format!("{}: the claim has changed", what())));
        }
        meta["ownerReferences"] = owners.iter().map(|owner| json!(owner)).collect::<Vec<Value>>().into();
        let update = self.claim_client.update(&key, Content::json(JSON, &claim));
        let updated = self.children.own_writes().write(set, update).await?;
        match updated.or_conflict(what)? {
            Some(claim) => Ok(Claim::of(claim.meta())),
            None => Err(SyncError::Failed(format!("{}: the claim is gone", what()))),
        }
    }

    fn tell(&self, observed: &Observed, kind: EventType, reason: &str, message: String) {
        self.recorder.event(&Self::involved(observed), kind, reason.to_owned(), message);
    }
}

fn has_storage(observed: &Observed, step: &PodStep) -> bool {
    let pod = observed.numbered().find(|pod| pod.ordinal == Some(step.ordinal));
    pod.is_some_and(|pod| pod.has_storage(observed.set.storage(step.ordinal)))
}

/// An error in the API server's own words, as upstream's events tell it.
fn words(error: &SyncError) -> String {
    error.status().map_or_else(|| error.to_string(), |status| status.message.clone())
}

/// The same error, told so. What is known of the call's effect stays.
fn reworded(error: SyncError, told: String) -> SyncError {
    match error {
        SyncError::Unknown { .. }
        | SyncError::Unreachable { .. }
        | SyncError::Fenced { .. }
        | SyncError::Abandoned { .. } => error,
        // The runner must see whose fault it is.
        SyncError::Refused { .. } if error.is_servers_fault() => error,
        SyncError::Refused { .. } | SyncError::Unreadable(_) | SyncError::Failed(_) => {
            SyncError::Failed(told)
        }
    }
}
