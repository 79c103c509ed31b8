//! The client of a runtime that listens on a unix socket.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Uri;
use prost::Message;
use tonic::Code;

use super::methods::Asks;
use super::{Endpoint, v1, verify};
use crate::grpc::{Connection, decoded};
use crate::runtime::{
    Calls, ContainerEvents, Deadline, Error, ImageService, Metrics, Operation, Result, RuntimeService,
};

/// The largest message taken or sent, in bytes; upstream: cri-client, `maxMsgSize`.
pub const MAX_MESSAGE_SIZE: usize = 16 * 1024 * 1024;

/// What [`Client::new`] may be told.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `--runtime-request-timeout`; by default 2 minutes.
    pub timeout: Duration,
    /// How long the socket may take to accept; by default 5 s, as upstream's least.
    pub connect_timeout: Duration,
    /// Where calls are counted; by default in families of its own.
    pub metrics: Metrics,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { timeout: Deadline::DEFAULT, connect_timeout: Duration::from_secs(5), metrics: Metrics::new() }
    }
}

/// Both services of one runtime, over one connection to its socket. A clone shares the connection.
///
/// It connects when first called, and again after the connection broke: a call made while the runtime is away fails
/// with `Unavailable` and harms no later one. A call that is given up or out of time is cancelled at the runtime.
#[derive(Debug, Clone)]
pub struct Client {
    connection: Connection,
    calls: Calls,
}

impl Client {
    /// A client of the runtime at `endpoint`; it need not be there yet.
    ///
    /// # Errors
    /// When the path cannot be written in an address: it is not UTF-8.
    ///
    /// # Panics
    /// Outside a tokio runtime, which the connection lives in.
    pub fn new(endpoint: &Endpoint, config: ClientConfig) -> Result<Self> {
        let address = format!("unix://{}", endpoint.path().display());
        let channel = tonic::transport::Endpoint::from_shared(address)
            .map_err(|error| Error::status(Code::InvalidArgument, error.to_string()))?
            // What Go's servers accept as authority, and upstream sends.
            .origin(Uri::from_static("http://localhost"))
            .connect_timeout(config.connect_timeout)
            .connect_lazy();
        let connection = Connection::new(channel, MAX_MESSAGE_SIZE);
        Ok(Self { connection, calls: Calls::new(config.metrics, config.timeout) })
    }

    /// Where calls are counted.
    pub fn metrics(&self) -> &Metrics {
        self.calls.metrics()
    }

    /// Sends one request. `check` takes from the answer what the caller wants; its failure is the call's.
    async fn call<R: Asks, T>(
        &self,
        request: &R,
        check: impl FnOnce(R::Answer) -> Result<T> + Send,
    ) -> Result<T> {
        self.call_within(Deadline::Default, request, check).await
    }

    async fn call_within<R: Asks, T>(
        &self,
        deadline: Deadline,
        request: &R,
        check: impl FnOnce(R::Answer) -> Result<T> + Send,
    ) -> Result<T> {
        let answer = self.connection.unary(R::PATH, request.encode_to_vec().into());
        self.calls.run(R::OPERATION, deadline, async { check(decoded(answer.await?)?) }).await
    }
}

#[async_trait]
impl RuntimeService for Client {
    async fn version(&self, api_version: &str) -> Result<v1::VersionResponse> {
        let request = v1::VersionRequest { version: api_version.into() };
        self.call(&request, verify::version).await
    }

    async fn status(&self) -> Result<v1::StatusResponse> {
        let request = v1::StatusRequest { verbose: false };
        self.call(&request, verify::runtime_status).await
    }

    async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse> {
        self.call(&v1::RuntimeConfigRequest {}, Ok).await
    }

    async fn update_runtime_config(&self, runtime_config: &v1::RuntimeConfig) -> Result<()> {
        let request = v1::UpdateRuntimeConfigRequest { runtime_config: Some(runtime_config.clone()) };
        self.call(&request, |_| Ok(())).await
    }

    async fn run_pod_sandbox(&self, config: &v1::PodSandboxConfig, runtime_handler: &str) -> Result<String> {
        let request = v1::RunPodSandboxRequest {
            config: Some(config.clone()),
            runtime_handler: runtime_handler.into(),
        };
        self.call_within(Deadline::Sandbox, &request, |answer| {
            verify::filled(answer.pod_sandbox_id, "PodSandboxId is not set for sandbox")
        })
        .await
    }

