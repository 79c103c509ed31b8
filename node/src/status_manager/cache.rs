//! The newest status of each pod, and how much of it the API server has. Pure, but for the metrics it counts into.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::conditions::{
    ALL_CONTAINERS_RESTARTING, CONTAINERS_READY, DISRUPTION_TARGET, INITIALIZED, POD_SCHEDULED, READY,
    READY_TO_START_CONTAINERS, is_terminal,
};
use super::merge::set_transition_time;
use super::metrics::Metrics;
use super::normalize::{normalize, same_by_node};
use super::pods::Pods;
use super::statuses::Role;
use super::terminate::{IllegalTransition, check_transition};
use crate::pod_config::{is_mirror_pod, is_static_pod};

/// A pod's status and what goes with it.
#[derive(Debug, Clone)]
pub(super) struct Versioned {
    /// Grows with each change.
    pub(super) version: u64,
    pub(super) name: String,
    pub(super) namespace: String,
    /// Since when the API server has an older one; `None` if it has this one.
    pub(super) changed_at: Option<Instant>,
    /// It is the last: nothing of the pod is left on this node.
    pub(super) finished: bool,
    pub(super) status: PodStatus,
}

/// What an update means for its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// It counts if it changes something.
    Usual,
    /// It counts in any case: the pod is being deleted, and may be waiting for it.
    Forced,
    /// It counts in any case, and is the last.
    Last,
}

/// Statuses by uid. A static pod's stands under its own uid, not under its mirror's.
#[derive(Debug, Default)]
pub(super) struct Cache {
    statuses: HashMap<String, Versioned>,
    /// The versions that the API server has, by the uid that it knows: of static pods the mirror's.
    sent: HashMap<String, u64>,
}

/// A status that is to go to the API server.
#[derive(Debug, Clone)]
pub(super) struct Due {
    /// Of the pod.
    pub(super) uid: String,
    pub(super) status: Versioned,
}

impl Cache {
    pub(super) fn get(&self, uid: &str) -> Option<&Versioned> {
        self.statuses.get(uid)
    }

