//! The kubelet's four syncs: what a pod's worker has done to its pod.
//!
//! Each is a script of a dozen steps, in upstream's order; the parts that do the work decide for themselves. The next sync
//! goes on with what an interrupted one left half done.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self as api, Pod};
use tokio::task::spawn_blocking;

use super::inspect::inspect_now;
use super::observe;
use super::parts::Parts;
use super::unenforced;
use crate::cgroups::{PodCgroups, remove_patiently};
use crate::container::{ContainerResources, PodStatus, RuntimePod};
use crate::downward::one_of_each_family;
use crate::events::{EventType, pod_reference};
use crate::interrupt::Interrupt;
use crate::kuberuntime::manager::{RunningPod, SyncInputs};
use crate::kuberuntime::sync_result::{PodSyncResult, SyncAction};
use crate::node_info::NodeInfo;
use crate::pod_config::is_static_pod;
use crate::pod_config::mirror::{self, MirrorPlan};
use crate::pod_workers::{PodSyncer, SyncFailure, Synced, Termination, uid_of};
use crate::probes::ProbeKind;
use crate::resources::qos_class;
use crate::restart_policy::{RestartOfAll, runs_once};
use crate::status_manager::conditions::{ALL_CONTAINERS_RESTARTING, is_terminal, is_true};
use crate::status_manager::phase::Stage;
use crate::status_manager::{Eviction, Observed, generate};
use crate::sync_loop::active_deadline;

/// Carries pods from their start to their end with the parts of one node.
pub(super) struct Syncer {
    parts: Arc<Parts>,
}

impl Syncer {
    /// With these parts.
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    fn warn(&self, pod: &Pod, reason: &'static str, message: &str) {
        self.parts.events.event(&pod_reference(pod), EventType::Warning, reason, message);
    }

    /// The pod's status as the runtime has it now.
    async fn api_status(&self, pod: &Arc<Pod>, status: &PodStatus, stage: Stage) -> api::PodStatus {
        let parts = &self.parts;
        let uid = uid_of(pod);
        let known = parts.statuses.get(&uid.to_string());
        let old = known.or_else(|| pod.status.clone()).unwrap_or_default();
        let host_ips = if parts.on_api_server { parts.node.host_ips() } else { Vec::new() };
        if stage == Stage::Ended {
            parts.resizes.ended(&uid);
        }
        let observed = Observed {
            pod,
            old: &old,
            containers: &observe::containers(status),
            failures: &parts.failures.of(&uid),
            sandbox: observe::sandbox(pod, status),
            initialized: observe::initialized(pod, status),
            stage,
            restart_of_all: RestartOfAll::of(pod, status, &old),
            pod_ips: &one_of_each_family(&status.ips, parts.ip_family),
            host_ips: &host_ips,
            qos_class: qos_class(pod).as_str(),
            eviction: self.eviction(pod, &old),
            given: self.given(pod).await,
            resize: &parts.resizes.conditions(&uid),
        };
        generate(&observed, &|role, container| parts.probes.update_container_status(pod, role, container))
    }

