//! Which keys a change of a job or a pod concerns.

use std::sync::Weak;
use std::time::Duration;

use steersman_api::{Meta, ObjectKey, OwnerReference};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, View};

use super::metrics::Metrics;
use super::orphans::{OrphanKey, Owning};
use super::pods::{self, TRACKING_FINALIZER};
use super::{SyncedJob, TrackedPod};
use steersman_controller::children::Children;
use steersman_kinds::job::{JobSpec, JobStatus};
use steersman_kinds::pod::Phase;

/// Turns changes into keys of the two queues.
///
/// A job is synced at once when its spec changes. Changes of pods, and the echoes of the controller's own writes, come in
/// crowds: the mapping waits for `batch_period`, so that one sync serves many of them. It wakes a key that waits for such a
/// change at once.
pub(super) struct Mapping {
    /// Weak, since the informers hold the mapping, and the children hold the informers.
    pub(super) children: Weak<Children<SyncedJob>>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) orphans: WorkQueue<OrphanKey>,
    pub(super) metrics: Metrics,
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
                    self.look_for_orphans_soon(new.meta());
                    // So that the controller forgets the job.
                    self.queue.add(key.clone());
                } else if old.meta().generation == new.meta().generation {
                    self.soon(key);
                } else {
                    self.queue.add(key.clone());
                }
            }
            Change::Deleted { last } => {
                self.queue.add(key.clone());
                if last.get::<JobStatus>().is_finished() {
                    self.look_for_orphans_soon(last.meta());
                } else {
                    self.orphans.add(pods_of(last.meta()));
                }
            }
            Change::Resync { .. } => self.soon(key),
        }
    }

    pub(super) fn pod_changed(&self, change: &Change<TrackedPod>) {
        let Some(children) = self.children.upgrade() else { return };
        self.count_tracked(change);
        let matters = match change {
            Change::Updated { old, new } => pods::matters(old, new),
            Change::Added { .. } | Change::Deleted { .. } | Change::Resync { .. } => true,
        };
        children.child_changed(change, &|job| {
            if !matters {
                // The change may still be the one that a sync waits to see.
                self.queue.wake(job);
            } else if is_unfinished(&children, job) {
                self.soon(job);
            }
        });
        match change {
            Change::Added { object: pod, .. }
            | Change::Resync { object: pod }
            | Change::Updated { new: pod, .. } => {
                self.check_finalizer(&children, pod);
            }
            Change::Deleted { .. } => {}
        }
    }

    fn soon(&self, job: &ObjectKey) {
        self.queue.wake(job);
        self.queue.add_after(job.clone(), self.batch_period);
    }

    /// Queues a pod with the finalizer if no sync of a job will remove the finalizer: the pod has no owner any more, its job has
    /// finished, or the cache lacks the job.
    fn check_finalizer(&self, children: &Children<SyncedJob>, pod: &View<TrackedPod>) {
        let meta = pod.meta();
        if !meta.has_finalizer(TRACKING_FINALIZER) {
            return;
        }
        let Some(owner) = meta.controller() else {
            return self.orphans.add(OrphanKey::Pod(meta.key.clone()));
        };
        let Some(key) = job_key(pod, owner) else { return };
        match children.owners().get(&key) {
            Ok(Some(job)) if job.meta().uid == owner.uid => {
                if Owning::of(job.get(), job.get()) == Owning::DoesNot {
                    self.look_for_orphans_soon(job.meta());
                }
            }
            Ok(_) => self.orphans.add(OrphanKey::Job(key, owner.uid.clone())),
            // The job can't be read, but it exists.
            Err(_) => {}
        }
    }

    /// Queues the pods of a job that has finished, after a delay. The controller has usually removed all finalizers itself by then,
    /// but the cache of pods may not show it yet: without the delay, the last pods' finalizers would be removed twice.
    fn look_for_orphans_soon(&self, job: &Meta) {
        self.orphans.add_after(pods_of(job), self.batch_period);
    }

    fn count_tracked(&self, change: &Change<TrackedPod>) {
        let (old, new) = match change {
            Change::Added { object, .. } => (None, Some(object)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Deleted { last } => (Some(last), None),
            Change::Resync { .. } => return,
        };
        match (old.is_some_and(is_tracked), new.is_some_and(is_tracked)) {
            (false, true) => self.metrics.tracking_began(),
            (true, false) => self.metrics.tracking_ended(),
            _ => {}
        }
    }
}

fn pods_of(job: &Meta) -> OrphanKey {
    OrphanKey::Job(job.key.clone(), job.uid.clone())
}

/// Whether the cache has a job that has not finished. One that can't be read counts as such: its syncs fail and say so.
fn is_unfinished(children: &Children<SyncedJob>, job: &ObjectKey) -> bool {
    children
        .owners()
        .get(job)
        .map_or(true, |job| job.is_some_and(|job| !job.get::<JobStatus>().is_finished()))
}

/// Whether a pod has finished and waits to be counted.
fn is_tracked(pod: &View<TrackedPod>) -> bool {
    pod.get::<Phase>().is_terminal() && pod.meta().has_finalizer(TRACKING_FINALIZER)
}

/// The key of the job that manages a pod. `None` if the managing owner is no job.
fn job_key(pod: &View<TrackedPod>, owner: &OwnerReference) -> Option<ObjectKey> {
    let is_job = owner.kind == "Job" && owner.group() == "batch";
    is_job.then(|| ObjectKey::new(pod.meta().key.namespace.clone(), owner.name.clone()))
}
