//! What is wrong with the node, and what follows. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use super::agent::{CleanUp, OnNode};
use crate::container::RuntimePod;
use crate::pod_config::annotations::full_name;
use crate::pod_config::is_static_pod;
use crate::pod_manager::AllPods;
use crate::pod_workers::status::has_terminal_phase;
use crate::pod_workers::{Counts, Known, KnownConfig, Lifecycle, uid_of};

/// All that is known when a housekeeping decides.
pub(super) struct Observed<'a> {
    /// What sources want.
    pub(super) all: &'a AllPods,
    /// Those of the pods that have not ended.
    pub(super) active: &'a [Arc<Pod>],
    /// The pods that have a worker, after those that ended were forgotten.
    pub(super) known: &'a HashMap<Uid, Known>,
    /// Those that had one when the node was looked at.
    pub(super) known_before: &'a HashSet<Uid>,
    /// What there is on the node.
    pub(super) on_node: OnNode,
}

/// What a housekeeping does.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Pods that are wanted and have no worker: the worker of their uid ended, and they came again.
    pub(super) restart: Vec<Arc<Pod>>,
    /// Pods that are to be deleted and never had a worker, for instance refused ones.
    pub(super) end: Vec<Arc<Pod>>,
    /// Pods that run and that nobody wants.
    pub(super) kill: Vec<RuntimePod>,
    /// What is to be removed.
    pub(super) clean_up: CleanUp,
    /// The pods of which something may run, or soon will.
    pub(super) possibly_running: HashSet<Uid>,
    /// The pods that have a worker once all this is done.
    pub(super) working: HashMap<Uid, Known>,
}

impl Plan {
    /// How many pods start over.
    pub(super) fn restarted(&self) -> Counts {
        count(&self.restart)
    }
}

/// How many of the pods are static.
pub(super) fn count(pods: &[Arc<Pod>]) -> Counts {
    let statics = pods.iter().filter(|pod| is_static_pod(pod)).count();
    Counts { regular: pods.len() - statics, statics }
}

/// Decides. `ends` says whether a static pod of that full name is still ending.
pub(super) fn plan(observed: Observed<'_>, ends: impl Fn(&str) -> bool) -> Plan {
    let Observed { all, active, known, known_before, on_node } = observed;
    let mut plan = Plan { working: known.clone(), ..Plan::default() };
    for pod in active {
        let (uid, of_static) = (uid_of(pod), is_static_pod(pod));
        plan.working.entry(uid).or_insert_with(|| {
            plan.restart.push(pod.clone());
            let config = if of_static { KnownConfig::Static } else { KnownConfig::Regular };
            Known { lifecycle: Lifecycle::Sync, orphan: false, config }
        });
    }
    let running: HashSet<&Uid> = on_node.running.iter().map(|pod| &pod.uid).collect();
    for pod in &all.pods {
        let uid = uid_of(pod);
        let ends = pod.metadata.deletion_timestamp.is_some() && has_terminal_phase(pod);
        if ends && !plan.working.contains_key(&uid) && !running.contains(&uid) {
            plan.end.push(pod.clone());
        }
    }
    for pod in &on_node.running {
        // A pod whose worker was done between the look at the node and now does not run any more.
        if plan.working.contains_key(&pod.uid) || known_before.contains(&pod.uid) {
            continue;
        }
        plan.kill.push(pod.clone());
        let known = Known { lifecycle: Lifecycle::Terminating, orphan: true, config: KnownConfig::None };
        plan.working.insert(pod.uid.clone(), known);
    }
    let may_run = plan.working.iter().filter(|(_, known)| known.lifecycle != Lifecycle::Terminated);
    plan.possibly_running = may_run.map(|(uid, _)| uid.clone()).collect();
    let mut wanted: HashSet<Uid> = all.pods.iter().map(|pod| uid_of(pod)).collect();
    wanted.extend(plan.working.keys().cloned());
    wanted.extend(running.into_iter().cloned());
    plan.clean_up = CleanUp {
        cgroups: on_node.cgroups.iter().filter(|uid| !plan.possibly_running.contains(uid)).cloned().collect(),
        folders: on_node.folders.iter().filter(|uid| !wanted.contains(uid)).cloned().collect(),
        mirrors: all.orphaned_mirrors.iter().filter(|mirror| !ends(&full_name(mirror))).cloned().collect(),
    };
    plan
}
