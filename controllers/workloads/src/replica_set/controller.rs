//! Syncs of owners: where observations come from, and how steps are carried out.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_api::{ArcStr, Meta, ObjectKey, Time, Uid};
use steersman_controller::children::{Children, Claim, Family, Sight, is_child_of};
use steersman_controller::client::{
    Changed, Created, Deleted, StatusChange, StatusWriter, controller_reference, event_reference,
};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::options::Workers;
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_controller::pod_control::{self, PodControl};
use steersman_controller::pod_template::{PodDraft, PodName, name_prefix};
use steersman_controller::registry::{BoxError, Construction};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::index::{BY_CONTROLLER, by_controller};
use steersman_informer::wire::{Object, Selection};
use steersman_informer::{Index, IndexValue, View};

use super::kinds::Replicates;
use super::metrics::Metrics;
use super::observed::{Done, Features, Observed};
use super::plan::{Outcome, PodRef, Step, plan};
use super::pods::Pod;
use super::{DELETION_COST, TERMINATING_REPLICAS};

/// Keeps the pods of owners of one kind.
pub(super) struct ReplicaController<O: Replicates> {
    children: Arc<Children<O>>,
    siblings: Index<O>,
    pod_control: PodControl,
    status: StatusWriter<O::Kind>,
    features: Features,
    metrics: &'static Metrics,
}

pub(super) fn construct<O: Replicates>(
    context: &ControllerContext,
    workers: Workers,
) -> Result<Construction, BoxError> {
    let client = context.client_for(O::COMPONENT);
    let children = Arc::new(Children::<O>::new(context, &client)?);
    let queue = context.queue(O::QUEUE);
    children.map_to(&queue);
    // Of a pod that it has just created the controller reads only metadata.
    let pod_calls = children.child_client().clone().answered_with_metadata();
    let controller = ReplicaController {
        siblings: children.informers().0.add_index(BY_CONTROLLER, by_controller),
        pod_control: PodControl::new(pod_calls, context.recorder(O::COMPONENT)),
        status: StatusWriter::new(children.owner_client().clone()),
        features: Features {
            terminating_replicas: O::HAS_TERMINATING_REPLICAS && context.gates.enabled(TERMINATING_REPLICAS),
            deletion_cost: context.gates.enabled(DELETION_COST),
        },
        metrics: Metrics::shared(),
        children: Arc::clone(&children),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers.0).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], children.caches()))
}

impl<O: Replicates> ReplicaController<O> {
    fn observed(&self, family: &Family<O>) -> Observed {
        let owner = O::owner(&family.owner);
        let read = |(pod, claim): &(Arc<_>, Claim)| {
            let mut read = Pod::of(pod, *claim);
            // The cache may still show a deleted pod as it was before.
            read.deleting |= family.has_gone(pod.meta(), *claim);
            read
        };
        let pods: Vec<Pod> = family.children.iter().map(read).collect();
        let on_node = match owner.meta.controller() {
            Some(parent) if pods.len() > owner.replicas => self.on_node(&owner.meta, &parent.uid),
            _ => HashMap::new(),
        };
        let (grounds, features) = (family.grounds, self.features);
        Observed { owner, pods, on_node, grounds, features, failure: None, done: Done::default() }
    }

    /// The number of active pods on each node, of the owner and of all owners that `parent` controls as well.
    ///
    /// Upstream counts them by the controller's uid, so owners without a controller have no counts, not even of their own
    /// pods. Upstream never finds the siblings of a ReplicationController; this function does.
    fn on_node(&self, owner: &Meta, parent: &Uid) -> HashMap<ArcStr, usize> {
        let namespace = &owner.key.namespace;
        let mut owners = vec![(owner.key.clone(), owner.uid.clone())];
        let value = IndexValue::Owner(namespace.clone(), parent.clone());
        self.children.owners().for_each_meta_by_index(&self.siblings, &value, |sibling| {
            if sibling.is_controlled_by(parent) && sibling.uid != owner.uid {
                owners.push((sibling.key.clone(), sibling.uid.clone()));
            }
        });
        let mut on_node = HashMap::new();
        for (key, uid) in owners {
            let value = IndexValue::Owner(namespace.clone(), uid.clone());
            let owned = |pod: &Meta| is_child_of::<O::Kind>(pod, &key, &uid);
            // Pods that can't be read only make the choice among pods worse.
            let pods = self.children.children().by_index_where(&self.children.by_controller(), &value, owned);
            for pod in pods.iter().flatten().map(|pod| Pod::of(View::object(pod), Claim::Owned)) {
                if pod.is_active() {
                    *on_node.entry(pod.node).or_insert(0) += 1;
                }
            }
        }
        on_node
    }

