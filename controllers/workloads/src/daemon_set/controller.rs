//! Syncs of DaemonSets: where observations come from, and how steps are carried out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{ArcStr, ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::children::{Children, Claim, Family, Sight};
use steersman_controller::client::{
    Changed, Client, Created, Deleted, Patch, StatusChange, StatusWriter, controller_reference,
    event_reference,
};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_controller::pod_control::{self, PodControl};
use steersman_controller::pod_template::{PodDraft, PodName, name_prefix};
use steersman_controller::registry::{BoxError, Construction};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::wire::Object;
use steersman_kinds::daemon_set::DaemonSet;
use steersman_kinds::pod::Pod as CachedPod;

use super::back_off::{BackOff, Failing};
use super::history::Revision;
use super::kinds::{self, DaemonNode, SyncedDaemonSet};
use super::metrics::Metrics;
use super::nodes::Nodes;
use super::observed::{Done, Observed, Set};
use super::placement::Comparisons;
use super::plan::{Outcome, Step, plan};
use super::pods::{End, Pod, PodRef};
use super::revision_control::RevisionControl;
use super::status::Status;
use super::template::for_node;
use super::{COMPARISONS, DaemonSetOptions, HASH_LABEL, TEMPLATE_GENERATION_LABEL};

/// The name of the source of the controller's events.
const COMPONENT: &str = "daemonset-controller";

/// Keeps the pods of DaemonSets.
pub(super) struct DaemonSetController {
    pods: Arc<Children<SyncedDaemonSet>>,
    revisions: RevisionControl,
    nodes: Arc<Nodes>,
    pod_control: PodControl,
    recorder: Recorder,
    status: StatusWriter<DaemonSet>,
    back_off: BackOff,
    metrics: Metrics,
}

/// Constructs the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, or the controller's metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    // Upstream's client has another name than the source of its events.
    let client = context.client_for("daemon-set-controller");
    let pods = Arc::new(Children::<SyncedDaemonSet>::new(context, &client)?);
    let revisions = RevisionControl::new(context, &client)?;
    pods.own_writes().watch(&revisions.history.cache());
    let node_cache = context.informers.informer::<DaemonNode>()?;
    let queue = context.queue("daemonset");
    pods.map_to(&queue);
    let (weak, wakes) = (Arc::downgrade(&pods), queue.clone());
    revisions.history.informer().map(move |change| {
        if let Some(pods) = weak.upgrade() {
            pods.dependent_changed(change, &|owner| {
                wakes.wake(owner);
                wakes.add(owner.clone());
            });
        }
    });
    let [sets, cached_pods] = pods.caches();
    let caches = [sets, cached_pods, revisions.history.cache(), node_cache.any()];
    let comparisons = if context.gates.enabled(COMPARISONS) { Comparisons::On } else { Comparisons::Off };
    let controller = DaemonSetController {
        nodes: Nodes::map_to(&node_cache, pods.owners().clone(), comparisons, &queue),
        pod_control: PodControl::new(pods.child_client().clone(), context.recorder(COMPONENT)),
        recorder: context.recorder(COMPONENT),
        status: StatusWriter::new(pods.owner_client().clone()),
        back_off: BackOff::default(),
        metrics: Metrics::register(&context.metrics)?,
        revisions,
        pods,
    };
    let workers = context.options::<DaemonSetOptions>().concurrent_syncs;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers.0).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], caches))
}

impl DaemonSetController {
    fn observed(&self, family: &Family<SyncedDaemonSet>, set: Set, revisions: Vec<Revision>) -> Observed {
        let read = |(pod, claim): &(Arc<CachedPod>, Claim)| {
            let mut read = Pod::of(pod, *claim);
            // The cache may still show a pod that this controller has deleted as it was before.
            read.deleting |= family.has_gone(pod.meta(), *claim);
            read
        };
        let pods: Vec<Pod> = family.children.iter().map(read).collect();
        Observed {
            nodes: self.nodes.verdicts(kinds::rules(&family.owner)),
            back_off: self.waits(&set, &pods),
            revisions,
            set,
            pods,
            grounds: family.grounds,
            done: Done::default(),
        }
    }

