//! What all pods are in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::known::Known;
use super::names::StaticNames;
use super::status::{Job, PodSyncStatus, Reaction, Removal};
use super::uid_of;
use super::update::Update;
use crate::interrupt::Interrupt;
use crate::pod_config::is_static_pod;
use crate::status_manager::PodDeletionSafety;

/// What the pod workers know of pods; a clone tells the same. It answers at once.
///
/// Before [`PodWorkers::sync_known_pods`](super::PodWorkers::sync_known_pods) was first called not all pods may be known:
/// until then an unknown one may have running containers, and nothing of it is to be removed. From then on an unknown pod has
/// nothing on this node.
#[derive(Debug, Clone, Default)]
pub struct States {
    table: Arc<Mutex<Table>>,
}

/// All pods, and who has a worker. Not held across an await.
#[derive(Debug, Default)]
pub(super) struct Table {
    pods: HashMap<Uid, Entry>,
    names: StaticNames,
    /// All pods that there are have been told of.
    synced: bool,
    workers: u64,
}

#[derive(Debug)]
struct Entry {
    status: PodSyncStatus,
    /// None once the pod is finished.
    worker: Option<Worker>,
}

/// The task that works for a pod, as the table knows it.
#[derive(Debug)]
struct Worker {
    /// Of two workers of one uid, one after the other, only the one with the entry's number may work.
    number: u64,
    wake: Arc<Notify>,
    /// Breaks off the sync under way.
    interrupt: Interrupt,
}

/// A worker that is to be started.
#[derive(Debug)]
pub(super) struct NewWorker {
    pub(super) pod: Uid,
    pub(super) full_name: String,
    pub(super) number: u64,
    pub(super) wake: Arc<Notify>,
}

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Begin {
    /// To wait until it is woken.
    Idle,
    /// Likewise, but the pod should be looked at again: another one has its name.
    NotYet,
    /// To end: the pod is forgotten, or has another worker.
    Over,
    /// To end: the pod was to terminate before it could start. The stamp is of the update that told it.
    NeverStarted(Option<Instant>),
    /// This, until it is interrupted.
    Job(Box<Job>, Interrupt),
}

impl States {
    /// Of no pods.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn table(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn ask(&self, pod: &Uid, known: impl Fn(&PodSyncStatus) -> bool, unknown: impl Fn(bool) -> bool) -> bool {
        let table = self.table.lock();
        table.pods.get(pod).map_or_else(|| unknown(table.synced), |entry| known(&entry.status))
    }

    /// Whether the pod is known, and nothing of it runs any more. For those who decide which pods are wanted.
    pub fn is_pod_known_terminated(&self, pod: &Uid) -> bool {
        self.ask(pod, PodSyncStatus::is_terminated, |_| false)
    }

    /// Whether containers of the pod may be running, or be started.
    pub fn could_have_running_containers(&self, pod: &Uid) -> bool {
        self.ask(pod, |status| !status.is_terminated(), |synced| !synced)
    }

    /// Whether all that the pod had on the node is gone.
    pub fn should_pod_be_finished(&self, pod: &Uid) -> bool {
        self.ask(pod, PodSyncStatus::is_finished, |synced| synced)
    }

    /// Whether the pod is known and was told to terminate. It may still be starting containers. For those who sync it.
    pub fn is_pod_termination_requested(&self, pod: &Uid) -> bool {
        self.ask(pod, PodSyncStatus::is_termination_requested, |_| false)
    }

    /// Whether no container of the pod will be started any more: nothing need be set up for it.
    pub fn should_pod_containers_be_terminating(&self, pod: &Uid) -> bool {
        self.ask(pod, PodSyncStatus::is_termination_started, |synced| synced)
    }

    /// Whether what only running containers need can be taken away, for instance mounts.
    pub fn should_pod_runtime_be_removed(&self, pod: &Uid) -> bool {
        self.ask(pod, PodSyncStatus::is_terminated, |synced| synced)
    }

    /// Whether all that the pod has on the node can be taken away, logs and ended containers too.
    pub fn should_pod_content_be_removed(&self, pod: &Uid) -> bool {
        let removable =
            |status: &PodSyncStatus| status.is_evicted() || (status.is_deleted() && status.is_terminated());
        self.ask(pod, removable, |synced| synced)
    }

    /// The pods that are known.
    pub fn known(&self) -> HashSet<Uid> {
        self.table.lock().pods.keys().cloned().collect()
    }

    /// Whether a static pod of that name has started and is terminating, but has not ended: its mirror must stay.
    pub fn is_static_pod_terminating(&self, full_name: &str) -> bool {
        let table = self.table.lock();
        let status = table.names.started(full_name).and_then(|pod| table.pods.get(pod));
        status.is_some_and(|entry| entry.status.is_termination_requested() && !entry.status.is_terminated())
    }
}

impl PodDeletionSafety for States {
    fn could_have_running_containers(&self, pod: &Pod) -> bool {
        Self::could_have_running_containers(self, &uid_of(pod))
    }
}

