//! Which keys a change of a job or a pod concerns.

use std::time::Duration;

use steersman_api::{ObjectKey, OwnerReference};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Index, Lister, View};

use super::metrics::Metrics;
use super::orphans::OrphanKey;
use super::pods::TRACKING_FINALIZER;
use super::{SyncedJob, TrackedPod};
use steersman_kinds::job::{JobSpec, JobStatus};
use steersman_kinds::pod::Phase;

/// Turns changes into keys of the two queues.
///
/// What somebody asked of a job is acted on at once. What pods do, and what this controller's own writes bring back, is
/// gathered for a moment, since it comes in crowds; a key that waits for just that is woken.
pub(super) struct Mapping {
    pub(super) jobs: Lister<SyncedJob>,
    pub(super) jobs_of_namespace: Index<SyncedJob>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) orphans: WorkQueue<OrphanKey>,
    pub(super) metrics: Metrics,
    /// How long that moment is.
    pub(super) batch_period: Duration,
}

impl Mapping {
    pub(super) fn job_changed(&self, change: &Change<SyncedJob>) {
        let key = change.key();
        match change {
            Change::Added { object, .. } => {
                if let Some(controller) = object.get::<JobSpec>().managed_by_other() {
                    self.metrics.managed_by_other(controller);
                }
                self.queue.add(key.clone());
            }
            Change::Updated { old, new } => {
                if new.get::<JobStatus>().is_finished() {
                    self.look_for_orphans(new);
                    // To forget it.
                    self.queue.add(key.clone());
                } else if old.meta().generation == new.meta().generation {
                    self.soon(key);
                } else {
                    self.queue.add(key.clone());
                }
            }
            Change::Deleted { last } => {
                self.queue.add(key.clone());
                self.look_for_orphans(last);
            }
            Change::Resync { .. } => self.soon(key),
        }
    }

    pub(super) fn pod_changed(&self, change: &Change<TrackedPod>) {
        match change {
            Change::Added { object, .. } => {
                self.count_tracked(None, Some(object));
                self.pod_is_there(object);
            }
            Change::Updated { old, new } => {
                self.count_tracked(Some(old), Some(new));
                if new.meta().is_deleting() {
                    return self.owned(new);
                }
                let (before, now) = (old.meta().controller(), new.meta().controller());
                let changed = before != now;
                if let Some(owner) = before.filter(|_| changed) {
                    self.owner(old, owner);
                }
                match now {
                    Some(_) => self.owned(new),
                    None if changed || old.meta().labels != new.meta().labels => self.nobodys(new),
                    None => self.clean(new),
                }
            }
            Change::Deleted { last } => {
                self.count_tracked(Some(last), None);
                self.owned(last);
            }
            Change::Resync { object } => self.pod_is_there(object),
        }
    }

    /// A pod is seen for the first time, or again: what its changes would have led to must not be lost on one who was not
    /// told of them.
    fn pod_is_there(&self, pod: &View<TrackedPod>) {
        match pod.meta().controller() {
            None if !pod.meta().is_deleting() => self.nobodys(pod),
            _ => self.owned(pod),
        }
    }

    /// A pod of a job, or one that goes. If its job no longer cares, its finalizer is taken off all the same: the pod may have
    /// come, late, after the job was seen to go.
    fn owned(&self, pod: &View<TrackedPod>) {
        let Some(owner) = pod.meta().controller() else { return self.clean(pod) };
        let Some(key) = job_key(pod, owner) else { return };
        let cares = match self.jobs.get(&key) {
            Ok(Some(job)) => job.meta().uid == owner.uid && !job.get::<JobStatus>().is_finished(),
            Ok(None) => false,
            // It exists.
            Err(_) => true,
        };
        if cares {
            self.soon(&key);
        } else if pod.meta().has_finalizer(TRACKING_FINALIZER) {
            self.orphans.add(OrphanKey::Job(key, owner.uid.clone()));
        }
    }

    /// A pod belongs to nobody: whoever's selector means it may adopt it.
    fn nobodys(&self, pod: &View<TrackedPod>) {
        self.clean(pod);
        let meta = pod.meta();
        if meta.labels.is_empty() || meta.owners.iter().any(OwnerReference::is_controller) {
            return;
        }
        match self.jobs.by_index(&self.jobs_of_namespace, &meta.key.namespace.clone().into()) {
            Ok(jobs) => {
                for job in jobs {
                    let selector = job.get::<JobSpec>().selector.as_ref();
                    if selector.and_then(|s| s.to_selector().ok()).is_some_and(|s| s.matches(&meta.labels)) {
                        self.soon(&job.meta().key);
                    }
                }
            }
            // One of them can't be read, and the others must not suffer for it: all jobs of the namespace are synced.
            Err(_) => self.jobs.for_each_meta(|job| {
                if job.key.namespace == meta.key.namespace {
                    self.soon(&job.key);
                }
            }),
        }
    }

    fn owner(&self, pod: &View<TrackedPod>, owner: &OwnerReference) {
        if let Some(key) = job_key(pod, owner) {
            self.soon(&key);
        }
    }

    fn soon(&self, key: &ObjectKey) {
        self.queue.wake(key);
        self.queue.add_after(key.clone(), self.batch_period);
    }

    /// Takes the finalizer off a pod without an owner.
    fn clean(&self, pod: &View<TrackedPod>) {
        if pod.meta().has_finalizer(TRACKING_FINALIZER) {
            self.orphans.add(OrphanKey::Pod(pod.meta().key.clone()));
        }
    }

    /// Pods that lose their owner are not among these: each is cleaned as it is seen without one.
    fn look_for_orphans(&self, job: &View<SyncedJob>) {
        self.orphans.add(OrphanKey::Job(job.meta().key.clone(), job.meta().uid.clone()));
    }

    fn count_tracked(&self, old: Option<&View<TrackedPod>>, new: Option<&View<TrackedPod>>) {
        match (old.is_some_and(is_tracked), new.is_some_and(is_tracked)) {
            (false, true) => self.metrics.tracking_began(),
            (true, false) => self.metrics.tracking_ended(),
            _ => {}
        }
    }
}

/// Whether a pod has finished and waits to be counted.
fn is_tracked(pod: &View<TrackedPod>) -> bool {
    pod.get::<Phase>().is_terminal() && pod.meta().has_finalizer(TRACKING_FINALIZER)
}

/// The key of the job that manages a pod, if it is a job that does.
fn job_key(pod: &View<TrackedPod>, owner: &OwnerReference) -> Option<ObjectKey> {
    let is_job = owner.kind == "Job" && owner.group() == "batch";
    is_job.then(|| ObjectKey::new(pod.meta().key.namespace.clone(), owner.name.clone()))
}