    /// The nodes with a failed pod that must wait, and how long.
    fn waits(&self, set: &Set, pods: &[Pod]) -> HashMap<ArcStr, Duration> {
        // Entries of deleted DaemonSets and nodes go in the syncs of others.
        self.back_off.sweep();
        let failed = pods.iter().filter(|pod| pod.end == Some(End::Failed) && !pod.deleting);
        let wait = |pod: &Pod| Some((pod.node.clone(), self.back_off.remaining(&failing(set, &pod.node))?));
        failed.filter_map(wait).collect()
    }

    async fn create(&self, set: &Set, node: &str, hash: &ArcStr) -> Result<Outcome, SyncError> {
        let owner = &set.meta;
        let template = for_node(&set.template, node).map_err(|error| {
            SyncError::Failed(format!("creating a pod of {} for node {node}: {error}", owner.key))
        })?;
        let generation = set.template_generation.map(|generation| generation.to_string());
        let generation = generation.map(|generation| (TEMPLATE_GENERATION_LABEL.into(), generation.into()));
        let draft = PodDraft {
            name: PodName::Generated(name_prefix(&owner.key.name)),
            owner: controller_reference::<DaemonSet>(owner),
            labels: generation.into_iter().chain([(HASH_LABEL.into(), hash.clone())]).collect(),
            annotations: Vec::new(),
            finalizers: Vec::new(),
            hostname: None,
            variables: Vec::new(),
        };
        let involved = event_reference::<DaemonSet>(owner);
        let create = self.pod_control.create(&involved, &draft, &template);
        match self.pods.own_writes().write(&owner.key, create).await? {
            Created::Now(pod) => Ok(Outcome::Created(Box::new(Pod::of(&pod, Claim::Owned)))),
            Created::NamespaceTerminating => Ok(Outcome::NamespaceTerminating),
            Created::Exists(status) => {
                Err(SyncError::Refused { what: format!("creating a pod of {}", owner.key), status })
            }
        }
    }

    async fn delete(
        &self,
        set: &Set,
        pod: &PodRef,
        node: &ArcStr,
        end: Option<End>,
    ) -> Result<Outcome, SyncError> {
        let owner = &set.meta;
        let involved = event_reference::<DaemonSet>(owner);
        match end {
            Some(End::Failed) => {
                self.back_off.failed(failing(set, node));
                let message =
                    format!("Found failed daemon pod {} on node {node}, will try to kill it", pod.key);
                self.recorder.event(&involved, EventType::Warning, "FailedDaemonPod", message);
            }
            Some(End::Succeeded) => {
                let message =
                    format!("Found succeeded daemon pod {} on node {node}, will try to delete it", pod.key);
                self.recorder.event(&involved, EventType::Normal, "SucceededDaemonPod", message);
            }
            None => {}
        }
        let named = pod_control::PodRef { name: pod.key.name.clone(), uid: pod.uid.clone() };
        let delete = self.pod_control.delete(&involved, &named);
        match self.pods.own_writes().remove::<CachedPod, _>(&owner.key, &pod.uid, delete).await? {
            Deleted::Now(..) => Ok(Outcome::Done),
            Deleted::Gone => Ok(Outcome::Gone),
            Deleted::Conflict(status) => {
                Err(SyncError::Refused { what: format!("deleting pod {}", pod.key), status })
            }
        }
    }

    async fn relabel(&self, set: &Set, pod: &PodRef, hash: &str) -> Result<Outcome, SyncError> {
        let patch = serde_json::json!({"metadata": {"uid": pod.uid, "labels": {HASH_LABEL: hash}}});
        let client: &Client<CachedPod> = self.pods.child_client();
        let patch = Patch::Merge(patch);
        changed(self.pods.own_writes().write(&set.meta.key, client.patch(&pod.key, &patch)).await?, pod)
    }

    async fn write_status(&self, set: &Set, status: &Status) -> Result<Outcome, SyncError> {
        let meta = &set.meta;
        let Some(change) = StatusChange::between(meta, &set.status, status) else {
            return Ok(Outcome::Written(meta.resource_version));
        };
        let write = self.status.write(&meta.key, &change);
        let written = self.pods.own_writes().write(&meta.key, write).await?;
        let written = written.or_conflict(|| format!("writing the status of {}", meta.key))?;
        Ok(written.map_or(Outcome::Gone, |set| Outcome::Written(set.meta().resource_version)))
    }

