//! The client of a runtime that listens on a unix socket.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Uri;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::v1::image_service_client::ImageServiceClient;
use super::v1::runtime_service_client::RuntimeServiceClient;
use super::{Endpoint, v1, verify};
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
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
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
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone())
                .max_decoding_message_size(MAX_MESSAGE_SIZE)
                .max_encoding_message_size(MAX_MESSAGE_SIZE),
            images: ImageServiceClient::new(channel)
                .max_decoding_message_size(MAX_MESSAGE_SIZE)
                .max_encoding_message_size(MAX_MESSAGE_SIZE),
            calls: Calls::new(config.metrics, config.timeout),
        })
    }

    /// Where calls are counted.
    pub fn metrics(&self) -> &Metrics {
        self.calls.metrics()
    }

    /// Sends one request. `check` takes from the answer what the caller wants; its failure is the call's.
    async fn call<T, U>(
        &self,
        operation: Operation,
        deadline: Deadline,
        answer: impl Future<Output = std::result::Result<Response<T>, Status>> + Send,
        check: impl FnOnce(T) -> Result<U> + Send,
    ) -> Result<U> {
        self.calls.run(operation, deadline, async { check(answer.await?.into_inner()) }).await
    }
}

/// `unary!(client, runtime.method(request), Operation, deadline, check)`: one call by its generated method.
macro_rules! unary {
    ($client:expr, $service:ident.$method:ident($request:expr), $operation:ident, $check:expr) => {
        unary!($client, $service.$method($request), $operation, Deadline::Default, $check)
    };
    ($client:expr, $service:ident.$method:ident($request:expr), $operation:ident, $deadline:expr, $check:expr) => {{
        let mut service = $client.$service.clone();
        let request = $request;
        let answer = async move { service.$method(request).await };
        $client.call(Operation::$operation, $deadline, answer, $check).await
    }};
}

#[async_trait]
impl RuntimeService for Client {
    async fn version(&self, api_version: &str) -> Result<v1::VersionResponse> {
        let request = v1::VersionRequest { version: api_version.into() };
        unary!(self, runtime.version(request), Version, verify::version)
    }

    async fn status(&self) -> Result<v1::StatusResponse> {
        let request = v1::StatusRequest { verbose: false };
        unary!(self, runtime.status(request), Status, verify::runtime_status)
    }

    async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse> {
        unary!(self, runtime.runtime_config(v1::RuntimeConfigRequest {}), RuntimeConfig, Ok)
    }

    async fn update_runtime_config(&self, runtime_config: &v1::RuntimeConfig) -> Result<()> {
        let request = v1::UpdateRuntimeConfigRequest { runtime_config: Some(runtime_config.clone()) };
        unary!(self, runtime.update_runtime_config(request), UpdateRuntimeConfig, |_| Ok(()))
    }

    async fn run_pod_sandbox(&self, config: &v1::PodSandboxConfig, runtime_handler: &str) -> Result<String> {
        let request = v1::RunPodSandboxRequest {
            config: Some(config.clone()),
            runtime_handler: runtime_handler.into(),
        };
        unary!(self, runtime.run_pod_sandbox(request), RunPodSandbox, Deadline::Sandbox, |answer| {
            verify::filled(answer.pod_sandbox_id, "PodSandboxId is not set for sandbox")
        })
    }

