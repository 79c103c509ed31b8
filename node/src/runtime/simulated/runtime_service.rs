//! The runtime half of the simulation.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, Stream, TryStreamExt};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Instant, sleep, timeout as within};

use super::behaviour::SandboxBehaviour;
use super::container::Exit;
use super::state::{State, unknown};
use super::{NAME, SimulatedRuntime, pause, usage};
use crate::cri::v1;
use crate::runtime::{Code, ContainerEvents, Deadline, Error, Operation, Result, RuntimeService};

/// The names under which pods may ask for this runtime.
const HANDLERS: [&str; 2] = ["", NAME];

#[async_trait]
impl RuntimeService for SimulatedRuntime {
    async fn version(&self, api_version: &str) -> Result<v1::VersionResponse> {
        let answer = v1::VersionResponse {
            version: api_version.into(),
            runtime_name: NAME.into(),
            runtime_version: env!("CARGO_PKG_VERSION").into(),
            runtime_api_version: "v1".into(),
        };
        self.call(Operation::Version, Deadline::Default, Vec::new(), async { Ok(answer) }).await
    }

    async fn status(&self) -> Result<v1::StatusResponse> {
        let answer = async {
            Ok(v1::StatusResponse {
                status: Some(v1::RuntimeStatus {
                    conditions: self.with(|state, _| state.conditions.clone()),
                }),
                runtime_handlers: HANDLERS
                    .map(|name| v1::RuntimeHandler { name: name.into(), features: Some(Default::default()) })
                    .to_vec(),
                ..Default::default()
            })
        };
        self.call(Operation::Status, Deadline::Default, Vec::new(), answer).await
    }

    async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse> {
        let answer = async { Ok(self.with(|state, _| state.config)) };
        self.call(Operation::RuntimeConfig, Deadline::Default, Vec::new(), answer).await
    }

    async fn update_runtime_config(&self, runtime_config: &v1::RuntimeConfig) -> Result<()> {
        let work = async {
            let range = runtime_config.network_config.as_ref().map_or("", |network| &network.pod_cidr);
            if !range.is_empty() {
                let range = range.parse()?;
                self.with(|state, _| state.addresses.set_range(range));
            }
            Ok(())
        };
        self.call(Operation::UpdateRuntimeConfig, Deadline::Default, Vec::new(), work).await
    }