    async fn create(&self, observed: &Observed) -> Result<Outcome, SyncError> {
        let owner = &observed.owner.meta;
        let draft = PodDraft {
            name: PodName::Generated(name_prefix(&owner.key.name)),
            owner: controller_reference::<O::Kind>(owner),
            labels: Vec::new(),
            annotations: Vec::new(),
            finalizers: Vec::new(),
            hostname: None,
            variables: Vec::new(),
        };
        let involved = event_reference::<O::Kind>(owner);
        let create = self.pod_control.create(&involved, &draft, &observed.owner.template);
        match self.children.own_writes().write(&owner.key, create).await? {
            Created::Now(pod) => Ok(Outcome::Created(Box::new(Pod::of(&pod, Claim::Owned)))),
            Created::NamespaceTerminating => Ok(Outcome::NamespaceTerminating),
            Created::Exists(status) => {
                Err(SyncError::Refused { what: format!("creating a pod of {}", owner.key), status })
            }
        }
    }

    async fn delete(
        &self,
        observed: &Observed,
        pod: &PodRef,
        ratio: Option<f64>,
    ) -> Result<Outcome, SyncError> {
        let owner = &observed.owner.meta;
        ratio.iter().for_each(|ratio| self.metrics.age_ratio.observe(*ratio));
        let involved = event_reference::<O::Kind>(owner);
        let named = pod_control::PodRef { name: pod.key.name.clone(), uid: pod.uid.clone() };
        let delete = self.pod_control.delete(&involved, &named);
        let own_writes = self.children.own_writes();
        match own_writes.remove::<<O::Child as Selection>::Kind, _>(&owner.key, &pod.uid, delete).await? {
            Deleted::Now(..) => Ok(Outcome::Done),
            Deleted::Gone => Ok(Outcome::Gone),
            Deleted::Conflict(status) => {
                Err(SyncError::Refused { what: format!("deleting pod {}", pod.key), status })
            }
        }
    }

    async fn write_status(
        &self,
        observed: &Observed,
        status: &super::status::Status,
    ) -> Result<Outcome, SyncError> {
        let meta = &observed.owner.meta;
        let Some(change) = StatusChange::between(meta, &observed.owner.status, status) else {
            return Ok(Outcome::Written(meta.resource_version));
        };
        let write = self.status.write(&meta.key, &change);
        let written = self.children.own_writes().write(&meta.key, write).await?;
        let written = written.or_conflict(|| format!("writing the status of {}", meta.key))?;
        Ok(written.map_or(Outcome::Gone, |owner| Outcome::Written(owner.meta().resource_version)))
    }
}

impl<O: Replicates> Controller for ReplicaController<O> {
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
            Sight::Family(family) => Observation::Ready(self.observed(&family)),
            Sight::Absent => Observation::Nothing,
            Sight::Behind { at_most, newly } => {
                if let Some(resource) = newly
                    && O::COUNTS_STALE_SYNCS
                {
                    self.metrics
                        .stale_syncs
                        .with_label_values(&[&*resource.group, &*resource.resource])
                        .inc();
                }
                Observation::Behind(at_most)
            }
        })
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let owner = &observed.owner.meta;
        let meta = |pod: &PodRef| Meta { key: pod.key.clone(), uid: pod.uid.clone(), ..Meta::default() };
        match step {
            Step::Confirm => {
                let family = self.children.confirm(key).await?;
                Ok(Outcome::Observed(family.map(|family| Box::new(self.observed(&family)))))
            }
            Step::CheckAlive => self.children.check_alive(owner).await.map(|()| Outcome::Done),
            Step::Adopt(pod) => changed(self.children.adopt(owner, &meta(pod), &[]).await?, pod),
            Step::Release(pod) => changed(self.children.release(owner, &meta(pod), &[]).await?, pod),
            Step::Create => self.create(observed).await,
            Step::Delete { pod, age_ratio } => self.delete(observed, pod, *age_ratio).await,
            Step::WriteStatus(status) => self.write_status(observed, status).await,
        }
    }

    fn ends_batch(&self, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::NamespaceTerminating)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }
}

fn changed<K>(changed: Changed<K>, pod: &PodRef) -> Result<Outcome, SyncError> {
    let changed = changed.or_conflict(|| format!("changing the owner of pod {}", pod.key))?;
    Ok(changed.map_or(Outcome::Gone, |_| Outcome::Done))
}