    async fn stop_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()> {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.into() };
        self.call(&request, |_| Ok(())).await
    }

    async fn remove_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()> {
        let request = v1::RemovePodSandboxRequest { pod_sandbox_id: pod_sandbox_id.into() };
        self.call(&request, |_| Ok(())).await
    }

    async fn pod_sandbox_status(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStatusResponse> {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: pod_sandbox_id.into(), verbose: false };
        self.call(&request, verify::sandbox_status).await
    }

    async fn list_pod_sandbox(&self, filter: &v1::PodSandboxFilter) -> Result<Vec<v1::PodSandbox>> {
        let request = v1::ListPodSandboxRequest { filter: Some(filter.clone()) };
        self.call(&request, |answer| Ok(answer.items)).await
    }

    async fn port_forward(&self, request: &v1::PortForwardRequest) -> Result<v1::PortForwardResponse> {
        self.call(request, |answer| {
            verify::require(!answer.url.is_empty(), "URL is not set")?;
            Ok(answer)
        })
        .await
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: &v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<v1::UpdatePodSandboxResourcesResponse> {
        self.call(request, Ok).await
    }

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &v1::ContainerConfig,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String> {
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: pod_sandbox_id.into(),
            config: Some(config.clone()),
            sandbox_config: Some(sandbox_config.clone()),
        };
        self.call(&request, |answer| {
            verify::filled(answer.container_id, "ContainerId is not set for container")
        })
        .await
    }

    async fn start_container(&self, container_id: &str) -> Result<()> {
        let request = v1::StartContainerRequest { container_id: container_id.into() };
        self.call(&request, |_| Ok(())).await
    }

    async fn stop_container(&self, container_id: &str, grace: Duration) -> Result<()> {
        let request =
            v1::StopContainerRequest { container_id: container_id.into(), timeout: whole_seconds(grace) };
        self.call_within(Deadline::After(grace), &request, |_| Ok(())).await
    }

    async fn remove_container(&self, container_id: &str) -> Result<()> {
        let request = v1::RemoveContainerRequest { container_id: container_id.into() };
        self.call(&request, |_| Ok(())).await
    }

    async fn list_containers(&self, filter: &v1::ContainerFilter) -> Result<Vec<v1::Container>> {
        let request = v1::ListContainersRequest { filter: Some(filter.clone()) };
        self.call(&request, |answer| Ok(answer.containers)).await
    }

    async fn container_status(&self, container_id: &str) -> Result<v1::ContainerStatusResponse> {
        let request = v1::ContainerStatusRequest { container_id: container_id.into(), verbose: false };
        self.call(&request, verify::container_status).await
    }

    async fn update_container_resources(
        &self,
        container_id: &str,
        resources: &v1::ContainerResources,
    ) -> Result<()> {
        let request = v1::UpdateContainerResourcesRequest {
            container_id: container_id.into(),
            linux: resources.linux.clone(),
            windows: resources.windows.clone(),
            annotations: Default::default(),
        };
        self.call(&request, |_| Ok(())).await
    }

    async fn exec_sync(
        &self,
        container_id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse> {
        let request = v1::ExecSyncRequest {
            container_id: container_id.into(),
            cmd: command.to_vec(),
            timeout: whole_seconds(timeout),
        };
        let deadline = if timeout.is_zero() { Deadline::Unbounded } else { Deadline::After(timeout) };
        self.call_within(deadline, &request, Ok).await
    }

    async fn exec(&self, request: &v1::ExecRequest) -> Result<v1::ExecResponse> {
        self.call(request, |answer| {
            verify::require(!answer.url.is_empty(), "URL is not set")?;
            Ok(answer)
        })
        .await
    }

    async fn attach(&self, request: &v1::AttachRequest) -> Result<v1::AttachResponse> {
        self.call(request, |answer| {
            verify::require(!answer.url.is_empty(), "URL is not set")?;
            Ok(answer)
        })
        .await
    }

    async fn reopen_container_log(&self, container_id: &str) -> Result<()> {
        let request = v1::ReopenContainerLogRequest { container_id: container_id.into() };
        self.call(&request, |_| Ok(())).await
    }

    async fn checkpoint_container(&self, request: &v1::CheckpointContainerRequest) -> Result<()> {
        let asked = u64::try_from(request.timeout).ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
            Error::status(Code::InvalidArgument, "CheckpointContainer requires the timeout value to be > 0")
        })?;
        let deadline = Deadline::AtLeast(Duration::from_secs(asked));
        let mut request = request.clone();
        request.timeout = self.calls.limit(deadline).map_or(request.timeout, whole_seconds);
        self.call_within(deadline, &request, |_| Ok(())).await
    }

    async fn get_container_events(&self) -> Result<ContainerEvents> {
        let request = v1::GetEventsRequest {};
        // Go's servers answer with the first event, so the answer is awaited as part of the stream.
        let answers =
            self.connection.server_streaming(v1::GetEventsRequest::PATH, request.encode_to_vec().into());
        let events = stream::once(answers).try_flatten().map(|event| Ok(decoded(event?)?));
        Ok(self.calls.stream(Operation::GetContainerEvents, events))
    }

    async fn container_stats(&self, container_id: &str) -> Result<v1::ContainerStats> {
        let request = v1::ContainerStatsRequest { container_id: container_id.into() };
        self.call(&request, |answer| {
            answer.stats.ok_or_else(|| Error::Incomplete("container stats are not set".into()))
        })
        .await
    }

    async fn list_container_stats(
        &self,
        filter: &v1::ContainerStatsFilter,
    ) -> Result<Vec<v1::ContainerStats>> {
        let request = v1::ListContainerStatsRequest { filter: Some(filter.clone()) };
        self.call(&request, |answer| Ok(answer.stats)).await
    }

    async fn pod_sandbox_stats(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStats> {
        let request = v1::PodSandboxStatsRequest { pod_sandbox_id: pod_sandbox_id.into() };
        self.call(&request, |answer| {
            answer.stats.ok_or_else(|| Error::Incomplete("pod sandbox stats are not set".into()))
        })
        .await
    }

    async fn list_pod_sandbox_stats(
        &self,
        filter: &v1::PodSandboxStatsFilter,
    ) -> Result<Vec<v1::PodSandboxStats>> {
        let request = v1::ListPodSandboxStatsRequest { filter: Some(filter.clone()) };
        self.call(&request, |answer| Ok(answer.stats)).await
    }

    async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>> {
        let request = v1::ListMetricDescriptorsRequest {};
        self.call(&request, |answer| Ok(answer.descriptors)).await
    }

    async fn list_pod_sandbox_metrics(&self) -> Result<Vec<v1::PodSandboxMetrics>> {
        let request = v1::ListPodSandboxMetricsRequest {};
        self.call(&request, |answer| Ok(answer.pod_metrics)).await
    }
}