    /// What the cgroup of a pod has that the API server knows to run.
    async fn given(&self, pod: &Arc<Pod>) -> ContainerResources {
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Running") {
            return ContainerResources::default();
        }
        let asked = Arc::clone(pod);
        self.with_cgroups(move |cgroups| Ok(cgroups.given(&asked))).await.unwrap_or_default()
    }

    /// Why the pod is to end, if it has been active for longer than it may. Asked for each status, so that how its containers
    /// end then makes no difference.
    fn eviction(&self, pod: &Pod, newest: &api::PodStatus) -> Option<Eviction> {
        let told = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if is_terminal(told) || !active_deadline::exceeded(pod, Some(newest), Timestamp::now()) {
            return None;
        }
        let eviction = Eviction { reason: active_deadline::REASON, message: active_deadline::MESSAGE };
        self.parts.events.event(&pod_reference(pod), EventType::Normal, eviction.reason, eviction.message);
        Some(eviction)
    }

    /// Makes the pod's cgroup, where pods have one, and keeps its limits true; those of a pod that is being resized change
    /// with its containers.
    ///
    /// A pod whose containers run outside of it (it was begun under other settings) is stopped first, to start again inside.
    async fn ensure_cgroup(
        &self,
        pod: &Arc<Pod>,
        status: &PodStatus,
        running: bool,
        resizing: bool,
    ) -> Result<(), SyncFailure> {
        let asked = Arc::clone(pod);
        let there = self.with_cgroups(move |cgroups| Ok(cgroups.exists(&asked))).await.unwrap_or_default();
        let plan = plan_cgroup(running, there, resizing);
        if plan == CgroupPlan::Leave {
            return Ok(());
        }
        if plan == CgroupPlan::StopAndEnsure {
            let killed = self.parts.runtime.kill_pod(pod, &RunningPod::from(status), None).await;
            match SyncFailure::of(&killed) {
                None if pod.spec.as_ref().is_none_or(runs_once) => return Ok(()),
                None => {}
                Some(failure) => {
                    tracing::error!(%failure, "a pod outside of its cgroup could not be stopped")
                }
            }
        }
        let made = Arc::clone(pod);
        self.with_cgroups(move |cgroups| cgroups.ensure(&made)).await.map_err(|error| {
            let message = format!("unable to ensure pod container exists: {error}");
            self.warn(pod, "FailedCreatePodContainer", &message);
            let mut failure = SyncFailure::new(format!(
                "failed to ensure that the pod: {} cgroups exist and are correctly applied: {error}",
                uid_of(pod)
            ));
            failure.told = true;
            failure
        })
    }

    /// Works on cgroups where it holds up nobody.
    async fn with_cgroups<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn PodCgroups) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let cgroups = Arc::clone(&self.parts.cgroups);
        spawn_blocking(move || work(&*cgroups)).await.map_err(io::Error::other)?
    }

    /// Shows a static pod on the API server. What fails is tried again at the next sync.
    async fn reconcile_mirror(&self, pod: &Pod, mirror: Option<&Arc<Pod>>) {
        let Some(client) = self.parts.mirrors.as_ref().filter(|_| is_static_pod(pod)) else { return };
        let plan = mirror::plan(pod, mirror.map(|mirror| &**mirror));
        if plan == MirrorPlan::Keep {
            return;
        }
        let node = self.parts.node.node();
        let node_uid = node.as_ref().and_then(|node| node.metadata.uid.as_deref());
        if let Err(error) = client.carry_out(&plan, pod, node_uid).await {
            tracing::error!(%error, "a mirror pod could not be brought up to date");
        }
    }

    /// Mounts the pod's volumes.
    ///
    /// Volumes of kinds that this node does not support hold up a pod, unless it has containers: a kubelet before this agent
    /// mounted them then. Its containers are kept running, and started anew with the volumes as they have them mounted.
    async fn mount_volumes(&self, pod: &Arc<Pod>, status: &PodStatus) -> Result<(), SyncFailure> {
        let parts = &self.parts;
        let Err(mut error) = parts.volumes.mount(pod).await else { return Ok(()) };
        if error.is_unsupported() && status.active_containers().next().is_some() {
            let found = parts.runtime.mounts(status).await.unwrap_or_else(|unknown| {
                tracing::warn!(error = %unknown, "The runtime does not tell what the pod's containers have mounted");
                Vec::new()
            });
            if !parts.volumes.adopt(pod, &error.unsupported, &found) {
                return Ok(());
            }
            match parts.volumes.mount(pod).await {
                Err(other) if !other.is_unsupported() => error = other,
                _ => return Ok(()),
            }
        }
        Err(SyncFailure {
            // Its events are out.
            message: error.to_string(),
            retry_in: Some(error.retry_in),
            told: true,
        })
    }

    /// Makes the folders that every pod has.
    async fn make_folders(&self, pod: &Pod) -> Result<(), SyncFailure> {
        let (root, uid) = (self.parts.root.clone(), uid_of(pod));
        let made = spawn_blocking(move || {
            let mut folder = std::fs::DirBuilder::new();
            folder.recursive(true).mode(0o750);
            folder.create(root.pod_volumes(&uid))?;
            folder.create(root.pod_plugins(&uid))
        });
        made.await.map_err(io::Error::other).flatten().map_err(|error| {
            let message = format!("error making pod data directories: {error}");
            self.warn(pod, "Failed", &message);
            SyncFailure { told: true, ..SyncFailure::new(message) }
        })
    }
}

