//! Pods and mirrors, by uid and by name. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use crate::pod_config::annotations::full_name;
use crate::pod_config::is_mirror_pod;
use crate::pod_workers::uid_of;

/// Pods and mirrors. Each name points to the pod that took it last.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) pods: HashMap<Uid, Arc<Pod>>,
    pub(super) mirrors: HashMap<Uid, Arc<Pod>>,
    pod_names: HashMap<String, Uid>,
    mirror_names: HashMap<String, Uid>,
    /// The uids of static pods by those of their mirrors. One stays as long as the mirror does: what is last told of a static pod
    /// goes to its mirror when the pod itself is gone already.
    translations: HashMap<Uid, Uid>,
}

/// Pods and mirrors as of one moment.
#[derive(Debug, Clone, Default)]
pub struct AllPods {
    /// Pods, without mirrors.
    pub pods: Vec<Arc<Pod>>,
    /// Mirrors.
    pub mirrors: Vec<Arc<Pod>>,
    /// Those of the mirrors that have no static pod.
    pub orphaned_mirrors: Vec<Arc<Pod>>,
}

/// A pod and its mirror.
#[derive(Debug, Clone)]
pub enum Paired {
    /// It was a pod that was asked for; with its mirror, if it has one.
    Pod {
        /// The pod.
        pod: Arc<Pod>,
        /// Its mirror.
        mirror: Option<Arc<Pod>>,
    },
    /// It was a mirror that was asked for; with its static pod, if there is one.
    Mirror {
        /// The static pod.
        pod: Option<Arc<Pod>>,
        /// The mirror.
        mirror: Arc<Pod>,
    },
}

impl Index {
    pub(super) fn set(&mut self, pod: Arc<Pod>) {
        let (uid, name) = (uid_of(&pod), full_name(&pod));
        if is_mirror_pod(&pod) {
            self.mirrors.insert(uid.clone(), pod);
            if let Some(static_pod) = self.pod_names.get(&name) {
                self.translations.insert(uid.clone(), static_pod.clone());
            }
            self.mirror_names.insert(name, uid);
        } else {
            self.pods.insert(uid.clone(), pod);
            if let Some(mirror) = self.mirror_names.get(&name) {
                self.translations.insert(mirror.clone(), uid.clone());
            }
            self.pod_names.insert(name, uid);
        }
    }

    pub(super) fn remove(&mut self, pod: &Pod) {
        let (uid, name) = (uid_of(pod), full_name(pod));
        let (by_uid, by_name) = match is_mirror_pod(pod) {
            true => (&mut self.mirrors, &mut self.mirror_names),
            false => (&mut self.pods, &mut self.pod_names),
        };
        by_uid.remove(&uid);
        // Pods are no keys here.
        self.translations.remove(&uid);
        // Another may have taken the name: a new pod is told of before the old one is removed.
        if by_name.get(&name) == Some(&uid) {
            by_name.remove(&name);
        }
    }

    pub(super) fn by_full_name(&self, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(self.pod_names.get(name)?).cloned()
    }

    pub(super) fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>> {
        self.mirrors.get(self.mirror_names.get(&full_name(pod))?).cloned()
    }

    pub(super) fn static_pod_of(&self, mirror: &Uid) -> Option<Uid> {
        self.translations.get(mirror).cloned()
    }

    pub(super) fn mirror_uid_of(&self, static_pod: &Uid) -> Option<Uid> {
        let mut mirrors = self.translations.iter().filter(|(_, pod)| *pod == static_pod);
        mirrors.next().map(|(mirror, _)| mirror.clone())
    }

    pub(super) fn paired(&self, pod: Arc<Pod>) -> Paired {
        if is_mirror_pod(&pod) {
            return Paired::Mirror { pod: self.by_full_name(&full_name(&pod)), mirror: pod };
        }
        Paired::Pod { mirror: self.mirror_of(&pod), pod }
    }

    pub(super) fn all(&self) -> AllPods {
        let has_pod = |mirror: &Pod| self.pod_names.contains_key(&full_name(mirror));
        let mirrors = self.mirrors.values();
        AllPods {
            pods: self.pods.values().cloned().collect(),
            mirrors: mirrors.clone().cloned().collect(),
            orphaned_mirrors: mirrors.filter(|mirror| !has_pod(mirror)).cloned().collect(),
        }
    }
}
