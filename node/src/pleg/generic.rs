//! The comparison of lists: what happened, and what is to be inspected.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use steersman_api::Uid;
use tokio::time::Instant;
use tracing::debug;

use super::RuntimeError;
use super::cache::{StatusCache, StatusReader};
use super::event::{EventKind, PodLifecycleEvent, pod_events};
use crate::container::{PodStatus, RuntimePod, SandboxState};

/// What was last seen of every pod, compared with what is seen now.
///
/// A change counts as seen only when the pod has been inspected: if that fails, the next list shows the change again. While a
/// pod is inspected, lists do not look at it, however long it takes; it is to be listed again afterwards.
#[derive(Debug)]
pub struct Generic {
    cache: StatusCache,
    records: HashMap<Uid, Record>,
    /// Pods to inspect though no list shows a change. Those the runtime does not know are dropped at each list.
    reinspect: HashSet<Uid>,
}

#[derive(Debug)]
struct Record {
    /// The pod as of its last good inspection; none before the first.
    old: Option<Arc<RuntimePod>>,
    /// When the newest list began that was compared with it.
    listed_at: Instant,
    /// Whether an inspection is under way. Then the pod is held in the cache.
    inspecting: bool,
    /// Whether a list that began later came in meanwhile, and was not looked at.
    missed_list: bool,
}

/// A pod to inspect, and then to hand to [`Generic::inspected`], whatever came of it.
#[derive(Debug)]
#[must_use]
pub struct Inspection {
    /// The pod as listed.
    pub pod: Arc<RuntimePod>,
    /// When that list began.
    listed_at: Instant,
    /// What it shows.
    events: Vec<EventKind>,
}

/// What a list shows.
#[derive(Debug, Default)]
pub struct Listed {
    /// What happened to pods that are gone.
    pub events: Vec<PodLifecycleEvent>,
    /// The pods to inspect.
    pub inspections: Vec<Inspection>,
}

impl Generic {
    /// One that has seen nothing and writes what it learns to `cache`.
    pub fn new(cache: StatusCache) -> Self {
        Self { cache, records: HashMap::new(), reinspect: HashSet::new() }
    }

    /// A reader of the statuses.
    pub fn reader(&self) -> StatusReader {
        self.cache.reader()
    }

    /// Has the pod inspected at the next list that shows it, changed or not.
    pub fn reinspect(&mut self, pod: Uid) {
        self.reinspect.insert(pod);
    }

    /// Takes in a list of all pods that began at `began`.
    pub fn listed(&mut self, pods: Vec<RuntimePod>, began: Instant) -> Listed {
        let mut listed = Listed::default();
        let there: HashSet<Uid> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for pod in pods {
            self.reconcile(&pod.uid.clone(), Some(pod), began, &mut listed);
        }
        let gone: Vec<Uid> = self.records.keys().filter(|pod| !there.contains(*pod)).cloned().collect();
        for pod in gone {
            self.reconcile(&pod, None, began, &mut listed);
        }
        let records = &self.records;
        self.reinspect.retain(|pod| records.contains_key(pod));
        self.cache.observed_all(began);
        listed
    }

    /// Takes in a list of one pod that began at `began`.
    pub fn listed_one(&mut self, uid: &Uid, pod: Option<RuntimePod>, began: Instant) -> Listed {
        let mut listed = Listed::default();
        self.reconcile(uid, pod, began, &mut listed);
        self.cache.observed(uid, began);
        listed
    }

    /// Compares one pod with its record.
    fn reconcile(&mut self, uid: &Uid, pod: Option<RuntimePod>, began: Instant, listed: &mut Listed) {
        let mut record = self.records.get_mut(uid);
        if let Some(record) = record.as_mut().filter(|record| record.inspecting) {
            record.missed_list |= began > record.listed_at;
            return;
        }
        if record.as_ref().is_some_and(|record| record.listed_at > began) {
            return;
        }
        let old = record.as_ref().and_then(|record| record.old.as_deref());
        let events = pod_events(old, pod.as_ref());
        let reinspect = self.reinspect.remove(uid);
        match pod {
            None if record.is_none() => {}
            None => {
                self.records.remove(uid);
                self.cache.delete(uid);
                listed.events.extend(self.sent(uid, events));
            }
            Some(pod) if events.is_empty() && !reinspect => {
                // A pod of which nothing is listed any more, or not yet.
                let record = self.records.entry(pod.uid).or_insert_with(|| Record::new(began));
                record.listed_at = began;
            }
            Some(pod) => {
                let record = self.records.entry(uid.clone()).or_insert_with(|| Record::new(began));
                record.listed_at = began;
                record.inspecting = true;
                self.cache.hold(uid);
                listed.inspections.push(Inspection { pod: Arc::new(pod), listed_at: began, events });
            }
        }
    }

