//! What becomes of what comes in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use steersman_api::Uid;

use super::active_deadline;
use super::agent::{CleanUp, OnNode};
use super::held::{MakeRoom, Need};
use super::housekeeping::{self, Observed};
use super::run::Parts;
use crate::admission::{Admission, Rejection};
use crate::allocation::Trigger;
use crate::allocation::resources::asks_for_as_much;
use crate::events::{EventType, pod_reference};
use crate::kuberuntime::actions::ProbeResult;
use crate::pleg::{EventKind, PodLifecycleEvent};
use crate::pod_config::{PodOperation, PodUpdate, Source};
use crate::pod_manager::Paired;
use crate::pod_workers::status::has_terminal_phase;
use crate::pod_workers::{Update, UpdateKind, uid_of};
use crate::probes::{ProbeKind, ProbeUpdate};
use crate::resources::{CPU, MEMORY, amount, in_use, qos_class};
use crate::status_manager::conditions::{is_terminal, needs_readiness_reconciled};

impl Parts {
    /// A source said something. `all_heard` says whether all sources have spoken by now. Says what those that are held need.
    pub(super) fn config_changed(&self, update: PodUpdate, all_heard: bool) -> Option<Need> {
        let PodUpdate { pods, op, source } = update;
        tracing::debug!(%source, ?op, pods = pods.len(), "SyncLoop");
        if source == Source::Api {
            for pod in &pods {
                self.follow_start(pod, op);
            }
        }
        match op {
            PodOperation::Add => self.add(pods, all_heard),
            // One that is deleted has its grace: it changed, and its worker ends it.
            PodOperation::Update | PodOperation::Delete => {
                // Room is made for one: while it is, the others' resizes are not looked at.
                pods.into_iter().fold(None, |room, pod| self.change(pod, all_heard).or(room))
            }
            PodOperation::Remove => {
                pods.into_iter().for_each(|pod| self.remove(pod, all_heard));
                self.retry_resizes(Trigger::PodsRemoved, all_heard)
            }
            PodOperation::Reconcile => {
                let had_pending = self.resizes.has_pending();
                let triggers = pods.into_iter().map(|pod| self.reconcile(pod));
                let trigger = triggers.fold(None, |first, trigger| first.or(trigger));
                trigger.filter(|_| had_pending).and_then(|trigger| self.retry_resizes(trigger, all_heard))
            }
        }
    }

    fn follow_start(&self, pod: &Pod, op: PodOperation) {
        match op {
            PodOperation::Remove => self.startup.forget(pod.metadata.uid.as_deref().unwrap_or_default()),
            _ => self.startup.observed(pod, Timestamp::now()),
        }
    }

