//! What becomes of what comes in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use steersman_api::Uid;

use super::active_deadline;
use super::agent::{Admission, CleanUp, OnNode, Rejection};
use super::held::MakeRoom;
use super::housekeeping::{self, Observed};
use super::run::Parts;
use crate::events::{EventType, pod_reference};
use crate::kuberuntime::actions::ProbeResult;
use crate::pleg::{EventKind, PodLifecycleEvent};
use crate::pod_config::{PodOperation, PodUpdate, Source};
use crate::pod_manager::Paired;
use crate::pod_workers::status::has_terminal_phase;
use crate::pod_workers::{Update, UpdateKind, uid_of};
use crate::probes::{ProbeKind, ProbeUpdate};
use crate::resources::qos_class;
use crate::status_manager::conditions::{is_terminal, needs_readiness_reconciled};

impl Parts {
    /// A source said something. `all_heard` says whether all sources have spoken by now. Says whose room is to be made.
    pub(super) fn config_changed(&self, update: PodUpdate, all_heard: bool) -> Option<MakeRoom> {
        let PodUpdate { pods, op, source } = update;
        tracing::debug!(%source, ?op, pods = pods.len(), "SyncLoop");
        if source == Source::Api {
            for pod in &pods {
                self.follow_start(pod, op);
            }
        }
        match op {
            PodOperation::Add => return self.add(pods),
            // One that is deleted has its grace: it changed, and its worker ends it.
            PodOperation::Update | PodOperation::Delete => {
                for pod in pods {
                    self.pods.set(pod.clone());
                    self.tell(UpdateKind::Update, pod);
                }
            }
            PodOperation::Remove => pods.into_iter().for_each(|pod| self.remove(pod, all_heard)),
            PodOperation::Reconcile => pods.into_iter().for_each(|pod| self.reconcile(pod)),
        }
        None
    }

    fn follow_start(&self, pod: &Pod, op: PodOperation) {
        match op {
            PodOperation::Remove => self.startup.forget(pod.metadata.uid.as_deref().unwrap_or_default()),
            _ => self.startup.observed(pod, Timestamp::now()),
        }
    }

    /// The oldest first: they keep their place when all pods are told of anew.
    fn add(&self, mut pods: Vec<Arc<Pod>>) -> Option<MakeRoom> {
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|created| created.0));
        let mut room = None;
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
        room
    }

    /// Starts a pod, or refuses it. One that others must make room for is held.
    fn begin(&self, pod: Arc<Pod>) -> Option<MakeRoom> {
        match self.admit(&pod) {
            Ok(Admission::Now) => self.tell(UpdateKind::Create, pod),
            Ok(Admission::After(preemption)) => {
                self.held.push_first(&pod);
                return Some(MakeRoom { pod, preemption });
            }
            Err(rejection) => self.reject(&pod, rejection),
        }
        None
    }

    /// The first of the held pods has room now. It starts; and so do the others, up to one that needs room made.
    pub(super) fn room_made(&self) -> Option<MakeRoom> {
        // One that went meanwhile needs nothing.
        if let Some(pod) = self.held.pop().and_then(|uid| self.pods.pod(&uid)) {
            self.tell(UpdateKind::Create, pod);
        }
        while let Some(uid) = self.held.pop() {
            let room = self.pods.pod(&uid).and_then(|pod| self.begin(pod));
            if room.is_some() {
                return room;
            }
        }
        None
    }

    /// A pod that ends, or has ended, takes nothing that it does not have already.
    fn admit(&self, pod: &Arc<Pod>) -> Result<Admission, Rejection> {
        let uid = uid_of(pod);
        if self.workers.states().is_pod_termination_requested(&uid) || has_terminal_phase(pod) {
            return Ok(Admission::Now);
        }
        let mut others = self.pods.pods();
        others.retain(|other| {
            let of = uid_of(other);
            of != uid && self.is_active(other) && !self.held.has(&of)
        });
        self.agent.admit(pod, &others)
    }

    fn reject(&self, pod: &Pod, rejection: Rejection) {
        let Rejection { reason, message } = rejection;
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
        match self.pods.paired(pod) {
            Paired::Mirror { pod: None, .. } => {}
            // Its worker makes the mirror anew.
            Paired::Mirror { pod: Some(pod), .. } => self.tell(UpdateKind::Update, pod),
            Paired::Pod { pod, .. } if all_heard => self.workers.update(Update::kill(pod)),
            // Another source may have it; housekeeping ends it, once all were heard.
            Paired::Pod { pod, .. } => tracing::debug!(pod = pod.metadata.name, "Pod is not killed yet"),
        }
    }

    /// Only the pod's status changed, by somebody else.
    fn reconcile(&self, pod: Arc<Pod>) {
        self.pods.set(pod.clone());
        let (Paired::Pod { pod, .. } | Paired::Mirror { pod: Some(pod), .. }) = self.pods.paired(pod) else {
            return;
        };
        if needs_readiness_reconciled(&pod) {
            self.tell(UpdateKind::Sync, pod.clone());
        }
        let is_evicted = |status: &PodStatus| {
            status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("Evicted")
        };
        if pod.status.as_ref().is_some_and(is_evicted) {
            self.deletions.remove_all(&uid_of(&pod));
        }
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
