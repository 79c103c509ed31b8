//! A pod's way towards its spec, stage by stage.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, Secret};
use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::Kuberuntime;
use super::kill::Kill;
use super::kill_pod::{RunningPod, kill_error};
use super::records::uid;
use super::sandbox::Sandbox;
use super::spec::of_ephemeral;
use super::start::{Kind, Start};
use crate::container::{ContainerId, PodStatus};
use crate::events::{EventType, pod_reference};
use crate::interrupt::Interrupt;
use crate::kuberuntime::actions::{KillReason, Observations, PodActions, compute_pod_actions};
use crate::kuberuntime::prune::{init_containers_to_prune, init_containers_to_purge};
use crate::kuberuntime::sync_result::{PodSyncResult, SyncAction, SyncError};
use crate::pod_text::pod_text;
use crate::probes::Results;
use crate::restart_policy::is_restartable_init_container;

/// What a sync of a pod goes by besides its spec and what the runtime tells.
#[derive(Clone, Copy, Debug)]
pub struct SyncInputs<'a> {
    /// What liveness probes found.
    pub liveness: &'a Results,
    /// What startup probes found.
    pub startup: &'a Results,
    /// The secrets that images may be pulled with.
    pub pull_secrets: &'a [Secret],
    /// Whether all containers are to start over: the pod's status has the condition `AllContainersRestarting`.
    pub restart_all_containers: bool,
    /// Breaks off the sync, though not in the middle of a call that makes or starts something.
    pub interrupt: &'a Interrupt,
}

impl Kuberuntime {
    /// Takes a pod towards its spec: stops what must go, makes its sandbox, starts its containers. `pod` is as admitted:
    /// the resources in it are those that it was allocated.
    ///
    /// The result has every step that was tried. Failures were told the user already, by an event, and for containers by
    /// reason and message to be put into their waiting states. After a step `ResizePodInPlace` the pod should be inspected
    /// anew, as no event comes of it.
    pub async fn sync_pod(&self, pod: &Pod, status: &PodStatus, inputs: &SyncInputs<'_>) -> PodSyncResult {
        self.adopt_running(pod, status).await;
        let observed = self.observe(status, inputs);
        let actions = compute_pod_actions(pod, status, &observed);
        debug!(pod = pod_text(pod), ?actions, "what the pod needs done");
        if actions.create_sandbox && actions.sandbox_id.is_some() {
            self.events.event(
                &pod_reference(pod),
                EventType::Normal,
                "SandboxChanged",
                "Pod sandbox changed, it will be killed and re-created.",
            );
        }
        let mut result = PodSyncResult::default();
        if self.clear_away(pod, status, &actions, &mut result).await.is_err() {
            return result;
        }
        if actions.kill_pod && !actions.create_sandbox {
            // Nothing starts in a pod that has run its course.
            return result;
        }
        self.remove_init_containers(pod, init_containers_to_prune(pod, status)).await;
        if let Some(sandbox) = self.sandbox_for(pod, status, inputs, &actions, &mut result).await {
            self.start_containers(pod, status, inputs, &actions, &sandbox, &mut result).await;
        }
        result
    }

    fn observe(&self, status: &PodStatus, inputs: &SyncInputs<'_>) -> Observations {
        let record = self.records.of(status);
        let found = |results: &Results| {
            let ids = status.containers.iter().map(|container| &container.id);
            ids.filter_map(|id| Some((id.clone(), results.get(id)?))).collect()
        };
        Observations {
            liveness: found(inputs.liveness),
            startup: found(inputs.startup),
            post_start: record.post_start,
            actuated: record.actuated,
            restart_all_containers: inputs.restart_all_containers,
        }
    }

    /// Stops and removes what must go. Fails where something could not be stopped: nothing may be started then.
    async fn clear_away(
        &self,
        pod: &Pod,
        status: &PodStatus,
        actions: &PodActions,
        result: &mut PodSyncResult,
    ) -> Result<(), ()> {
        if actions.kill_pod {
            let killed = self.kill_pod(pod, &RunningPod::from(status), None).await;
            let all_stopped = killed.is_ok();
            result.steps.extend(killed.steps);
            if !all_stopped {
                return Err(());
            }
            if actions.create_sandbox {
                self.remove_init_containers(pod, init_containers_to_purge(pod, status)).await;
            }
            return Ok(());
        }
        let kills = actions
            .containers_to_kill
            .iter()
            .map(|(id, kill)| self.kill_one(pod, id, &kill.name, &kill.message, kill.reason, None));
        for (killed, kill) in join_all(kills).await.into_iter().zip(actions.containers_to_kill.values()) {
            result.push(SyncAction::KillContainer, &kill.name, killed.map_err(kill_error));
        }
        if !result.is_ok() {
            return Err(());
        }
        for reset in &actions.containers_to_reset {
            let name = reset.spec.of(pod).map(|container| container.name.clone()).unwrap_or_default();
            let removed = async {
                if reset.kill {
                    let reason = KillReason::RestartAllContainers;
                    let killed = self.kill_one(pod, &reset.id, &name, "killing", reason, Some(0)).await;
                    killed.map_err(kill_error)?;
                }
                let removed = self.remove_container_keeping_logs(&reset.id.id).await;
                removed.map_err(|error| SyncError::new("RemoveContainerError", error))
            };
            result.push(SyncAction::RemoveContainer, &name, removed.await);
            if !result.is_ok() {
                return Err(());
            }
        }
        Ok(())
    }