    async fn run_pod_sandbox(&self, config: &v1::PodSandboxConfig, runtime_handler: &str) -> Result<String> {
        let metadata = config.metadata.clone().unwrap_or_default();
        let work = async {
            if !HANDLERS.contains(&runtime_handler) {
                return Err(unknown(format!("no runtime for {runtime_handler:?} is configured")));
            }
            let behaviour = SandboxBehaviour::new(config)?;
            pause(behaviour.delay).await;
            if let Some(message) = &behaviour.error {
                return Err(unknown(message));
            }
            self.with(|state, now| state.run_sandbox(config, &behaviour, runtime_handler, now))
        };
        let targets = vec![metadata.uid, metadata.name];
        self.call(Operation::RunPodSandbox, Deadline::Sandbox, targets, work).await
    }

    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        let work = async {
            self.with(|state, now| state.stop_sandbox(id, now));
            Ok(())
        };
        self.call(Operation::StopPodSandbox, Deadline::Default, self.targets(id), work).await
    }

    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        let work = async {
            self.with(|state, now| state.remove_sandbox(id, now));
            Ok(())
        };
        self.call(Operation::RemovePodSandbox, Deadline::Default, self.targets(id), work).await
    }

    async fn pod_sandbox_status(&self, id: &str) -> Result<v1::PodSandboxStatusResponse> {
        let work = async {
            self.with(|state, now| {
                Ok(v1::PodSandboxStatusResponse {
                    status: Some(state.sandbox(id)?.status(state.clock)),
                    containers_statuses: state.container_statuses(id),
                    timestamp: state.clock.nanos(now),
                    ..Default::default()
                })
            })
        };
        self.call(Operation::PodSandboxStatus, Deadline::Default, self.targets(id), work).await
    }

    async fn list_pod_sandbox(&self, filter: &v1::PodSandboxFilter) -> Result<Vec<v1::PodSandbox>> {
        let work = async {
            Ok(self.with(|state, _| {
                let matching = state.sandboxes.values().filter(|sandbox| sandbox.matches(filter));
                matching.map(|sandbox| sandbox.listed(state.clock)).collect()
            }))
        };
        self.call(Operation::ListPodSandbox, Deadline::Default, Vec::new(), work).await
    }

    async fn port_forward(&self, request: &v1::PortForwardRequest) -> Result<v1::PortForwardResponse> {
        let url = self.stream(Operation::PortForward, &request.pod_sandbox_id).await?;
        Ok(v1::PortForwardResponse { url })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: &v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<v1::UpdatePodSandboxResourcesResponse> {
        let id = &request.pod_sandbox_id;
        let work = async {
            self.with(|state, _| state.sandbox(id).map(|_| v1::UpdatePodSandboxResourcesResponse {}))
        };
        self.call(Operation::UpdatePodSandboxResources, Deadline::Default, self.targets(id), work).await
    }

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &v1::ContainerConfig,
        _sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String> {
        let mut targets = self.targets(pod_sandbox_id);
        targets.extend(config.metadata.as_ref().map(|metadata| metadata.name.clone()));
        let work = async { self.with(|state, now| state.create_container(pod_sandbox_id, config, now)) };
        self.call(Operation::CreateContainer, Deadline::Default, targets, work).await
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        let work = async {
            pause(self.with(|state, _| state.start_delay(id))?).await;
            self.with(|state, now| state.start(id, now))
        };
        self.call(Operation::StartContainer, Deadline::Default, self.targets(id), work).await
    }

    async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let work = async {
            if !grace.is_zero() {
                let Some(mut ended) = self.with(|state, now| state.terminate(id, now)) else { return Ok(()) };
                // It fails where the container is removed: that ends it as well.
                if within(grace, ended.wait_for(|ended| *ended)).await.is_ok() {
                    return Ok(());
                }
            }
            self.with(|state, now| state.end(id, now, Exit::killed()));
            Ok(())
        };
        self.call(Operation::StopContainer, Deadline::After(grace), self.targets(id), work).await
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        let work = async {
            self.with(|state, now| state.remove_container(id, now));
            Ok(())
        };
        self.call(Operation::RemoveContainer, Deadline::Default, self.targets(id), work).await
    }

    async fn list_containers(&self, filter: &v1::ContainerFilter) -> Result<Vec<v1::Container>> {
        let work = async {
            Ok(self.with(|state, _| {
                let matching = state.containers.values().filter(|container| container.matches(filter));
                matching.map(|container| container.listed(state.clock)).collect()
            }))
        };
        self.call(Operation::ListContainers, Deadline::Default, Vec::new(), work).await
    }

    async fn container_status(&self, id: &str) -> Result<v1::ContainerStatusResponse> {
        let work = async {
            let status = self.with(|state, _| state.container_status(id))?;
            Ok(v1::ContainerStatusResponse { status: Some(status), ..Default::default() })
        };
        self.call(Operation::ContainerStatus, Deadline::Default, self.targets(id), work).await
    }

    async fn update_container_resources(&self, id: &str, resources: &v1::ContainerResources) -> Result<()> {
        let work = async { self.with(|state, _| state.update_resources(id, resources)) };
        self.call(Operation::UpdateContainerResources, Deadline::Default, self.targets(id), work).await
    }

    async fn exec_sync(
        &self,
        id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse> {
        let work = async {
            let (delay, answer, mut ended) = self.with(|state, _| prepare_exec(state, id, command))?;
            let late = !timeout.is_zero() && timeout < delay;
            tokio::select! {
                () = sleep(if late { timeout } else { delay }) => {}
                _ = ended.wait_for(|ended| *ended) => {
                    return Ok(v1::ExecSyncResponse { exit_code: Exit::killed().code, ..Default::default() });
                }
            }
            if late {
                let message = format!("timeout {timeout:?} exceeded: context deadline exceeded");
                return Err(Error::status(Code::DeadlineExceeded, message));
            }
            Ok(answer)
        };
        let deadline = if timeout.is_zero() { Deadline::Unbounded } else { Deadline::After(timeout) };
        self.call(Operation::ExecSync, deadline, self.targets(id), work).await
    }

    async fn exec(&self, request: &v1::ExecRequest) -> Result<v1::ExecResponse> {
        let url = self.stream(Operation::Exec, &request.container_id).await?;
        Ok(v1::ExecResponse { url })
    }

    async fn attach(&self, request: &v1::AttachRequest) -> Result<v1::AttachResponse> {
        let url = self.stream(Operation::Attach, &request.container_id).await?;
        Ok(v1::AttachResponse { url })
    }

    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        let work = async { self.with(|state, _| state.reopen_log(id)) };
        self.call(Operation::ReopenContainerLog, Deadline::Default, self.targets(id), work).await
    }

    async fn checkpoint_container(&self, request: &v1::CheckpointContainerRequest) -> Result<()> {
        self.refuse(Operation::CheckpointContainer, Deadline::Default, &request.container_id).await
    }

    async fn get_container_events(&self) -> Result<ContainerEvents> {
        let operation = Operation::GetContainerEvents;
        self.remember(operation, Vec::new());
        let events = self.with(|state, _| state.subscribe());
        let faults = Arc::clone(&self.0.faults);
        let open = async move {
            if let Some(lost) = faults.meet(operation, &[]).await? {
                return Err(lost);
            }
            Ok(received(events))
        };
        Ok(self.0.calls.stream(operation, stream::once(open).try_flatten()))
    }

    async fn container_stats(&self, id: &str) -> Result<v1::ContainerStats> {
        let work = async {
            self.with(|state, now| state.container(id).map(|container| container.stats(state.clock, now)))
        };
        self.call(Operation::ContainerStats, Deadline::Default, self.targets(id), work).await
    }

    async fn list_container_stats(
        &self,
        filter: &v1::ContainerStatsFilter,
    ) -> Result<Vec<v1::ContainerStats>> {
        let filter = v1::ContainerFilter {
            id: filter.id.clone(),
            pod_sandbox_id: filter.pod_sandbox_id.clone(),
            label_selector: filter.label_selector.clone(),
            state: Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning.into() }),
        };
        let work = async {
            Ok(self.with(|state, now| {
                let matching = state.containers.values().filter(|container| container.matches(&filter));
                matching.map(|container| container.stats(state.clock, now)).collect()
            }))
        };
        self.call(Operation::ListContainerStats, Deadline::Default, Vec::new(), work).await
    }

    async fn pod_sandbox_stats(&self, id: &str) -> Result<v1::PodSandboxStats> {
        let work = async { self.with(|state, now| sandbox_stats(state, id, now)) };
        self.call(Operation::PodSandboxStats, Deadline::Default, self.targets(id), work).await
    }

    async fn list_pod_sandbox_stats(
        &self,
        filter: &v1::PodSandboxStatsFilter,
    ) -> Result<Vec<v1::PodSandboxStats>> {
        let filter = v1::PodSandboxFilter {
            id: filter.id.clone(),
            label_selector: filter.label_selector.clone(),
            state: Some(v1::PodSandboxStateValue { state: v1::PodSandboxState::SandboxReady.into() }),
        };
        let work = async {
            self.with(|state, now| {
                let matching = state.sandboxes.values().filter(|sandbox| sandbox.matches(&filter));
                matching.map(|sandbox| sandbox_stats(state, &sandbox.id, now)).collect()
            })
        };
        self.call(Operation::ListPodSandboxStats, Deadline::Default, Vec::new(), work).await
    }

    async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>> {
        self.call(Operation::ListMetricDescriptors, Deadline::Default, Vec::new(), async { Ok(Vec::new()) })
            .await
    }

    async fn list_pod_sandbox_metrics(&self) -> Result<Vec<v1::PodSandboxMetrics>> {
        let work = async {
            Ok(self.with(|state, _| {
                let without =
                    |id: &String| v1::PodSandboxMetrics { pod_sandbox_id: id.clone(), ..Default::default() };
                state.sandboxes.keys().map(without).collect()
            }))
        };
        self.call(Operation::ListPodSandboxMetrics, Deadline::Default, Vec::new(), work).await
    }
}

