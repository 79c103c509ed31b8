//! What is remembered of pods besides what the runtime tells: hooks that run, lost with the process, and no harm done by it;
//! and what containers were given, which is on disk.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use parking_lot::Mutex;
use steersman_api::Uid;

use super::off_thread;
use crate::allocation::{PodResources, Store};
use crate::container::{ContainerId, PodStatus};
use crate::kuberuntime::actions::PostStart;

/// The records of all pods. The lock is held for a moment only.
#[derive(Debug)]
pub(super) struct Records {
    post_start: Mutex<HashMap<Uid, Hooks>>,
    actuated: Arc<Store>,
}

/// Hooks after the start that run, or failed in containers that still run.
type Hooks = HashMap<ContainerId, PostStart>;

/// The record of one pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) post_start: Hooks,
    /// The resources that the pod and its containers were last given.
    pub(super) actuated: PodResources,
}

impl Records {
    /// Over what was given before.
    pub(super) fn new(actuated: Store) -> Self {
        Self { post_start: Mutex::default(), actuated: Arc::new(actuated) }
    }

    /// What is known of a pod now; hooks of containers that no longer run are forgotten.
    pub(super) fn of(&self, status: &PodStatus) -> Record {
        let mut all = self.post_start.lock();
        let hooks = all.get_mut(&status.uid).map(|hooks| {
            hooks.retain(|id, hook| {
                // One that runs may be of a container younger than the status.
                *hook == PostStart::Running || status.running().any(|container| container.id == *id)
            });
            hooks.clone()
        });
        Record { post_start: hooks.unwrap_or_default(), actuated: self.given(&status.uid) }
    }

    /// A container's hook begins.
    pub(super) fn begin_post_start(&self, pod: &Uid, container: &ContainerId) {
        let mut all = self.post_start.lock();
        all.entry(pod.clone()).or_default().insert(container.clone(), PostStart::Running);
    }

    /// Forgets the hooks of containers that are stopped with their pod: what becomes of them matters to nobody any more.
    pub(super) fn abandon_post_start(&self, pod: &Uid, containers: &[(ContainerId, String)]) {
        if let Some(hooks) = self.post_start.lock().get_mut(pod) {
            hooks.retain(|id, _| !containers.iter().any(|(stopped, _)| stopped == id));
        }
    }

    /// Notes where a container's hook has got to after it ran; none where it is done. Says whether that still matters: the
    /// container was not stopped meanwhile, nor the pod forgotten.
    pub(super) fn end_post_start(&self, pod: &Uid, container: &ContainerId, hook: Option<PostStart>) -> bool {
        let mut all = self.post_start.lock();
        let Some(hooks) = all.get_mut(pod).filter(|hooks| hooks.contains_key(container)) else {
            return false;
        };
        match hook {
            Some(hook) => hooks.insert(container.clone(), hook),
            None => hooks.remove(container),
        };
        true
    }

    /// Notes what a container was given. [`save`](Self::save) before anything is done that nobody else remembers.
    pub(super) fn set_actuated(&self, pod: &Uid, container: &str, resources: ResourceRequirements) {
        self.actuated.change(pod, |actuated| {
            actuated.containers.insert(container.to_owned(), resources);
        });
    }

    /// Notes what the pod as a whole was given.
    pub(super) fn set_actuated_pod(&self, pod: &Pod) {
        let (uid, resources) = (uid(pod), pod.spec.as_ref().and_then(|spec| spec.resources.clone()));
        if self.given(&uid).pod != resources {
            self.actuated.change(&uid, |actuated| actuated.pod = resources);
        }
    }

    /// What a container was last given.
    pub(super) fn actuated(&self, pod: &Uid, container: &str) -> Option<ResourceRequirements> {
        self.given(pod).containers.remove(container)
    }

    /// What a pod and its containers were last given.
    pub(super) fn given(&self, pod: &Uid) -> PodResources {
        self.actuated.get(pod).unwrap_or_default()
    }

    /// Writes down what was given.
    pub(super) async fn save(&self) -> io::Result<()> {
        let actuated = Arc::clone(&self.actuated);
        off_thread(move || actuated.save()).await
    }

    pub(super) fn forget(&self, pod: &Uid) {
        self.post_start.lock().remove(pod);
        self.actuated.remove(pod);
    }

    /// Forgets the pods that `gone` says are.
    pub(super) fn forget_where(&self, gone: impl Fn(&Uid) -> bool) {
        self.post_start.lock().retain(|pod, _| !gone(pod));
        self.actuated.retain(|pod| !gone(pod));
    }
}

/// The pod's uid.
pub(super) fn uid(pod: &Pod) -> Uid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}
