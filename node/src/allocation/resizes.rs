//! Resizes on their way from what is wanted to what is allocated.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::time::Instant;

use super::conditions::{Conditions, Pending};
use super::metrics::Metrics;
use super::resources::{is_resized, operations};
use super::{PodResources, Store, messages, order};
use crate::admission::preemption::Preemption;
use crate::admission::{Admission, Rejection};
use crate::events::{EventType, Events, pod_reference};
use crate::pod_workers::uid_of;

/// From the moment that a resize begins to wait to the first time that it is looked at without cause.
const FIRST_RETRY: Duration = Duration::from_secs(30);
/// Between two such times.
const RETRY: Duration = Duration::from_secs(180);

/// Why resizes are looked at again; the label `retry_trigger` of upstream's metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Pods came.
    PodsAdded,
    /// A pod's spec changed.
    PodUpdated,
    /// Pods went.
    PodsRemoved,
    /// A pod ended.
    PodTerminated,
    /// A pod has less than before.
    PodResized,
    /// Time has passed.
    Periodic,
}

impl Trigger {
    fn as_str(self) -> &'static str {
        match self {
            Self::PodsAdded => "pods_added",
            Self::PodUpdated => "pod_updated",
            Self::PodsRemoved => "pods_removed",
            Self::PodTerminated => "pod_terminated",
            Self::PodResized => "pod_resized",
            Self::Periodic => "periodic_retry",
        }
    }
}

/// What pods were allocated, and which resizes wait; a clone is the same. The sync loop writes: it admits pods and looks at
/// resizes, one after the other. Pods' workers tell how far what was allocated is done.
#[derive(Clone)]
pub struct Resizes {
    shared: Arc<Shared>,
}

struct Shared {
    allocated: Store,
    state: Mutex<State>,
    events: Events,
    metrics: Metrics,
}

#[derive(Default)]
struct State {
    conditions: HashMap<Uid, Conditions>,
    /// Those that wait.
    pending: Vec<Uid>,
    /// When they are looked at without cause.
    due: Option<Instant>,
}

/// What came of a look at the resizes that wait.
#[derive(Debug, Default)]
pub struct Retried {
    /// The pods that are to be synced: what they have been allocated changed, or what is to be told of them.
    pub to_sync: Vec<Arc<Pod>>,
    /// A critical pod that may grow once others are gone, if the look came to one.
    pub needs_room: Option<(Arc<Pod>, Preemption)>,
}

/// What came of a look at one resize.
enum Considered {
    Allocated,
    /// Or there was nothing to allocate.
    Refused,
    NeedsRoom(Preemption),
}

impl Resizes {
    /// Over what was allocated before.
    pub fn new(allocated: Store, events: Events, metrics: Metrics) -> Self {
        Self { shared: Arc::new(Shared { allocated, state: Mutex::default(), events, metrics }) }
    }

