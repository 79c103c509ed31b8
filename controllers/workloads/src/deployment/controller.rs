//! Syncs of Deployments: where observations come from, and how steps are carried out.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use steersman_api::{ArcStr, Meta, ObjectKey, Status as ApiStatus, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::call::{Content, JSON};
use steersman_controller::children::{Children, Claim, Family, Sight};
use steersman_controller::client::{
    Changed, Created, Delete, Deleted, Patch, StatusChange, StatusWriter, controller_reference,
    event_reference,
};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_controller::registry::{BoxError, Construction};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_controller::server_version::ServerVersion;
use steersman_informer::wire::Object;
use steersman_kinds::deployment::Deployment as CachedDeployment;
use steersman_kinds::replica_set::ReplicaSet as CachedReplicaSet;

use super::annotations::{self, REVISION, ROLLBACK_TO};
use super::kinds::SyncedDeployment;
use super::new_set;
use super::observed::{Done, Observed};
use super::owner::{Deployment, Strategy};
use super::plan::{Annotate, NewSet, Outcome, Scale, Step, WriteStatus, plan};
use super::pods::Pods;
use super::replica_set::{ReplicaSet, SetRef};
use super::rollback::RollBack;
use super::templates::{self, Templates};
use super::{DeploymentOptions, TERMINATING_REPLICAS};
use crate::pod_template::{self, HASH_LABEL, Layout};

/// The name of the controller's client, and of the source of its events.
const COMPONENT: &str = "deployment-controller";

/// Rolls out Deployments.
pub(super) struct DeploymentController {
    children: Arc<Children<SyncedDeployment>>,
    pods: Pods,
    templates: Templates,
    status: StatusWriter<CachedDeployment>,
    recorder: Recorder,
    server_version: ServerVersion,
    counts_terminating: bool,
}

pub(super) fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let client = context.client_for(COMPONENT);
    let children = Arc::new(Children::<SyncedDeployment>::new(context, &client)?);
    let pods = Pods::new(context)?;
    let queue = context.queue("deployment");
    children.map_to(&queue);
    pods.map_to(&queue, &children);
    let [deployments, sets] = children.caches();
    let caches = [deployments, sets, pods.cache()];
    let controller = DeploymentController {
        status: StatusWriter::new(children.owner_client().clone()),
        recorder: context.recorder(COMPONENT),
        counts_terminating: context.gates.enabled(TERMINATING_REPLICAS),
        templates: Templates::default(),
        server_version: context.server_version.clone(),
        children,
        pods,
    };
    let workers = context.options::<DeploymentOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::UPSTREAM);
    Ok(Construction::new([syncs.into()], caches))
}

impl DeploymentController {
    fn observed(&self, family: &Family<SyncedDeployment>) -> Result<Observed, SyncError> {
        let deployment = Deployment::of(&family.owner)?;
        let has_gone = |(set, claim): &&(Arc<CachedReplicaSet>, Claim)| family.has_gone(set.meta(), *claim);
        let children: Vec<_> = family.children.iter().filter(|child| !has_gone(child)).collect();
        let sets = children.iter().map(|(set, _)| &**set);
        let have_template = self.templates.compare(&deployment.meta, &deployment.template, sets)?;
        let looks_at_pods = deployment.strategy == Strategy::Recreate;
        let read = |((set, claim), has_template): (&&(Arc<CachedReplicaSet>, Claim), bool)| {
            let runs_pods = looks_at_pods && self.pods.run_for(set.meta());
            ReplicaSet::of(set, *claim, has_template, runs_pods)
        };
        let mut sets: Vec<_> = children.iter().zip(have_template).map(read).collect();
        sets.sort_by(ReplicaSet::age_order);
        let (grounds, counts_terminating) = (family.grounds, self.counts_terminating);
        Ok(Observed { deployment, sets, grounds, counts_terminating, done: Done::default() })
    }

    fn involved(observed: &Observed) -> ObjectReference {
        event_reference::<CachedDeployment>(&observed.deployment.meta)
    }