    /// The oldest first: they keep their place when all pods are told of anew.
    fn add(&self, mut pods: Vec<Arc<Pod>>, all_heard: bool) -> Option<Need> {
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|created| created.0));
        let (mut room, waiting) = (None, self.resizes.has_pending());
        for pod in pods {
            self.pods.set(pod.clone());
            match self.pods.paired(pod) {
                Paired::Mirror { pod: None, mirror } => {
                    tracing::debug!(mirror = mirror.metadata.name, "A mirror has no static pod");
                }
                Paired::Mirror { pod: Some(pod), .. } => self.tell(UpdateKind::Update, pod),
                Paired::Pod { pod, .. } if !self.held.is_empty() => self.held.push(&pod),
                Paired::Pod { pod, .. } => room = self.begin(pod),
            }
        }
        self.begun(waiting, all_heard).or(room)
    }

    /// Starts a pod with what it was allocated before, if it was; or refuses it. One that others must make room for is held, and
    /// so is one whom another Node than the one that is known might let in.
    fn begin(&self, pod: Arc<Pod>) -> Option<Need> {
        match self.try_begin(&pod) {
            Ok(room) => room.map(Need::Room),
            Err(rejection) if rejection.by_labels => {
                self.held.push_first(&pod);
                Some(Need::Node)
            }
            Err(rejection) => {
                self.reject(&pod, rejection);
                None
            }
        }
    }

    /// The same, by the Node that is known.
    fn begin_by_known_node(&self, pod: &Arc<Pod>) -> Option<Need> {
        let begun = self.try_begin(pod);
        begun
            .unwrap_or_else(|rejection| {
                self.reject(pod, rejection);
                None
            })
            .map(Need::Room)
    }

    fn try_begin(&self, pod: &Arc<Pod>) -> Result<Option<MakeRoom>, Rejection> {
        let pod = Arc::clone(pod);
        if self.is_over(&pod) {
            self.begin_over(pod);
            return Ok(None);
        }
        let allocated = self.resizes.allocated(&pod);
        match self.admit(&allocated)? {
            Admission::Now => {
                self.start(pod, &allocated);
                Ok(None)
            }
            Admission::After(preemption) => {
                self.held.push_first(&pod);
                Ok(Some(MakeRoom { pod, preemption }))
            }
        }
    }

    /// Whether a pod ends, or has ended: it takes nothing that it does not have already.
    fn is_over(&self, pod: &Pod) -> bool {
        self.workers.states().is_pod_termination_requested(&uid_of(pod)) || has_terminal_phase(pod)
    }

    fn begin_over(&self, pod: Arc<Pod>) {
        self.resizes.backfill(&pod);
        self.tell(UpdateKind::Create, pod);
    }

    /// Starts a pod that is admitted with what it is allocated. A resize that it waits for is looked at later.
    fn start(&self, pod: Arc<Pod>, allocated: &Arc<Pod>) {
        self.resizes.allocate(allocated);
        self.resizes.backfill(&pod);
        if !Arc::ptr_eq(&pod, allocated) {
            self.resizes.push(&uid_of(&pod));
        }
        self.tell(UpdateKind::Create, pod);
    }

    /// Pods were started, and have their place. `waiting` says whether resizes waited before.
    fn begun(&self, waiting: bool, all_heard: bool) -> Option<Need> {
        self.resizes.save();
        if waiting || !self.resizes.has_pending() {
            return None;
        }
        self.retry_resizes(Trigger::PodsAdded, all_heard)
    }

    /// There is room for whom it was made: the pod that was to grow, or the first of those that wait. That one starts, and so do
    /// the others, up to one that needs something. What else is to grow is looked at when all have started.
    pub(super) fn room_made(&self, all_heard: bool) -> Option<Need> {
        let waiting = self.resizes.has_pending();
        // One that went meanwhile needs nothing.
        if let Some((pod, trigger)) = self.held.take_growing() {
            if let Some(wanted) = self.growing(&uid_of(&pod)) {
                let has_all = || Arc::ptr_eq(&self.resizes.allocated(&wanted), &wanted);
                // What it took back meanwhile it does not get.
                if !has_all() && asks_for_as_much(&wanted, &pod) {
                    self.resizes.grant(&pod, trigger);
                }
                if !has_all() {
                    // It has changed meanwhile.
                    self.resizes.push(&uid_of(&wanted));
                }
                self.tell(UpdateKind::Sync, wanted);
            }
            self.held.put_off(trigger);
        } else if let Some(pod) = self.held.pop().and_then(|uid| self.pods.pod(&uid)) {
            if self.is_over(&pod) {
                self.begin_over(pod);
            } else {
                let allocated = self.resizes.allocated(&pod);
                self.start(pod, &allocated);
            }
        }
        self.begin_held(None, waiting, all_heard)
    }

    /// The Node is known as it is now, or can't be had: the first of those that wait starts or is refused, and the others follow.
    pub(super) fn node_read(&self, all_heard: bool) -> Option<Need> {
        let waiting = self.resizes.has_pending();
        let first = self.held.pop().and_then(|uid| self.pods.pod(&uid));
        let need = first.and_then(|pod| self.begin_by_known_node(&pod));
        self.begin_held(need, waiting, all_heard)
    }

    /// Starts those that wait, up to one that needs something; none if somebody does already.
    fn begin_held(&self, mut need: Option<Need>, waiting: bool, all_heard: bool) -> Option<Need> {
        while need.is_none()
            && let Some(uid) = self.held.pop()
        {
            need = self.pods.pod(&uid).and_then(|pod| self.begin(pod));
        }
        let need = self.begun(waiting, all_heard).or(need);
        if need.is_some() {
            return need;
        }
        let trigger = self.held.take_put_off()?;
        self.retry_resizes(trigger, all_heard)
    }

    /// The pod as its source has it, if it can still be resized: one that ends, or has ended, takes nothing more.
    fn growing(&self, uid: &Uid) -> Option<Arc<Pod>> {
        let states = self.workers.states();
        let goes_on = |pod: &Arc<Pod>| {
            // The worker of one that is deleted may not have heard of it yet.
            pod.metadata.deletion_timestamp.is_none()
                && !has_terminal_phase(pod)
                && !states.is_pod_termination_requested(uid)
                && !states.is_pod_known_terminated(uid)
        };
        self.pods.pod(uid).filter(goes_on)
    }

    /// Whether there is room for a pod as it is allocated, or is to be.
    fn admit(&self, pod: &Arc<Pod>) -> Result<Admission, Rejection> {
        let uid = uid_of(pod);
        let mut others = self.pods.pods();
        others.retain(|other| {
            let of = uid_of(other);
            of != uid && self.is_active(other) && !self.held.has(&of)
        });
        others.iter_mut().for_each(|other| *other = self.resizes.allocated(other));
        self.agent.admit(pod, &others)
    }

    /// A source changed a pod.
    fn change(&self, pod: Arc<Pod>, all_heard: bool) -> Option<Need> {
        let old = self.pods.pod(&uid_of(&pod));
        self.pods.set(pod.clone());
        let mut room = None;
        if let (Some(old), Paired::Pod { pod, .. }) = (old, self.pods.paired(pod.clone()))
            && self.resizes.changed(&old, &pod)
        {
            room = self.retry_resizes(Trigger::PodUpdated, all_heard);
        }
        self.tell(UpdateKind::Update, pod);
        room
    }

    /// Looks at the resizes that wait. Before all sources were heard there may be pods that have their place already; and while
    /// room is made it is for one only. Says whose room is to be made.
    pub(super) fn retry_resizes(&self, trigger: Trigger, all_heard: bool) -> Option<Need> {
        if !self.resizes.has_pending() {
            return None;
        }
        if !all_heard {
            self.resizes.put_off();
            return None;
        }
        if !self.held.is_empty() {
            self.resizes.put_off();
            self.held.put_off(trigger);
            return None;
        }
        let retried = self.resizes.retry(trigger, |uid| self.growing(uid), |pod| self.admit(pod));
        for pod in retried.to_sync {
            self.tell(UpdateKind::Sync, pod);
        }
        let (pod, preemption) = retried.needs_room?;
        self.held.set_growing(&pod, trigger);
        Some(Need::Room(MakeRoom { pod, preemption }))
    }

    fn reject(&self, pod: &Pod, rejection: Rejection) {
        let Rejection { reason, message, .. } = rejection;
        tracing::info!(
            pod = pod.metadata.name,
            uid = pod.metadata.uid,
            reason,
            message,
            "Pod admission denied"
        );
        self.metrics.rejected(&reason);
        self.events.event_with_reason(&pod_reference(pod), EventType::Warning, reason.clone(), &message);
        let status = PodStatus {
            qos_class: Some(qos_class(pod).as_str().to_owned()),
            phase: Some("Failed".to_owned()),
            reason: Some(reason),
            message: Some(format!("Pod was rejected: {message}")),
            ..PodStatus::default()
        };
        self.status.set(pod, status);
    }

    fn remove(&self, pod: Arc<Pod>, all_heard: bool) {
        self.pods.remove(&pod);
        self.resizes.forget(&uid_of(&pod));
        match self.pods.paired(pod) {
            Paired::Mirror { pod: None, .. } => {}
            // Its worker makes the mirror anew.
            Paired::Mirror { pod: Some(pod), .. } => self.tell(UpdateKind::Update, pod),
            Paired::Pod { pod, .. } if all_heard => self.workers.update(Update::kill(pod)),
            // Another source may have it; housekeeping ends it, once all were heard.
            Paired::Pod { pod, .. } => tracing::debug!(pod = pod.metadata.name, "Pod is not killed yet"),
        }
    }

    /// Only the pod's status changed, by somebody else. Says whether it leaves room for others' resizes.
    fn reconcile(&self, pod: Arc<Pod>) -> Option<Trigger> {
        let old = self.pods.pod(&uid_of(&pod));
        self.pods.set(pod.clone());
        let (Paired::Pod { pod, .. } | Paired::Mirror { pod: Some(pod), .. }) = self.pods.paired(pod) else {
            return None;
        };
        let trigger = old.and_then(|old| self.makes_room(&old, &pod));
        if needs_readiness_reconciled(&pod) {
            self.tell(UpdateKind::Sync, pod.clone());
        }
        let is_evicted = |status: &PodStatus| {
            status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("Evicted")
        };
        if pod.status.as_ref().is_some_and(is_evicted) {
            self.deletions.remove_all(&uid_of(&pod));
        }
        trigger
    }

    /// Whether a pod has ended, or has less than before, as its status says.
    fn makes_room(&self, old: &Arc<Pod>, new: &Arc<Pod>) -> Option<Trigger> {
        if has_terminal_phase(new) && !has_terminal_phase(old) {
            return Some(Trigger::PodTerminated);
        }
        let [before, after] = [old, new].map(|pod| in_use(&self.resizes.allocated(pod)));
        let shrinks = |name| amount(&after, name) < amount(&before, name);
        (shrinks(MEMORY) || shrinks(CPU)).then_some(Trigger::PodResized)
    }

    /// Has the worker of a pod see it with its mirror; of a mirror, the one of its static pod.
    fn tell(&self, kind: UpdateKind, pod: Arc<Pod>) {
        let (pod, mirror) = match self.pods.paired(pod) {
            Paired::Pod { pod, mirror } => (pod, mirror),
            Paired::Mirror { pod: Some(pod), mirror } => (pod, Some(mirror)),
            Paired::Mirror { pod: None, .. } => return,
        };
        if self.held.has(&uid_of(&pod)) {
            return;
        }
        let pod = self.resizes.allocated(&pod);
        self.workers.update(Update::of(kind, pod, mirror));
    }

    fn sync(&self, uid: &Uid) {
        // Of pods that are gone much still happens.
        if let Some(pod) = self.pods.pod(uid) {
            self.tell(UpdateKind::Sync, pod);
        }
    }

    /// The PLEG noticed something.
    pub(super) fn pod_changed(&self, event: &PodLifecycleEvent) {
        // What is removed changes nothing of what the pod does.
        if !matches!(event.kind, EventKind::ContainerRemoved(_)) {
            self.sync(&event.pod);
        }
        if let EventKind::ContainerDied(container) = &event.kind {
            if self.workers.states().should_pod_content_be_removed(&event.pod) {
                self.deletions.remove_all(&event.pod);
            } else {
                self.deletions.container_died(&event.pod, container);
            }
        }
    }

    /// A probe found something else than before.
    pub(super) fn probed(&self, update: &ProbeUpdate) {
        let (uid, container) = (update.pod.to_string(), update.container.to_string());
        let success = update.result == ProbeResult::Success;
        match update.kind {
            ProbeKind::Liveness if update.result != ProbeResult::Failure => return,
            ProbeKind::Liveness => {}
            ProbeKind::Readiness => self.status.set_container_readiness(&uid, &container, success),
            ProbeKind::Startup => self.status.set_container_startup(&uid, &container, success),
        }
        tracing::debug!(uid, container, kind = ?update.kind, result = ?update.result, "SyncLoop (probe)");
        self.sync(&update.pod);
    }

    /// Pods whose time has come, and those whose deadline has passed.
    pub(super) fn sync_due(&self, now: Timestamp) {
        let due: HashSet<Uid> = self.workers.take_due().into_iter().collect();
        for pod in self.pods.pods() {
            if due.contains(&uid_of(&pod)) || self.is_past_deadline(&pod, now) {
                self.tell(UpdateKind::Sync, pod);
            }
        }
    }

    fn is_past_deadline(&self, pod: &Pod, now: Timestamp) -> bool {
        let limited = pod.spec.as_ref().is_some_and(|spec| spec.active_deadline_seconds.is_some());
        limited
            && !self.workers.states().is_pod_termination_requested(&uid_of(pod))
            && active_deadline::exceeded(pod, self.status_of(pod).as_ref(), now)
    }

    fn status_of(&self, pod: &Pod) -> Option<PodStatus> {
        self.status.get(pod.metadata.uid.as_deref().unwrap_or_default())
    }

    /// Whether a pod has, or is to have, a share of the node: it has not ended, and was not refused.
    pub(super) fn is_active(&self, pod: &Pod) -> bool {
        let (states, uid) = (self.workers.states(), uid_of(pod));
        if states.is_pod_known_terminated(&uid) {
            return false;
        }
        states.is_pod_termination_requested(&uid)
            || !(has_terminal_phase(pod)
                || self.status_of(pod).is_some_and(|status| is_terminal(status.phase.as_deref())))
    }

    /// Sees to it that the workers have the pods that are wanted, and those only. Says what else is to be removed.
    pub(super) fn housekeep(&self, on_node: OnNode, known_before: &HashSet<Uid>) -> CleanUp {
        let (workers, all) = (&self.workers, self.pods.all());
        let known: HashMap<_, _> = workers.sync_known_pods(&all.pods);
        let uids = all.pods.iter().chain(&all.mirrors).filter_map(|pod| pod.metadata.uid.clone());
        self.status.remove_orphaned(&uids.collect());
        let active: Vec<_> = all.pods.iter().filter(|pod| self.is_active(pod)).cloned().collect();
        let observed = Observed { all: &all, active: &active, known: &known, known_before, on_node };
        let plan = housekeeping::plan(observed, |name| workers.states().is_static_pod_terminating(name));
        let wanted: HashSet<Uid> = all.pods.iter().map(|pod| uid_of(pod)).collect();
        self.resizes.retain(|uid| wanted.contains(uid));
        self.agent.keep_only(&plan.possibly_running);
        let metrics = workers.metrics();
        metrics.count_pods(housekeeping::count(&all.pods), housekeeping::count(&active), all.mirrors.len());
        metrics.count_repairs(plan.restarted(), plan.kill.len());
        metrics.count_working(plan.working.values());
        for pod in plan.restart {
            tracing::debug!(pod = pod.metadata.name, "Pod is wanted again, and started");
            self.tell(UpdateKind::Create, pod);
        }
        for pod in plan.end {
            workers.update(Update::kill(pod));
        }
        for pod in plan.kill {
            tracing::info!(pod = pod.name, namespace = pod.namespace, uid = %pod.uid, "Pod that nobody wants is killed");
            workers.update(Update::kill_runtime_pod(pod));
        }
        plan.clean_up
    }
}