#[async_trait]
impl PodSyncer for Syncer {
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        mirror: Option<&Arc<Pod>>,
        status: &PodStatus,
        interrupt: &Interrupt,
    ) -> Result<Synced, SyncFailure> {
        let parts = &self.parts;
        let uid = uid_of(pod);
        let resizing = parts.runtime.is_resize_in_progress(pod, status);
        parts.resizes.observe(pod, resizing);
        let told = self.api_status(pod, status, Stage::Running).await;
        let phase = told.phase.clone();
        if is_terminal(phase.as_deref()) {
            parts.statuses.set(pod, told);
            return Ok(Synced::Ended);
        }
        let before = parts.statuses.get(&uid.to_string()).and_then(|status| status.phase);
        if phase.as_deref() == Some("Running") && before.as_deref() != Some("Running") {
            parts.worker_metrics.pod_runs(pod, Timestamp::now());
        }
        let running = told.container_statuses.iter().flatten();
        let running = running
            .into_iter()
            .any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()));
        let ips = told.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
        let restart_all = is_true(&told, ALL_CONTAINERS_RESTARTING);
        parts.statuses.set(pod, told);

        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
        if let Some(error) = parts.runtime_state.network_errors().filter(|_| !on_host) {
            self.warn(pod, "NetworkNotReady", &format!("network is not ready: {error}"));
            return Err(SyncFailure::network_not_ready(error));
        }
        parts.objects.register(pod);
        self.ensure_cgroup(pod, status, running, resizing).await?;
        self.reconcile_mirror(pod, mirror).await;
        self.make_folders(pod).await?;
        self.mount_volumes(pod, status).await?;
        let pull_secrets = parts.environment.pull_secrets(pod).await;
        parts.probes.add_pod(pod);

        // The addresses of a pod in the node's network are the node's.
        let status = PodStatus { ips, ..status.clone() };
        let inputs = SyncInputs {
            liveness: parts.probes.results(ProbeKind::Liveness),
            startup: parts.probes.results(ProbeKind::Startup),
            pull_secrets: &pull_secrets,
            restart_all_containers: restart_all,
            interrupt,
        };
        let result = parts.runtime.sync_pod(pod, &status, &inputs).await;
        parts.failures.update(&uid, &result);
        // Once in the life of most pods, also of those that outlive this process.
        let begins = result
            .steps
            .iter()
            .any(|step| step.action == SyncAction::CreatePodSandbox && step.error.is_none());
        if let Some(message) = begins.then(|| unenforced::message(pod)).flatten() {
            self.warn(pod, unenforced::REASON, &message);
        }
        for step in result.steps.iter().filter(|step| step.action == SyncAction::ResizePodInPlace) {
            if let Some(error) = &step.error {
                parts.resizes.failed(pod, &error.message);
            }
            // No list shows other resources; and of what failed a part may be done.
            parts.relists.request_reinspect(uid.clone());
        }
        conclude(&result, restart_all)
    }

    async fn sync_terminating_pod(
        &self,
        pod: &Arc<Pod>,
        status: &PodStatus,
        termination: &Termination,
    ) -> Result<(), SyncFailure> {
        let parts = &self.parts;
        let mut told = self.api_status(pod, status, Stage::Running).await;
        if let Some(change) = &termination.status {
            change.apply(&mut told);
        }
        parts.statuses.set(pod, told);
        parts.probes.stop_liveness_and_startup(pod);
        let killed = parts.runtime.kill_pod(pod, &RunningPod::from(status), termination.grace).await;
        if let Some(failure) = SyncFailure::of(&killed) {
            self.warn(pod, "FailedKillPod", &format!("error killing pod: {failure}"));
            return Err(SyncFailure::new(format!("error killing terminating pod: {failure}")));
        }
        parts.probes.remove_pod(pod);

        // How the containers ended must be told now: later they may be gone.
        let mut stopped = inspect_now(&*parts.runtime, &uid_of(pod), parts.inspect_timeout).await?;
        stopped.ips.clone_from(&status.ips);
        let left: Vec<String> = stopped.running().map(|container| container.id.to_string()).collect();
        if !left.is_empty() {
            let left = left.join(" ");
            return Err(SyncFailure::new(format!(
                "detected running containers after a successful KillPod, CRI violation: [{left}]"
            )));
        }
        let told = self.api_status(pod, &stopped, Stage::Ended).await;
        parts.statuses.set(pod, told);
        Ok(())
    }

    async fn sync_terminating_runtime_pod(&self, pod: &RuntimePod) -> Result<(), SyncFailure> {
        let (known, running) = (pod.to_api_pod(), RunningPod::from(pod));
        // Upstream's grace for what it knows nothing of.
        let killed = self.parts.runtime.kill_pod(&known, &running, Some(1)).await;
        let Some(failure) = SyncFailure::of(&killed) else { return Ok(()) };
        self.warn(&known, "FailedKillPod", &format!("error killing pod: {failure}"));
        Err(failure)
    }

    async fn sync_terminated_pod(&self, pod: &Arc<Pod>, status: &PodStatus) -> Result<(), SyncFailure> {
        let parts = &self.parts;
        let uid = uid_of(pod);
        let told = self.api_status(pod, status, Stage::Ended).await;
        parts.statuses.set(pod, told);
        parts.volumes.unmount(&uid).await.map_err(|error| SyncFailure::new(error.to_string()))?;
        parts.objects.unregister(pod);
        let removed = remove_patiently(&parts.cgroups, &uid).await;
        removed.map_err(|error| SyncFailure::new(format!("removing the pod's cgroup: {error}")))?;
        parts.runtime.forget(&uid);
        parts.failures.remove(&uid);
        parts.statuses.terminate(pod);
        parts.ended.notify_one();
        Ok(())
    }
}