    async fn kill_one(
        &self,
        pod: &Pod,
        id: &ContainerId,
        name: &str,
        message: &str,
        reason: KillReason,
        grace_override: Option<i64>,
    ) -> Result<(), String> {
        let kill = Kill { pod: Some(pod), id, name, message, reason, grace_override, turns: None };
        self.killer.kill(kill).await
    }

    /// Removes init containers; one that stays is met again at the next sync, and by garbage collection.
    async fn remove_init_containers(&self, pod: &Pod, ids: Vec<ContainerId>) {
        let removed = join_all(ids.iter().map(|id| self.remove_container(&id.id))).await;
        for (removed, id) in removed.into_iter().zip(&ids) {
            if let Err(error) = removed {
                error!(pod = pod_text(pod), container = %id, error, "failed to remove pod init container");
            }
        }
    }

    /// The sandbox that containers are started in: the one there is, or a new one. None where nothing is to be started, or
    /// the sandbox is not to be had, which is in the result.
    async fn sandbox_for(
        &self,
        pod: &Pod,
        status: &PodStatus,
        inputs: &SyncInputs<'_>,
        actions: &PodActions,
        result: &mut PodSyncResult,
    ) -> Option<Sandbox> {
        let starts = [
            &actions.ephemeral_containers_to_start,
            &actions.init_containers_to_start,
            &actions.containers_to_start,
        ];
        let made = if actions.create_sandbox {
            let made = self.create_sandbox(pod, actions.attempt, inputs.interrupt).await;
            let ended = made.as_ref().map(|_| ()).map_err(Clone::clone);
            result.push(SyncAction::CreatePodSandbox, pod_text(pod), ended);
            made
        } else if starts.iter().any(|start| !start.is_empty()) || needs_resize(actions) {
            let id = actions.sandbox_id.clone()?;
            let config = self.sandbox_config(pod, actions.attempt).await;
            config.map(|config| Sandbox { id, config, ips: status.ips.clone() }).map_err(|error| {
                let message = format!("GeneratePodSandboxConfig for pod {:?} failed: {error}", pod_text(pod));
                let error = SyncError::new("ConfigPodSandboxError", message);
                result.failed(SyncAction::ConfigPodSandbox, pod_text(pod), error.clone());
                error
            })
        } else {
            return None;
        };
        made.ok()
    }

    async fn start_containers(
        &self,
        pod: &Pod,
        status: &PodStatus,
        inputs: &SyncInputs<'_>,
        actions: &PodActions,
        sandbox: &Sandbox,
        result: &mut PodSyncResult,
    ) {
        let Some(spec) = &pod.spec else { return };
        let SyncInputs { pull_secrets, interrupt, .. } = *inputs;
        let start = Start { pod, status, sandbox, pull_secrets, interrupt };
        let ephemeral = spec.ephemeral_containers.as_deref().unwrap_or_default();
        for container in picked(ephemeral, &actions.ephemeral_containers_to_start) {
            let target = container.target_container_name.as_deref().filter(|name| !name.is_empty());
            // One that does not start holds up nobody.
            let _ = self.start(&start, Kind::Ephemeral { target }, &of_ephemeral(container), result).await;
        }
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for container in picked(init, &actions.init_containers_to_start) {
            let started = self.start(&start, Kind::Init, container, result).await;
            if started.is_err() && !is_restartable_init_container(container) {
                return;
            }
        }
        if needs_resize(actions) {
            let began = Instant::now();
            let resized = self.resize(pod, status, sandbox, actions).await;
            let took = began.elapsed().as_secs_f64() * 1000.0;
            let success = if resized.is_ok() { "true" } else { "false" };
            // Whole milliseconds, as upstream.
            self.metrics.resize.with_label_values(&[success]).observe(took.floor());
            if let Err(error) = &resized {
                warn!(pod = pod_text(pod), error, "the pod's resources could not be changed");
            }
            let resized = resized.map_err(|error| SyncError::new("ResizePodInPlaceError", error));
            result.push(SyncAction::ResizePodInPlace, pod_text(pod), resized);
        }
        for container in picked(&spec.containers, &actions.containers_to_start) {
            let _ = self.start(&start, Kind::Regular, container, result).await;
        }
    }

    /// Takes containers that an agent before this one started for given what their spec asks for, as far as the runtime says
    /// nothing else; so that a change of the spec since then is met.
    async fn adopt_running(&self, pod: &Pod, status: &PodStatus) {
        let (uid, mut adopted) = (uid(pod), false);
        for container in status.running() {
            if self.records.actuated(&uid, &container.name).is_some() {
                continue;
            }
            if let Some(given) = self.given(pod, container) {
                self.records.set_actuated(&uid, &container.name, given);
                self.records.set_actuated_pod(pod);
                adopted = true;
            }
        }
        if adopted && let Err(error) = self.records.save().await {
            // The next change is written with it.
            warn!(pod = pod_text(pod), %error, "what the pod was given could not be written down");
        }
    }
}

fn needs_resize(actions: &PodActions) -> bool {
    let update = &actions.containers_to_update;
    !update.cpu.is_empty()
        || !update.memory.is_empty()
        || actions.update_pod_resources
        || actions.update_pod_level_resources
}

/// Those at these indexes.
fn picked<'a, T>(list: &'a [T], indexes: &'a [usize]) -> impl Iterator<Item = &'a T> {
    indexes.iter().filter_map(|index| list.get(*index))
}