#[async_trait]
impl ImageService for Client {
    async fn list_images(&self, filter: &v1::ImageFilter) -> Result<Vec<v1::Image>> {
        let request = v1::ListImagesRequest { filter: Some(filter.clone()) };
        self.call(&request, |answer| Ok(answer.images)).await
    }

    async fn image_status(&self, image: &v1::ImageSpec) -> Result<v1::ImageStatusResponse> {
        let request = v1::ImageStatusRequest { image: Some(image.clone()), verbose: false };
        self.call(&request, verify::image_status).await
    }

    async fn pull_image(
        &self,
        image: &v1::ImageSpec,
        auth: Option<&v1::AuthConfig>,
        sandbox_config: Option<&v1::PodSandboxConfig>,
    ) -> Result<String> {
        let request = v1::PullImageRequest {
            image: Some(image.clone()),
            auth: auth.cloned(),
            sandbox_config: sandbox_config.cloned(),
        };
        self.call_within(Deadline::Unbounded, &request, |answer| {
            verify::filled(answer.image_ref, "imageRef of image is not set")
        })
        .await
        .map_err(Error::of_pull)
    }

    async fn remove_image(&self, image: &v1::ImageSpec) -> Result<()> {
        let request = v1::RemoveImageRequest { image: Some(image.clone()) };
        self.call(&request, |_| Ok(())).await
    }

    async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse> {
        self.call(&v1::ImageFsInfoRequest {}, Ok).await
    }
}

/// In the CRI's unit, rounded up: a fraction must not become zero, which means "at once" or "without end".
fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