    fn scaled_event(&self, observed: &Observed, set: &str, from: i32, to: i32) {
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        self.recorder.event(&Self::involved(observed), EventType::Normal, "ScalingReplicaSet", message);
    }

    async fn hash(&self, observed: &Observed) -> Result<Outcome, SyncError> {
        let deployment = &observed.deployment;
        let layout = Layout::of_server(&self.server_version).await?;
        let hash = pod_template::hash(&deployment.template, deployment.status.collision_count, layout);
        let failed = |error| {
            SyncError::Failed(format!("reading the template of Deployment {}: {error}", deployment.meta.key))
        };
        hash.map(Outcome::Hashed).map_err(failed)
    }

    async fn create(&self, observed: &Observed, new: &NewSet) -> Result<Outcome, SyncError> {
        let created = self.try_create(observed, new).await;
        if let Err(error) = &created
            && !error.is_end_of_leadership()
        {
            let (involved, message) = (Self::involved(observed), new_set::failure(&new.name, error));
            self.recorder.event(&involved, EventType::Warning, "ReplicaSetCreateError", message);
        }
        created
    }

    async fn try_create(&self, observed: &Observed, new: &NewSet) -> Result<Outcome, SyncError> {
        let meta = &observed.deployment.meta;
        let key = ObjectKey::new(meta.key.namespace.clone(), new.name.clone());
        let owner = controller_reference::<CachedDeployment>(meta);
        let content = new_set::content(&observed.deployment, &owner, new)
            .map_err(|error| SyncError::Failed(error.to_string()))?;
        let create = self.children.child_client().create(&key.namespace, content);
        match self.children.own_writes().write(&meta.key, create).await? {
            Created::Now(set) => {
                if new.replicas > 0 {
                    self.scaled_event(observed, &key.name, 0, new.replicas);
                }
                Ok(Outcome::Created(Box::new(ReplicaSet::of(&set, Claim::Owned, true, false))))
            }
            Created::NamespaceTerminating => Ok(Outcome::NamespaceTerminating),
            Created::Exists(_) => Ok(Outcome::Exists),
        }
    }

    async fn read_namesake(&self, observed: &Observed, name: &ArcStr) -> Result<Outcome, SyncError> {
        let deployment = &observed.deployment;
        let key = ObjectKey::new(deployment.meta.key.namespace.clone(), name.clone());
        let Some(set) = self.children.child_client().get(&key).await? else {
            return Err(SyncError::Failed(format!("ReplicaSet {key} was deleted meanwhile")));
        };
        let selector =
            deployment.selector.to_selector().map_err(|error| SyncError::Failed(error.to_string()))?;
        match Claim::of::<CachedDeployment>(&deployment.meta, &selector, set.meta()) {
            Some(Claim::Owned) if templates::has_template(&deployment.template, &set)? => {
                return Ok(Outcome::Found(Box::new(ReplicaSet::of(&set, Claim::Owned, true, false))));
            }
            // Once the cache shows it, the Deployment adopts it, and may find that it is the new one.
            Some(Claim::Orphan) => {
                return Err(SyncError::Failed(format!("ReplicaSet {key} is not adopted yet")));
            }
            _ => {}
        }
        let collisions = deployment.status.collision_count.unwrap_or(0);
        tracing::info!(name = %key.name, collisions, "Found a hash collision: the name will count it");
        Ok(Outcome::Collision)
    }

    async fn patch(&self, observed: &Observed, set: &SetRef, mut patch: Value) -> Result<Outcome, SyncError> {
        patch["metadata"]["uid"] = set.uid.to_string().into();
        patch["metadata"]["resourceVersion"] = set.version.to_string().into();
        let patch = Patch::Merge(patch);
        let write = self.children.child_client().patch(&set.key, &patch);
        changed(self.children.own_writes().write(&observed.deployment.meta.key, write).await?, set)
    }

    async fn annotate(&self, observed: &Observed, annotate: &Annotate) -> Result<Outcome, SyncError> {
        let patch = json!({
            "metadata": {"annotations": map(&annotate.annotations)},
            "spec": {"minReadySeconds": annotate.min_ready_seconds},
        });
        self.patch(observed, &annotate.set, patch).await
    }

