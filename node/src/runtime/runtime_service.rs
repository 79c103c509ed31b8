//! The runtime half of the CRI.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::Result;
use crate::cri::v1;

/// What happens to containers, as it happens; ends with the runtime's connection, with an error where there is one.
/// Events may be missed between two streams: look at everything once a stream is open.
pub type ContainerEvents = BoxStream<'static, Result<v1::ContainerEventResponse>>;

/// Upstream's `RuntimeService`, in its groups. Any number of callers at a time; dropping a call gives it up, and leaves
/// open whether the runtime does the work. Nothing is asked for verbosely.
///
/// Each method names the class of its [`Deadline`](super::Deadline); past it, it fails with `DeadlineExceeded`.
#[async_trait]
pub trait RuntimeService: Send + Sync + 'static {
    // The runtime itself.

    /// Name and version of the runtime, for a caller that speaks `api_version` of the kubelet's API (`0.1.0`).
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: [`Incomplete`](super::Error::Incomplete) for an empty
    /// field.
    async fn version(&self, api_version: &str) -> Result<v1::VersionResponse>;

    /// The runtime's conditions, handlers and features.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: [`Incomplete`](super::Error::Incomplete) where
    /// `RuntimeReady` or `NetworkReady` is missing.
    async fn status(&self) -> Result<v1::StatusResponse>;

    /// What the runtime wants the node to do, such as its cgroup driver.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: `Unimplemented` by runtimes of before 2023.
    async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse>;

    /// Tells the runtime the node's range of pod addresses.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn update_runtime_config(&self, runtime_config: &v1::RuntimeConfig) -> Result<()>;

    // Pod sandboxes.

    /// Creates and starts a sandbox; answers with its id, which is never empty. The sandbox is ready.
    ///
    /// Deadline: [`Sandbox`](super::Deadline::Sandbox).
    async fn run_pod_sandbox(&self, config: &v1::PodSandboxConfig, runtime_handler: &str) -> Result<String>;

    /// Kills what runs in a sandbox and frees its network; idempotent.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn stop_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()>;

    /// Removes a sandbox, and by force all that is in it; idempotent.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn remove_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()>;

    /// The state of a sandbox. `status` is always there, with id, names and time of creation.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: `NotFound`; [`Incomplete`](super::Error::Incomplete).
    async fn pod_sandbox_status(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStatusResponse>;

    /// The sandboxes that `filter` lets through; the default lets all.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_pod_sandbox(&self, filter: &v1::PodSandboxFilter) -> Result<Vec<v1::PodSandbox>>;

    /// Prepares forwarding to ports of a sandbox; answers with the address to stream to, which is never empty.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn port_forward(&self, request: &v1::PortForwardRequest) -> Result<v1::PortForwardResponse>;

    /// Tells the runtime of changed resources of a whole pod, after the fact. A failure should not stop a resize.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn update_pod_sandbox_resources(
        &self,
        request: &v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<v1::UpdatePodSandboxResourcesResponse>;

    // Containers.

    /// Creates a container in a sandbox; answers with its id, which is never empty.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &v1::ContainerConfig,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String>;

    /// Starts a created container. A container starts once in its life.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn start_container(&self, container_id: &str) -> Result<()>;

    /// Asks a container to end, kills it after `grace` (whole seconds; zero kills at once), and returns when it has
    /// ended; idempotent.
    ///
    /// Deadline: [`After(grace)`](super::Deadline::After).
    async fn stop_container(&self, container_id: &str, grace: Duration) -> Result<()>;

    /// Removes a container, by force if it runs; idempotent.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn remove_container(&self, container_id: &str) -> Result<()>;

    /// The containers that `filter` lets through; the default lets all.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_containers(&self, filter: &v1::ContainerFilter) -> Result<Vec<v1::Container>>;

    /// The state of a container. `status` is always there, with id, name, time of creation, and image.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: `NotFound`; [`Incomplete`](super::Error::Incomplete).
    async fn container_status(&self, container_id: &str) -> Result<v1::ContainerStatusResponse>;

    /// Changes a container's resources, all or none.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn update_container_resources(
        &self,
        container_id: &str,
        resources: &v1::ContainerResources,
    ) -> Result<()>;

    /// Runs a command in a container to its end; its exit code is part of the answer. `timeout` (whole seconds) of
    /// zero means none.
    ///
    /// Deadline: [`After(timeout)`](super::Deadline::After); [none](super::Deadline::Unbounded) without a timeout.
    /// Errors: `DeadlineExceeded` when the command takes too long.
    async fn exec_sync(
        &self,
        container_id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse>;

    /// Prepares a command's streams; answers with the address to stream to, which is never empty.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn exec(&self, request: &v1::ExecRequest) -> Result<v1::ExecResponse>;

    /// Prepares a container's own streams; answers with the address to stream to, which is never empty.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn attach(&self, request: &v1::AttachRequest) -> Result<v1::AttachResponse>;

    /// Has a container write to a new file at its log path, after the old one was moved away.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn reopen_container_log(&self, container_id: &str) -> Result<()>;

    /// Writes a container's state to a file. The request's own timeout must be above zero.
    ///
    /// Deadline: [`AtLeast`](super::Deadline::AtLeast) the request's own. Errors: `InvalidArgument` for a timeout of
    /// zero or less.
    async fn checkpoint_container(&self, request: &v1::CheckpointContainerRequest) -> Result<()>;

    /// What happens to containers from now on. Does not wait for the runtime: that it cannot be reached, or has no
    /// events (`Unimplemented`), may be the stream's first item.
    ///
    /// Deadline: [none](super::Deadline::Unbounded).
    async fn get_container_events(&self) -> Result<ContainerEvents>;

    // Statistics.

    /// What a container uses.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: `NotFound`.
    async fn container_stats(&self, container_id: &str) -> Result<v1::ContainerStats>;

    /// What the running containers use that `filter` lets through.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_container_stats(
        &self,
        filter: &v1::ContainerStatsFilter,
    ) -> Result<Vec<v1::ContainerStats>>;

    /// What a sandbox and its containers use.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: `NotFound`.
    async fn pod_sandbox_stats(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStats>;

    /// What the ready sandboxes use that `filter` lets through.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_pod_sandbox_stats(
        &self,
        filter: &v1::PodSandboxStatsFilter,
    ) -> Result<Vec<v1::PodSandboxStats>>;

    /// Names and labels of the metrics that [`list_pod_sandbox_metrics`](Self::list_pod_sandbox_metrics) gives.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>>;

    /// The runtime's own metrics of all sandboxes.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_pod_sandbox_metrics(&self) -> Result<Vec<v1::PodSandboxMetrics>>;
}
