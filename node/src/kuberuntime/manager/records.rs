//! What is remembered of pods besides what the runtime tells. Lost with the process, and no harm done by it.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use parking_lot::Mutex;
use steersman_api::Uid;

use crate::container::{ContainerId, PodStatus};
use crate::kuberuntime::actions::PostStart;
use crate::kuberuntime::actions::resize::ActuatedResources;

/// The records of all pods. The lock is held for a moment only.
#[derive(Debug, Default)]
pub(super) struct Records(Mutex<HashMap<Uid, Record>>);

/// The record of one pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Hooks after the start that run, or failed in containers that still run.
    pub(super) post_start: HashMap<ContainerId, PostStart>,
    /// The resources that its containers were last given.
    pub(super) actuated: ActuatedResources,
}

impl Records {
    /// What is known of a pod now; hooks of containers that no longer run are forgotten.
    pub(super) fn of(&self, status: &PodStatus) -> Record {
        let mut all = self.0.lock();
        let Some(record) = all.get_mut(&status.uid) else { return Record::default() };
        record.post_start.retain(|id, hook| {
            // One that runs may be of a container younger than the status.
            *hook == PostStart::Running || status.running().any(|container| container.id == *id)
        });
        record.clone()
    }

    /// A container's hook begins.
    pub(super) fn begin_post_start(&self, pod: &Uid, container: &ContainerId) {
        self.change(pod, |record| record.post_start.insert(container.clone(), PostStart::Running));
    }

    /// Forgets the hooks of containers that are stopped with their pod: what becomes of them matters to nobody any more.
    pub(super) fn abandon_post_start(&self, pod: &Uid, containers: &[(ContainerId, String)]) {
        if let Some(record) = self.0.lock().get_mut(pod) {
            record.post_start.retain(|id, _| !containers.iter().any(|(stopped, _)| stopped == id));
        }
    }

    /// Notes where a container's hook has got to after it ran; none where it is done. Says whether that still matters: the
    /// container was not stopped meanwhile, nor the pod forgotten.
    pub(super) fn end_post_start(&self, pod: &Uid, container: &ContainerId, hook: Option<PostStart>) -> bool {
        let mut all = self.0.lock();
        let Some(record) = all.get_mut(pod).filter(|record| record.post_start.contains_key(container)) else {
            return false;
        };
        match hook {
            Some(hook) => record.post_start.insert(container.clone(), hook),
            None => record.post_start.remove(container),
        };
        true
    }

    /// Notes what a container was given.
    pub(super) fn set_actuated(&self, pod: &Uid, container: &str, resources: ResourceRequirements) {
        self.change(pod, |record| record.actuated.containers.insert(container.to_owned(), resources));
    }

    /// Notes what the pod as a whole was given.
    pub(super) fn set_actuated_pod(&self, pod: &Pod) {
        let resources = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
        self.change(&uid(pod), |record| record.actuated.pod = resources);
    }

    /// What a container was last given.
    pub(super) fn actuated(&self, pod: &Uid, container: &str) -> Option<ResourceRequirements> {
        self.0.lock().get(pod)?.actuated.containers.get(container).cloned()
    }

    pub(super) fn forget(&self, pod: &Uid) {
        self.0.lock().remove(pod);
    }

    /// Forgets the pods that `gone` says are.
    pub(super) fn forget_where(&self, gone: impl Fn(&Uid) -> bool) {
        self.0.lock().retain(|pod, _| !gone(pod));
    }

    fn change<T>(&self, pod: &Uid, change: impl FnOnce(&mut Record) -> T) {
        change(self.0.lock().entry(pod.clone()).or_default());
    }
}

/// The pod's uid.
pub(super) fn uid(pod: &Pod) -> Uid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}