impl SimulatedRuntime {
    /// Where the streams of a container or sandbox are to be had.
    async fn stream(&self, operation: Operation, id: &str) -> Result<String> {
        let work = async {
            let url = self.with(|state, _| state.streaming.clone());
            let message = || format!("the simulated runtime has no {}", operation.as_str());
            url.ok_or_else(|| Error::status(Code::Unimplemented, message()))
        };
        self.call(operation, Deadline::Default, self.targets(id), work).await
    }

    /// What needs real processes.
    async fn refuse<T: Send>(&self, operation: Operation, deadline: Deadline, id: &str) -> Result<T> {
        let message = format!("the simulated runtime has no {}", operation.as_str());
        let work = async { Err(Error::status(Code::Unimplemented, message)) };
        self.call(operation, deadline, self.targets(id), work).await
    }
}

/// How long a command takes, its answer, and what tells that its container has ended.
fn prepare_exec(
    state: &mut State,
    id: &str,
    command: &[String],
) -> Result<(Duration, v1::ExecSyncResponse, tokio::sync::watch::Receiver<bool>)> {
    let container = state.container(id)?;
    if !container.is_running() {
        return Err(unknown(format!("container is in {} state", container.state().as_str_name())));
    }
    let (ended, exec) = (container.ended.subscribe(), &container.behaviour.exec);
    if let Some(handler) = &state.exec
        && let Some(answer) = handler(&state.container_status(id)?, command)
    {
        return Ok((Duration::ZERO, answer, ended));
    }
    let answer = v1::ExecSyncResponse {
        stdout: exec.stdout.clone().into_bytes(),
        stderr: exec.stderr.clone().into_bytes(),
        exit_code: exec.code,
    };
    Ok((exec.delay, answer, ended))
}