    async fn scale(&self, observed: &Observed, scale: &Scale) -> Result<Outcome, SyncError> {
        let annotations = annotations::of_size(&observed.deployment);
        let patch = json!({
            "metadata": {"annotations": map(&annotations)},
            "spec": {"replicas": scale.to},
        });
        let outcome = self.patch(observed, &scale.set, patch).await?;
        if scale.from != scale.to && matches!(outcome, Outcome::Changed(_)) {
            self.scaled_event(observed, &scale.set.key.name, scale.from, scale.to);
        }
        Ok(outcome)
    }

    async fn delete(&self, observed: &Observed, set: &SetRef) -> Result<Outcome, SyncError> {
        let delete = Delete { resource_version: Some(set.version), ..Delete::of(&set.uid) };
        let call = self.children.child_client().delete(&set.key, &delete);
        let owner = &observed.deployment.meta.key;
        match self.children.own_writes().remove::<CachedReplicaSet, _>(owner, &set.uid, call).await? {
            Deleted::Now(..) => Ok(Outcome::Done),
            Deleted::Gone => Ok(Outcome::Gone),
            Deleted::Conflict(status) => {
                Err(SyncError::Refused { what: format!("deleting ReplicaSet {}", set.key), status })
            }
        }
    }

    async fn write_status(&self, observed: &Observed, write: &WriteStatus) -> Result<Outcome, SyncError> {
        let (meta, stored) = (&observed.deployment.meta, &observed.deployment.status);
        let change = match &write.revision {
            Some(revision) => {
                Some(StatusChange::with_annotation(meta, stored, &write.status, REVISION, revision.clone()))
            }
            None => StatusChange::between(meta, stored, &write.status),
        };
        let Some(change) = change else { return Ok(Outcome::Written(meta.resource_version)) };
        let write = self.status.write(&meta.key, &change);
        let written = self.children.own_writes().write(&meta.key, write).await?;
        let written = written.or_conflict(|| format!("writing the status of Deployment {}", meta.key))?;
        Ok(written.map_or(Outcome::Gone, |object| Outcome::Written(object.meta().resource_version)))
    }

    /// Writes the Deployment without the wish to roll back. It must have the version that the wish was read in.
    async fn roll_back(&self, observed: &Observed, roll_back: &RollBack) -> Result<Outcome, SyncError> {
        let meta = &observed.deployment.meta;
        let (involved, name) = (Self::involved(observed), &meta.key.name);
        let warn = |reason, message: String| {
            self.recorder.event(&involved, EventType::Warning, reason, message);
        };
        let client = self.children.owner_client();
        let Some(mut object) = client.resource().get_json(&meta.key).await? else { return Ok(Outcome::Gone) };
        check_unchanged(
            &object,
            &SetRef { key: meta.key.clone(), uid: meta.uid.clone(), version: meta.resource_version },
        )?;
        match roll_back {
            RollBack::To { set, .. } => {
                let sets = self.children.child_client().resource();
                let Some(old) = sets.get_json(&set.key).await? else {
                    return Err(SyncError::Failed(format!("ReplicaSet {} is gone", set.key)));
                };
                check_unchanged(&old, set)?;
                restore(&mut object, &old);
            }
            RollBack::Unchanged => warn(
                "DeploymentRollbackTemplateUnchanged",
                format!("The rollback revision contains the same template as current deployment \"{name}\""),
            ),
            RollBack::NoLastRevision => {
                warn("DeploymentRollbackRevisionNotFound", "Unable to find last revision.".to_owned());
            }
            RollBack::NoSuchRevision => {
                let message = "Unable to find the revision to rollback to.".to_owned();
                warn("DeploymentRollbackRevisionNotFound", message);
            }
        }
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(ROLLBACK_TO);
        }
        let update = client.update(&meta.key, Content::json(JSON, &object));
        let written = self.children.own_writes().write(&meta.key, update).await?;
        written.or_conflict(|| format!("rolling back Deployment {}", meta.key))?;
        if let RollBack::To { revision, .. } = roll_back {
            let message = format!("Rolled back deployment \"{name}\" to revision {revision}");
            self.recorder.event(&involved, EventType::Normal, "DeploymentRollback", message);
        }
        Ok(Outcome::Done)
    }
}