/// What a sync of the runtime says of the pod.
fn conclude(result: &PodSyncResult, restarted_all: bool) -> Result<Synced, SyncFailure> {
    if let Some(failure) = SyncFailure::of(result) {
        return Err(failure);
    }
    if restarted_all && result.steps.iter().any(|step| step.action == SyncAction::RemoveContainer) {
        // Nothing that the PLEG tells would have them started again.
        let message = "all containers were removed to start over".to_owned();
        return Err(SyncFailure { message, retry_in: Some(Duration::ZERO), told: true });
    }
    Ok(if result.steps.is_empty() { Synced::GoesOn } else { Synced::Changed })
}

/// What is to be done for a pod's cgroup before anything else of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupPlan {
    /// Make it, or keep its limits true.
    Ensure,
    /// Stop the containers, which run outside of it, and then make it.
    StopAndEnsure,
    /// Nothing.
    Leave,
}

/// By whether containers run, the cgroup is there, and the pod is being resized: its limits shrink after its containers', if
/// what is in use allows it at all.
fn plan_cgroup(running: bool, there: bool, resizing: bool) -> CgroupPlan {
    match (there, running) {
        (true, _) if resizing => CgroupPlan::Leave,
        (false, true) => CgroupPlan::StopAndEnsure,
        _ => CgroupPlan::Ensure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_pod_that_is_resized_are_left_to_the_resize() {
        use CgroupPlan::{Ensure, Leave, StopAndEnsure};
        for (running, there, resizing, plan) in [
            (true, true, true, Leave),
            (false, true, true, Leave),
            (true, true, false, Ensure),
            (false, false, false, Ensure),
            (false, false, true, Ensure),
            (true, false, false, StopAndEnsure),
            (true, false, true, StopAndEnsure),
        ] {
            assert_eq!(plan_cgroup(running, there, resizing), plan, "{running} {there} {resizing}");
        }
    }
}