    async fn stop_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()> {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.into() };
        unary!(self, runtime.stop_pod_sandbox(request), StopPodSandbox, |_| Ok(()))
    }

    async fn remove_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()> {
        let request = v1::RemovePodSandboxRequest { pod_sandbox_id: pod_sandbox_id.into() };
        unary!(self, runtime.remove_pod_sandbox(request), RemovePodSandbox, |_| Ok(()))
    }

    async fn pod_sandbox_status(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStatusResponse> {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: pod_sandbox_id.into(), verbose: false };
        unary!(self, runtime.pod_sandbox_status(request), PodSandboxStatus, verify::sandbox_status)
    }

    async fn list_pod_sandbox(&self, filter: &v1::PodSandboxFilter) -> Result<Vec<v1::PodSandbox>> {
        let request = v1::ListPodSandboxRequest { filter: Some(filter.clone()) };
        unary!(self, runtime.list_pod_sandbox(request), ListPodSandbox, |answer| Ok(answer.items))
    }

    async fn port_forward(&self, request: &v1::PortForwardRequest) -> Result<v1::PortForwardResponse> {
        unary!(self, runtime.port_forward(request.clone()), PortForward, |answer| {
            verify::require(!answer.url.is_empty(), "URL is not set")?;
            Ok(answer)
        })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: &v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<v1::UpdatePodSandboxResourcesResponse> {
        unary!(self, runtime.update_pod_sandbox_resources(request.clone()), UpdatePodSandboxResources, Ok)
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
        unary!(self, runtime.create_container(request), CreateContainer, |answer| {
            verify::filled(answer.container_id, "ContainerId is not set for container")
        })
    }

    async fn start_container(&self, container_id: &str) -> Result<()> {
        let request = v1::StartContainerRequest { container_id: container_id.into() };
        unary!(self, runtime.start_container(request), StartContainer, |_| Ok(()))
    }

    async fn stop_container(&self, container_id: &str, grace: Duration) -> Result<()> {
        let request =
            v1::StopContainerRequest { container_id: container_id.into(), timeout: whole_seconds(grace) };
        unary!(self, runtime.stop_container(request), StopContainer, Deadline::After(grace), |_| Ok(()))
    }

    async fn remove_container(&self, container_id: &str) -> Result<()> {
        let request = v1::RemoveContainerRequest { container_id: container_id.into() };
        unary!(self, runtime.remove_container(request), RemoveContainer, |_| Ok(()))
    }

    async fn list_containers(&self, filter: &v1::ContainerFilter) -> Result<Vec<v1::Container>> {
        let request = v1::ListContainersRequest { filter: Some(filter.clone()) };
        unary!(self, runtime.list_containers(request), ListContainers, |answer| Ok(answer.containers))
    }

    async fn container_status(&self, container_id: &str) -> Result<v1::ContainerStatusResponse> {
        let request = v1::ContainerStatusRequest { container_id: container_id.into(), verbose: false };
        unary!(self, runtime.container_status(request), ContainerStatus, verify::container_status)
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
        unary!(self, runtime.update_container_resources(request), UpdateContainerResources, |_| Ok(()))
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
        unary!(self, runtime.exec_sync(request), ExecSync, deadline, Ok)
    }

    async fn exec(&self, request: &v1::ExecRequest) -> Result<v1::ExecResponse> {
        unary!(self, runtime.exec(request.clone()), Exec, |answer| {
            verify::require(!answer.url.is_empty(), "URL is not set")?;
            Ok(answer)
        })
    }

    async fn attach(&self, request: &v1::AttachRequest) -> Result<v1::AttachResponse> {
        unary!(self, runtime.attach(request.clone()), Attach, |answer| {
            verify::require(!answer.url.is_empty(), "URL is not set")?;
            Ok(answer)
        })
    }

    async fn reopen_container_log(&self, container_id: &str) -> Result<()> {
        let request = v1::ReopenContainerLogRequest { container_id: container_id.into() };
        unary!(self, runtime.reopen_container_log(request), ReopenContainerLog, |_| Ok(()))
    }

    async fn checkpoint_container(&self, request: &v1::CheckpointContainerRequest) -> Result<()> {
        let asked = u64::try_from(request.timeout).ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
            Error::status(Code::InvalidArgument, "CheckpointContainer requires the timeout value to be > 0")
        })?;
        let deadline = Deadline::AtLeast(Duration::from_secs(asked));
        let mut request = request.clone();
        request.timeout = self.calls.limit(deadline).map_or(request.timeout, whole_seconds);
        unary!(self, runtime.checkpoint_container(request), CheckpointContainer, deadline, |_| Ok(()))
    }

    async fn get_container_events(&self) -> Result<ContainerEvents> {
        let mut service = self.runtime.clone();
        // Go's servers answer with the first event, so the answer is awaited as part of the stream.
        let answer = async move { service.get_container_events(v1::GetEventsRequest {}).await };
        let events = stream::once(answer)
            .map_ok(|answer| answer.into_inner())
            .try_flatten()
            .map(|event| event.map_err(Error::from));
        Ok(self.calls.stream(Operation::GetContainerEvents, events))
    }

    async fn container_stats(&self, container_id: &str) -> Result<v1::ContainerStats> {
        let request = v1::ContainerStatsRequest { container_id: container_id.into() };
        unary!(self, runtime.container_stats(request), ContainerStats, |answer| {
            answer.stats.ok_or_else(|| Error::Incomplete("container stats are not set".into()))
        })
    }

    async fn list_container_stats(
        &self,
        filter: &v1::ContainerStatsFilter,
    ) -> Result<Vec<v1::ContainerStats>> {
        let request = v1::ListContainerStatsRequest { filter: Some(filter.clone()) };
        unary!(self, runtime.list_container_stats(request), ListContainerStats, |answer| Ok(answer.stats))
    }

    async fn pod_sandbox_stats(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStats> {
        let request = v1::PodSandboxStatsRequest { pod_sandbox_id: pod_sandbox_id.into() };
        unary!(self, runtime.pod_sandbox_stats(request), PodSandboxStats, |answer| {
            answer.stats.ok_or_else(|| Error::Incomplete("pod sandbox stats are not set".into()))
        })
    }

    async fn list_pod_sandbox_stats(
        &self,
        filter: &v1::PodSandboxStatsFilter,
    ) -> Result<Vec<v1::PodSandboxStats>> {
        let request = v1::ListPodSandboxStatsRequest { filter: Some(filter.clone()) };
        unary!(self, runtime.list_pod_sandbox_stats(request), ListPodSandboxStats, |answer| Ok(answer.stats))
    }

    async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>> {
        let request = v1::ListMetricDescriptorsRequest {};
        unary!(self, runtime.list_metric_descriptors(request), ListMetricDescriptors, |answer| {
            Ok(answer.descriptors)
        })
    }

    async fn list_pod_sandbox_metrics(&self) -> Result<Vec<v1::PodSandboxMetrics>> {
        let request = v1::ListPodSandboxMetricsRequest {};
        unary!(self, runtime.list_pod_sandbox_metrics(request), ListPodSandboxMetrics, |answer| {
            Ok(answer.pod_metrics)
        })
    }
}