/// Gives a Deployment in JSON the template of a ReplicaSet, without the label [`HASH_LABEL`], and its annotations but for those
/// that are never copied.
fn restore(deployment: &mut Value, set: &Value) {
    deployment["spec"]["template"] = set["spec"]["template"].clone();
    if let Some(labels) = deployment["spec"]["template"]["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    let of = |object: &Value| object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let mut kept = of(deployment);
    kept.retain(|key, _| annotations::is_own(key));
    kept.extend(of(set).into_iter().filter(|(key, _)| !annotations::is_own(key)));
    deployment["metadata"]["annotations"] = Value::Object(kept);
}

/// Fails with a conflict unless the object has the uid and the version of `expected`.
fn check_unchanged(object: &Value, expected: &SetRef) -> Result<(), SyncError> {
    let meta = &object["metadata"];
    if meta["uid"] == expected.uid.to_string() && meta["resourceVersion"] == expected.version.to_string() {
        return Ok(());
    }
    let message = format!("{} has been modified", expected.key);
    let status = Box::new(ApiStatus::failure(409, "Conflict", message));
    Err(SyncError::Refused { what: "rolling back".to_owned(), status })
}

fn map<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> Value {
    pairs.iter().map(|(key, value)| (key.as_ref().to_owned(), Value::from(value.as_ref()))).collect()
}

/// The outcome of a write to a ReplicaSet. The sync knows already what its template is, and whether it has pods.
fn changed(changed: Changed<CachedReplicaSet>, set: &SetRef) -> Result<Outcome, SyncError> {
    let changed = changed.or_conflict(|| format!("changing ReplicaSet {}", set.key))?;
    let read = |set: Arc<_>| Outcome::Changed(Box::new(ReplicaSet::of(&set, Claim::Owned, false, false)));
    Ok(changed.map_or(Outcome::Gone, read))
}

impl Controller for DeploymentController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.children.term_begins();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.children.own_writes().awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        Ok(match self.children.observe(key).await? {
            Sight::Family(family) => Observation::Ready(self.observed(&family)?),
            Sight::Behind { at_most, .. } => Observation::Behind(at_most),
            Sight::Absent => {
                self.templates.forget(key);
                Observation::Nothing
            }
        })
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let owner = &observed.deployment.meta;
        let meta = |set: &SetRef| Meta { key: set.key.clone(), uid: set.uid.clone(), ..Meta::default() };
        match step {
            Step::Confirm => {
                let family = self.children.confirm(key).await?;
                let observed = family.map(|family| self.observed(&family)).transpose()?;
                Ok(Outcome::Observed(observed.map(Box::new)))
            }
            Step::CheckAlive => self.children.check_alive(owner).await.map(|()| Outcome::Done),
            Step::Adopt(set) => changed(self.children.adopt(owner, &meta(set), &[]).await?, set),
            Step::Release(set) => changed(self.children.release(owner, &meta(set), &[]).await?, set),
            Step::Refuse => {
                let message = "This deployment is selecting all pods. A non-empty selector is required.";
                let involved = Self::involved(observed);
                self.recorder.event(&involved, EventType::Warning, "SelectingAll", message.to_owned());
                Ok(Outcome::Done)
            }
            Step::Hash => self.hash(observed).await,
            Step::Create(new) => self.create(observed, new).await,
            Step::ReadNamesake(name) => self.read_namesake(observed, name).await,
            Step::Annotate(annotate) => self.annotate(observed, annotate).await,
            Step::Scale(scale) => self.scale(observed, scale).await,
            Step::Delete(set) => self.delete(observed, set).await,
            Step::RollBack(roll_back) => self.roll_back(observed, roll_back).await,
            Step::WriteStatus(write) => self.write_status(observed, write).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }
}