fn sandbox_stats(state: &State, id: &str, now: Instant) -> Result<v1::PodSandboxStats> {
    let sandbox = state.sandbox(id)?;
    let running: Vec<_> = state
        .containers
        .values()
        .filter(|container| container.sandbox == id && container.is_running())
        .collect();
    let stamp = state.clock.nanos(now);
    let containers: Vec<_> = running.iter().map(|container| container.stats(state.clock, now)).collect();
    let cpu_used =
        |stats: &v1::ContainerStats| stats.cpu.as_ref()?.usage_core_nano_seconds.map(|used| used.value);
    let millis = running.iter().map(|container| container.behaviour.usage.cpu_millis).sum();
    let mut cpu = usage::cpu(stamp, Duration::ZERO, millis);
    cpu.usage_core_nano_seconds = usage::value(containers.iter().filter_map(cpu_used).sum());
    let memory = running.iter().map(|container| container.behaviour.usage.memory_bytes).sum();
    let processes = u64::try_from(running.len()).unwrap_or(u64::MAX);
    Ok(v1::PodSandboxStats {
        attributes: Some(sandbox.attributes()),
        linux: Some(v1::LinuxPodSandboxStats {
            cpu: Some(cpu),
            memory: Some(usage::memory(stamp, memory)),
            process: Some(v1::ProcessUsage { timestamp: stamp, process_count: usage::value(processes) }),
            containers,
            ..Default::default()
        }),
        windows: None,
    })
}

/// Events as a stream. One who reads too slowly is told, and must look at everything again.
fn received(
    events: broadcast::Receiver<v1::ContainerEventResponse>,
) -> impl Stream<Item = Result<v1::ContainerEventResponse>> + Send {
    stream::unfold(events, |mut events| async move {
        match events.recv().await {
            Ok(event) => Some((Ok(event), events)),
            Err(RecvError::Lagged(missed)) => {
                let message = format!("{missed} container events were missed");
                Some((Err(Error::status(Code::ResourceExhausted, message)), events))
            }
            Err(RecvError::Closed) => None,
        }
    })
}