    /// Takes in what came of an inspection; gives the events to send.
    pub fn inspected(
        &mut self,
        inspection: Inspection,
        result: Result<PodStatus, RuntimeError>,
    ) -> Vec<PodLifecycleEvent> {
        let Inspection { pod, listed_at, events } = inspection;
        let uid = pod.uid.clone();
        let record = self.records.get_mut(&uid).expect("a pod under inspection must have a record");
        record.inspecting = false;
        match result {
            Err(error) => {
                debug!(pod = %uid, %error, "inspecting a pod failed, it is tried again at the next relist");
                self.cache.set(&uid, Err(error), listed_at);
                self.reinspect.insert(uid);
                Vec::new()
            }
            Ok(mut status) => {
                record.old = Some(pod);
                self.keep_ips(&uid, &mut status);
                self.cache.set(&uid, Ok(status), listed_at);
                self.sent(&uid, events)
            }
        }
    }

    /// Whether a pod that was inspected is to be listed again, since a list that may have shown more came in meanwhile: what
    /// happened to it then would be seen a period late. Asked once for each inspection, after it.
    pub fn take_missed_list(&mut self, pod: &Uid) -> bool {
        self.records.get_mut(pod).is_some_and(|record| mem::take(&mut record.missed_list))
    }

    /// Keeps the addresses of a pod whose sandboxes are all down: its network was taken apart before it was inspected, but the
    /// API goes on showing them.
    fn keep_ips(&self, uid: &Uid, status: &mut PodStatus) {
        let ready = status.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        if !status.ips.is_empty() || ready {
            return;
        }
        if let Ok(old) = self.cache.reader().get(uid) {
            status.ips.clone_from(&old.ips);
        }
    }

    /// The events as they are sent: none that tells nothing sure, and at least a request to sync after an inspection that no
    /// change asked for.
    fn sent(&self, uid: &Uid, mut events: Vec<EventKind>) -> Vec<PodLifecycleEvent> {
        if events.is_empty() {
            events.push(EventKind::PodSync);
        }
        let sure = events.into_iter().filter(|event| !matches!(event, EventKind::ContainerChanged(_)));
        sure.map(|kind| PodLifecycleEvent { pod: uid.clone(), kind }).collect()
    }
}

impl Record {
    fn new(listed_at: Instant) -> Self {
        Self { old: None, listed_at, inspecting: false, missed_list: false }
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Pods as lists show them.

    use jiff::Timestamp;

    use super::*;
    use crate::container::{ContainerId, ContainerState, RuntimeContainer, RuntimeSandbox};

    /// A pod of these containers.
    pub(in crate::pleg) fn pod(uid: &str, containers: &[(&str, ContainerState)]) -> RuntimePod {
        let container = |&(id, state): &(&str, _)| RuntimeContainer {
            id: ContainerId::new("test", id),
            name: id.into(),
            image: String::new(),
            image_id: String::new(),
            hash: 0,
            state,
            sandbox_id: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        RuntimePod {
            uid: Uid::from(uid),
            name: uid.into(),
            namespace: "ns".into(),
            containers: containers.iter().map(container).collect(),
            sandboxes: Vec::new(),
        }
    }

    /// That pod with a sandbox more.
    pub(in crate::pleg) fn with_sandbox(mut pod: RuntimePod, id: &str, state: SandboxState) -> RuntimePod {
        pod.sandboxes.push(RuntimeSandbox { id: id.into(), state, created_at: Timestamp::UNIX_EPOCH });
        pod
    }
}

#[cfg(test)]
mod tests;