    /// The pod with what it was allocated in the place of what its spec asks for.
    pub fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let allocated = self.shared.allocated.get(&uid_of(pod));
        allocated.and_then(|allocated| allocated.apply(pod)).map_or_else(|| Arc::clone(pod), Arc::new)
    }

    /// The pod was admitted with what its spec says. [`save`](Self::save) once all that came with it were.
    pub fn allocate(&self, pod: &Pod) {
        self.shared.allocated.set(&uid_of(pod), PodResources::of(pod));
    }

    /// Writes allocations to the disk. Blocks for as long as that takes.
    pub fn save(&self) {
        if let Err(error) = self.shared.allocated.save() {
            tracing::error!(%error, "Failed to save pod resource information checkpoint");
        }
    }

    /// Takes over what the API server says of a pod's resize, for a pod that was resized before this process began.
    pub fn backfill(&self, pod: &Pod) {
        let told = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let conditions = Conditions::of(told, Timestamp::now());
        if conditions != Conditions::default() {
            self.change(&uid_of(pod), |old| *old = conditions);
        }
    }

    /// Has a pod's resize wait until it is [looked at](Self::retry).
    pub fn push(&self, pod: &Uid) {
        let mut state = self.shared.state.lock();
        if state.pending.is_empty() {
            state.due = Some(Instant::now() + FIRST_RETRY);
        }
        if !state.pending.contains(pod) {
            state.pending.push(pod.clone());
        }
    }

    /// Whether resizes wait.
    pub fn has_pending(&self) -> bool {
        !self.shared.state.lock().pending.is_empty()
    }

    /// When resizes that wait are looked at even if nothing happens; `None` while none does.
    pub fn due(&self) -> Option<Instant> {
        let state = self.shared.state.lock();
        state.due.filter(|_| !state.pending.is_empty())
    }

    /// Resizes that wait were not looked at, since not all pods are known yet.
    pub fn put_off(&self) {
        self.shared.state.lock().due = Some(Instant::now() + FIRST_RETRY);
    }

    /// A pod's spec changed. Says whether a resize waits now that should be looked at.
    pub fn changed(&self, old: &Pod, new: &Arc<Pod>) -> bool {
        for labels in operations(old, new) {
            self.shared.metrics.requested(labels);
        }
        if !is_resized(old, new) {
            return false;
        }
        let waits = !Arc::ptr_eq(&self.allocated(new), new);
        if waits {
            self.push(&uid_of(new));
        } else {
            // It was taken back.
            self.change(&uid_of(new), |conditions| conditions.pending = None);
        }
        waits
    }

    /// Looks at the resizes that wait, in their order: allocates those that `admit` lets, and says of the others why not.
    /// `wanted` has the pods as their sources do; a resize of one that it has not is dropped. Stops at one for which others
    /// must go first; that one and those after it wait.
    pub fn retry(
        &self,
        trigger: Trigger,
        wanted: impl Fn(&Uid) -> Option<Arc<Pod>>,
        admit: impl Fn(&Arc<Pod>) -> Result<Admission, Rejection>,
    ) -> Retried {
        let waiting = {
            let mut state = self.shared.state.lock();
            state.due = Some(Instant::now() + RETRY);
            std::mem::take(&mut state.pending)
        };
        let mut pods: Vec<_> = waiting.iter().filter_map(wanted).collect();
        pods.sort_by_cached_key(|pod| {
            let conditions = self.of(&uid_of(pod));
            order::rank(pod, &self.allocated(pod), &conditions)
        });
        let mut retried = Retried::default();
        for pod in pods {
            let uid = uid_of(&pod);
            if retried.needs_room.is_some() {
                self.shared.state.lock().pending.push(uid);
                continue;
            }
            let before = self.of(&uid);
            let allocated = match self.consider(&pod, &admit) {
                Considered::Allocated => {
                    self.count_accepted(&before, trigger);
                    true
                }
                Considered::Refused => false,
                Considered::NeedsRoom(preemption) => {
                    self.shared.state.lock().pending.push(uid);
                    retried.needs_room = Some((pod, preemption));
                    continue;
                }
            };
            let after = self.of(&uid);
            if after.pending() == Some(Pending::Deferred) {
                self.shared.state.lock().pending.push(uid);
            }
            if allocated || before != after {
                retried.to_sync.push(pod);
            }
        }
        self.save();
        retried
    }

    /// Room was made for a resize: `pod`, as it was [looked at](Self::retry), is allocated what it asks for.
    pub fn grant(&self, pod: &Pod, trigger: Trigger) {
        let uid = uid_of(pod);
        self.waits_no_longer(&uid);
        let before = self.of(&uid);
        self.begin(pod);
        self.count_accepted(&before, trigger);
        self.save();
    }

    /// Looks at one resize.
    fn consider(
        &self,
        pod: &Arc<Pod>,
        admit: impl Fn(&Arc<Pod>) -> Result<Admission, Rejection>,
    ) -> Considered {
        let (uid, generation, now) = (uid_of(pod), pod.metadata.generation, Timestamp::now());
        if Arc::ptr_eq(&self.allocated(pod), pod) {
            self.change(&uid, |conditions| conditions.pending = None);
            return Considered::Refused;
        }
        let Rejection { reason, message, .. } = match admit(pod) {
            Ok(Admission::Now) => {
                self.begin(pod);
                return Considered::Allocated;
            }
            Ok(Admission::After(preemption)) => return Considered::NeedsRoom(preemption),
            Err(rejection) => rejection,
        };
        tracing::info!(pod = pod.metadata.name, reason, message, "Pod resize is not allocated");
        let why = Pending::of(&reason);
        let is_new = self.change(&uid, |conditions| conditions.set_pending(why, &message, generation, now));
        if is_new {
            // Upstream names what admission said, and not what the condition has.
            let what = format!("Pod resize {reason}");
            self.say(pod, EventType::Warning, why.event(), &what, generation, &message);
        }
        Considered::Refused
    }

    /// Allocates a pod what its spec asks for.
    fn begin(&self, pod: &Pod) {
        let generation = pod.metadata.generation;
        self.allocate(pod);
        self.change(&uid_of(pod), |conditions| conditions.allocated(generation, Timestamp::now()));
        self.say(pod, EventType::Normal, "ResizeStarted", messages::STARTED, generation, "");
    }

    /// A resize was allocated that had not fitted `before`, if so.
    fn count_accepted(&self, before: &Conditions, trigger: Trigger) {
        if before.pending() == Some(Pending::Deferred) {
            self.shared.metrics.accepted(trigger.as_str());
        }
    }

    /// Whether all that was allocated is done. `pod` is as allocated.
    pub fn observe(&self, pod: &Pod, in_progress: bool) {
        let (uid, generation) = (uid_of(pod), pod.metadata.generation);
        if in_progress {
            self.change(&uid, |conditions| conditions.goes_on(generation, Timestamp::now()));
        } else if let Some(done) = self.change(&uid, |conditions| conditions.in_progress.take()) {
            let generation = done.observed_generation;
            self.say(pod, EventType::Normal, "ResizeCompleted", messages::COMPLETED, generation, "");
        }
    }

    /// What was allocated could not be done; it is tried again.
    pub fn failed(&self, pod: &Pod, error: &str) {
        let (uid, generation, now) = (uid_of(pod), pod.metadata.generation, Timestamp::now());
        let failed = self.change(&uid, |conditions| conditions.failed(error, generation, now));
        if let Some(generation) = failed {
            self.say(pod, EventType::Warning, "ResizeError", messages::FAILED, generation, error);
        }
    }

    /// What a pod's status says of its resize.
    pub fn conditions(&self, pod: &Uid) -> Vec<PodCondition> {
        self.of(pod).list()
    }

    /// Nothing of the pod runs any more: its resize is not looked at, and nothing is to be said of it.
    pub fn ended(&self, pod: &Uid) {
        self.waits_no_longer(pod);
        self.change(pod, |conditions| *conditions = Conditions::default());
    }

    /// No source has the pod any more.
    pub fn forget(&self, pod: &Uid) {
        self.waits_no_longer(pod);
        self.shared.allocated.remove(pod);
    }

    /// Forgets all pods but those to keep.
    pub fn retain(&self, keep: impl Fn(&Uid) -> bool) {
        self.shared.allocated.retain(&keep);
        let mut state = self.shared.state.lock();
        let before = state.conditions.len();
        state.conditions.retain(|pod, _| keep(pod));
        if state.conditions.len() != before {
            self.measure(&state);
        }
    }

    fn waits_no_longer(&self, pod: &Uid) {
        self.shared.state.lock().pending.retain(|pending| pending != pod);
    }

    fn of(&self, pod: &Uid) -> Conditions {
        self.shared.state.lock().conditions.get(pod).cloned().unwrap_or_default()
    }

    /// Changes a pod's conditions; of a pod without any none are kept.
    fn change<T>(&self, pod: &Uid, change: impl FnOnce(&mut Conditions) -> T) -> T {
        let mut state = self.shared.state.lock();
        let mut conditions = state.conditions.remove(pod).unwrap_or_default();
        let had_some = conditions != Conditions::default();
        let changed = change(&mut conditions);
        let has_some = conditions != Conditions::default();
        if has_some {
            state.conditions.insert(pod.clone(), conditions);
        }
        if had_some || has_some {
            self.measure(&state);
        }
        changed
    }

    fn measure(&self, state: &State) {
        let count = |which: &dyn Fn(&Conditions) -> bool| {
            let found = state.conditions.values().filter(|conditions| which(conditions)).count();
            i64::try_from(found).unwrap_or(i64::MAX)
        };
        let waits = |why: Pending| count(&|conditions| conditions.pending() == Some(why));
        let pending: Vec<_> =
            [("deferred", waits(Pending::Deferred)), ("infeasible", waits(Pending::Infeasible))]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect();
        self.shared.metrics.set(&pending, count(&|conditions| conditions.in_progress.is_some()));
    }

    fn say(
        &self,
        pod: &Pod,
        kind: EventType,
        reason: &'static str,
        what: &str,
        generation: Option<i64>,
        error: &str,
    ) {
        let message = messages::message(what, pod, generation, error);
        self.shared.events.event(&pod_reference(pod), kind, reason, &message);
    }
}

impl std::fmt::Debug for Resizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resizes").field("pending", &self.shared.state.lock().pending).finish_non_exhaustive()
    }
}