    /// Takes a status in, and says whether that changes anything. `basis` is what the status was before, for a pod that
    /// is not in the cache.
    pub(super) fn update(
        &mut self,
        pod: &Pod,
        basis: &PodStatus,
        mut status: PodStatus,
        update: Update,
        now: (Timestamp, Instant),
        metrics: &Metrics,
    ) -> Result<bool, IllegalTransition> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let cached = self.statuses.get(&uid);
        let old = cached.map_or(basis, |cached| &cached.status);
        if let Some(spec) = &pod.spec {
            check_transition(spec, old, &status)?;
        }
        let kinds = [
            CONTAINERS_READY,
            READY,
            INITIALIZED,
            READY_TO_START_CONTAINERS,
            POD_SCHEDULED,
            DISRUPTION_TARGET,
            ALL_CONTAINERS_RESTARTING,
        ];
        for kind in kinds {
            set_transition_time(&mut status, old, kind, now.0);
        }
        // A pod starts once.
        status.start_time = old.start_time.clone().or(status.start_time).or(Some(Time(now.0)));
        status.observed_generation = status.observed_generation.max(old.observed_generation);
        normalize(pod, &mut status);
        let none = Vec::new();
        for (role, old, new) in [
            (Role::Init, &old.init_container_statuses, &status.init_container_statuses),
            (Role::Ordinary, &old.container_statuses, &status.container_statuses),
            (Role::Ephemeral, &old.ephemeral_container_statuses, &status.ephemeral_container_statuses),
        ] {
            metrics.count_ended(role, old.as_ref().unwrap_or(&none), new.as_ref().unwrap_or(&none));
        }
        if update == Update::Usual && cached.is_some_and(|cached| same_by_node(&cached.status, &status)) {
            return Ok(false);
        }
        // What was the last is followed by nothing, except of static pods, which may come back under their uid.
        let finished =
            update == Update::Last || (cached.is_some_and(|cached| cached.finished) && !is_static_pod(pod));
        let versioned = Versioned {
            version: cached.map_or(0, |cached| cached.version) + 1,
            name: pod.metadata.name.clone().unwrap_or_default(),
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            changed_at: cached.and_then(|cached| cached.changed_at).or(Some(now.1)),
            finished,
            status,
        };
        self.statuses.insert(uid, versioned);
        Ok(true)
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.statuses.remove(uid);
    }

    pub(super) fn retain(&mut self, uids: &HashSet<String>) {
        self.statuses.retain(|uid, _| uids.contains(uid));
    }

    /// The API server has this version. Says how long ago it was overdue for it.
    pub(super) fn sent(&mut self, uid: &str, api_uid: &str, version: u64) -> Option<Instant> {
        self.sent.insert(api_uid.to_owned(), version);
        let cached = self.statuses.get_mut(uid)?;
        if cached.version == version { cached.changed_at.take() } else { cached.changed_at }
    }

    /// Statuses that the API server has not got yet.
    pub(super) fn changed(&self, pods: &dyn Pods) -> Vec<Due> {
        let newer = |(api_uid, status): (String, &Versioned)| {
            self.sent.get(&api_uid).is_none_or(|sent| *sent < status.version)
        };
        let due = self
            .statuses
            .iter()
            .filter(|(uid, status)| self.api_uid(uid, pods).is_some_and(|api_uid| newer((api_uid, status))));
        due.map(|(uid, status)| Due { uid: uid.clone(), status: status.clone() }).collect()
    }

    /// Those, the ones that somebody else changed, and those of pods that only wait to be deleted. Forgets versions of
    /// pods that are gone.
    pub(super) fn changed_or_overwritten(&mut self, pods: &dyn Pods) -> Vec<Due> {
        let Self { statuses, sent } = &mut *self;
        sent.retain(|api_uid, _| statuses.contains_key(api_uid) || pods.static_pod_of(api_uid).is_some());
        let mut due = Vec::new();
        let uids: Vec<_> = self.statuses.keys().cloned().collect();
        for uid in uids {
            let Some(api_uid) = self.api_uid(&uid, pods) else { continue };
            let status = self.statuses[&uid].clone();
            let behind = self.sent.get(&api_uid).is_none_or(|sent| *sent < status.version);
            let ended = || pods.by_uid(&api_uid).is_some_and(|pod| may_be_deleted(&pod, status.finished));
            if !behind && !ended() {
                if !needs_reconcile(&uid, &status.status, pods) {
                    continue;
                }
                // Until it is set right, the API server has nothing of ours.
                self.sent.remove(&api_uid);
            }
            due.push(Due { uid, status });
        }
        due
    }

    /// The uid under which the API server knows a pod; `None` for a static pod without a mirror.
    fn api_uid(&self, uid: &str, pods: &dyn Pods) -> Option<String> {
        match pods.by_uid(uid) {
            Some(pod) if is_static_pod(&pod) => pods.mirror_of(&pod)?.metadata.uid.clone(),
            Some(_) => Some(uid.to_owned()),
            // A static pod that was removed, or another pod.
            None => pods.mirror_uid_of(uid).or_else(|| Some(uid.to_owned())),
        }
    }
}

/// Whether a pod, as the API server has it, has nothing to wait for: it is to be deleted, its end was written, and nothing
/// of it is left here. Mirrors are deleted otherwise.
pub(super) fn may_be_deleted(pod: &Pod, finished: bool) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && !is_mirror_pod(pod)
        && is_terminal(pod.status.as_ref().and_then(|status| status.phase.as_deref()))
        && finished
}

/// Whether the API server's status, as its source last told, is another than ours.
fn needs_reconcile(uid: &str, status: &PodStatus, pods: &dyn Pods) -> bool {
    let Some(pod) = pods.by_uid(uid) else { return false };
    let pod = if is_static_pod(&pod) {
        let Some(mirror) = pods.mirror_of(&pod) else { return false };
        mirror
    } else {
        pod
    };
    let mut theirs = pod.status.clone().unwrap_or_default();
    normalize(&pod, &mut theirs);
    !same_by_node(&theirs, status)
}