impl Table {
    /// Takes an update in, and says which worker is to be started for it. `ended` says that the pod's phase is terminal and
    /// that the runtime has nothing of it that runs.
    pub(super) fn update(&mut self, update: Update, ended: bool) -> Option<NewWorker> {
        let (pod, full_name) = (update.target.uid(), update.target.full_name());
        let is_static = update.target.pod().is_some_and(|pod| is_static_pod(pod));
        let first = !self.pods.contains_key(&pod);
        let status = || match ended {
            true => PodSyncStatus::ended_before(full_name.clone()),
            false => PodSyncStatus::new(full_name.clone()),
        };
        let entry = self.pods.entry(pod.clone()).or_insert_with(|| Entry { status: status(), worker: None });
        let reaction = entry.status.update(update, first);
        if reaction == Reaction::Ignored {
            if first {
                self.pods.remove(&pod);
            }
            return None;
        }
        let Some(worker) = &entry.worker else {
            let (wake, interrupt) = (Arc::<Notify>::default(), Interrupt::new());
            self.workers += 1;
            let number = self.workers;
            entry.worker = Some(Worker { number, wake: wake.clone(), interrupt });
            if is_static {
                self.names.wait(&full_name, pod.clone());
            }
            return Some(NewWorker { pod, full_name, number, wake });
        };
        worker.wake.notify_one();
        if reaction == Reaction::Interrupt {
            worker.interrupt.interrupt();
        }
        None
    }

    /// What the pod's worker of that number is to do now.
    pub(super) fn begin(&mut self, pod: &Uid, number: u64) -> Begin {
        let Some(entry) = self.worked(pod, number) else { return Begin::Over };
        if entry.status.wants_to_start().is_some_and(|pod| is_static_pod(pod)) {
            if entry.status.is_termination_requested() {
                let since = entry.status.never_started();
                self.end_worker(pod);
                return Begin::NeverStarted(since);
            }
            let name = self.pods[pod].status.full_name();
            let may_start = |other: &Uid| {
                self.pods.get(other).is_some_and(|other| !other.status.is_termination_requested())
            };
            if !self.names.take(name, pod, may_start) {
                return Begin::NotYet;
            }
        }
        let Some(Entry { status, worker: Some(worker) }) = self.pods.get_mut(pod) else { return Begin::Over };
        let Some(job) = status.begin() else { return Begin::Idle };
        worker.interrupt = Interrupt::new();
        Begin::Job(Box::new(job), worker.interrupt.clone())
    }

    /// The pod's containers ended for good.
    pub(super) fn complete_sync(&mut self, pod: &Uid, number: u64) {
        if let Some(entry) = self.worked(pod, number) {
            entry.status.complete_sync();
        }
    }

    /// Nothing of the pod runs any more.
    pub(super) fn complete_terminating(&mut self, pod: &Uid, number: u64) {
        if let Some(entry) = self.worked(pod, number) {
            entry.status.complete_terminating();
        }
    }

    /// Nothing runs any more of a pod that only the runtime knew: it is forgotten.
    pub(super) fn complete_terminating_runtime(&mut self, pod: &Uid, number: u64) {
        if let Some(entry) = self.worked(pod, number) {
            entry.status.complete_terminating();
            self.forget(pod);
        }
    }

    /// Nothing is left to do for the pod.
    pub(super) fn complete_terminated(&mut self, pod: &Uid, number: u64) {
        if let Some(entry) = self.worked(pod, number) {
            entry.status.complete_terminated();
            self.end_worker(pod);
        }
    }

    /// These are all pods that sources have. Forgets finished pods that none of them has, or that are wanted again, and sees
    /// to the end of others that none has. Says what is known of the pods that are left.
    pub(super) fn sync_known_pods(&mut self, desired: &[Arc<Pod>]) -> HashMap<Uid, Known> {
        self.synced = true;
        let desired: HashSet<Uid> = desired.iter().map(|pod| uid_of(pod)).collect();
        let mut known = HashMap::with_capacity(self.pods.len());
        let mut forgotten = Vec::new();
        for (pod, entry) in &mut self.pods {
            let (orphan, status) = (!desired.contains(pod), &mut entry.status);
            if orphan || status.is_restart_requested() {
                match status.remove(orphan) {
                    Removal::Forget => {
                        forgotten.push(pod.clone());
                        continue;
                    }
                    Removal::Keep => {}
                    Removal::Wake => {
                        if let Some(worker) = &entry.worker {
                            worker.wake.notify_one();
                        }
                    }
                }
            }
            let (lifecycle, config) = (entry.status.lifecycle(), entry.status.config());
            known.insert(pod.clone(), Known { lifecycle, orphan, config });
        }
        for pod in forgotten {
            self.forget(&pod);
        }
        known
    }

    /// The pod, if the worker of that number still is its.
    fn worked(&mut self, pod: &Uid, number: u64) -> Option<&mut Entry> {
        self.pods.get_mut(pod).filter(|entry| entry.worker.as_ref().is_some_and(|own| own.number == number))
    }

    fn forget(&mut self, pod: &Uid) {
        self.end_worker(pod);
        if let Some(entry) = self.pods.remove(pod) {
            self.names.forget(entry.status.full_name(), pod);
        }
    }

    /// Takes the pod's worker away, and lets others have its name.
    fn end_worker(&mut self, pod: &Uid) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        if let Some(worker) = entry.worker.take() {
            worker.interrupt.interrupt();
            worker.wake.notify_one();
        }
        for next in self.names.release(entry.status.full_name(), pod) {
            if let Some(worker) = self.pods.get(&next).and_then(|entry| entry.worker.as_ref()) {
                worker.wake.notify_one();
            }
        }
    }
}