    async fn confirm(&self, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let Some(family) = self.pods.confirm(key).await? else { return Ok(Outcome::Observed(None)) };
        let set = read(&family)?;
        let revisions = self.revisions.confirm(&set, self.pods.own_writes()).await?;
        Ok(Outcome::Observed(Some(Box::new(self.observed(&family, set, revisions)))))
    }
}

/// # Errors
/// The selector can't be compiled.
fn read(family: &Family<SyncedDaemonSet>) -> Result<Set, SyncError> {
    let failed = |error| SyncError::Failed(format!("DaemonSet {}: {error}", family.owner.meta().key));
    kinds::set(&family.owner).map_err(failed)
}

impl Controller for DaemonSetController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.pods.term_begins();
        self.revisions.history.term_begins();
        self.back_off.clear();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.pods.own_writes().awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let family = match self.pods.observe(key).await? {
            Sight::Family(family) => family,
            Sight::Absent => {
                self.revisions.history.forget(key);
                self.nodes.note(key, false);
                return Ok(Observation::Nothing);
            }
            Sight::Behind { at_most, newly } => {
                newly.iter().for_each(|resource| self.metrics.stale(resource));
                return Ok(Observation::Behind(at_most));
            }
        };
        if kinds::selects_everything(&family.owner) {
            let involved = event_reference::<DaemonSet>(family.owner.meta());
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.recorder.event(&involved, EventType::Warning, "SelectingAll", message.to_owned());
            return Ok(Observation::Nothing);
        }
        let set = read(&family)?;
        let revisions = self.revisions.observe(&set, self.pods.own_writes())?;
        // A node that appears after the nodes are read must find the DaemonSet here.
        self.nodes.note(key, true);
        let observed = self.observed(&family, set, revisions);
        self.nodes.note(key, observed.has_stranded_pods());
        Ok(Observation::Ready(observed))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let (set, owner, own_writes) = (&observed.set, &observed.set.meta, self.pods.own_writes());
        let meta = |pod: &PodRef| steersman_api::Meta {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            ..Default::default()
        };
        match step {
            Step::Confirm => self.confirm(key).await,
            Step::CheckAlive => self.pods.check_alive(owner).await.map(|()| Outcome::Done),
            Step::Adopt(pod) => changed(self.pods.adopt(owner, &meta(pod), &[]).await?, pod),
            Step::Release(pod) => changed(self.pods.release(owner, &meta(pod), &[]).await?, pod),
            Step::Relabel { pod, hash } => self.relabel(set, pod, hash).await,
            Step::Create { node, hash, .. } => self.create(set, node, hash).await,
            Step::Delete { pod, node, end, .. } => self.delete(set, pod, node, *end).await,
            Step::WriteStatus(status) => self.write_status(set, status).await,
            Step::AdoptRevision(revision) => self.revisions.adopt(set, own_writes, revision).await,
            Step::ReleaseRevision(revision) => self.revisions.release(set, own_writes, revision).await,
            Step::LabelRevision(revision) => self.revisions.label(set, own_writes, revision).await,
            Step::RenumberRevision { revision, number } => {
                self.revisions.renumber(set, own_writes, revision, *number).await
            }
            Step::CreateRevision { number } => self.revisions.create(set, own_writes, *number).await,
            Step::DeleteRevision(revision) => self.revisions.delete(set, own_writes, revision).await,
        }
    }

    fn ends_batch(&self, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::NamespaceTerminating)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }
}

fn failing(set: &Set, node: &ArcStr) -> Failing {
    Failing { set: set.meta.uid.clone(), generation: set.status.observed_generation, node: node.clone() }
}

fn changed<K>(changed: Changed<K>, pod: &PodRef) -> Result<Outcome, SyncError> {
    let changed = changed.or_conflict(|| format!("changing pod {}", pod.key))?;
    Ok(changed.map_or(Outcome::Gone, |_| Outcome::Done))
}