#[async_trait]
impl ImageService for Client {
    async fn list_images(&self, filter: &v1::ImageFilter) -> Result<Vec<v1::Image>> {
        let request = v1::ListImagesRequest { filter: Some(filter.clone()) };
        unary!(self, images.list_images(request), ListImages, |answer| Ok(answer.images))
    }

    async fn image_status(&self, image: &v1::ImageSpec) -> Result<v1::ImageStatusResponse> {
        let request = v1::ImageStatusRequest { image: Some(image.clone()), verbose: false };
        unary!(self, images.image_status(request), ImageStatus, verify::image_status)
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
        unary!(self, images.pull_image(request), PullImage, Deadline::Unbounded, |answer| {
            verify::filled(answer.image_ref, "imageRef of image is not set")
        })
        .map_err(Error::of_pull)
    }

    async fn remove_image(&self, image: &v1::ImageSpec) -> Result<()> {
        let request = v1::RemoveImageRequest { image: Some(image.clone()) };
        unary!(self, images.remove_image(request), RemoveImage, |_| Ok(()))
    }

    async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse> {
        unary!(self, images.image_fs_info(v1::ImageFsInfoRequest {}), ImageFsInfo, Ok)
    }
}

/// In the CRI's unit, rounded up: a fraction must not become zero, which means "at once" or "without end".
fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
