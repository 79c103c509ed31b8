//! The methods of the interface: what each is asked by, and what answers.

use prost::Message;

use super::v1;
use crate::runtime::Operation;

/// A request, by which its method is known.
pub(super) trait Asks: Message {
    /// What answers; for the events, each of those that do.
    type Answer: Message + Default;
    /// Where the runtime serves the method.
    const PATH: &'static str;
    /// How calls of it are counted.
    const OPERATION: Operation;
}

/// `Service { Method(Request) -> Answer, ... }`.
macro_rules! methods {
    ($service:ident { $($method:ident($request:ident) -> $answer:ident),+ $(,)? }) => {$(
        impl Asks for v1::$request {
            type Answer = v1::$answer;
            const PATH: &'static str = concat!("/runtime.v1.", stringify!($service), "/", stringify!($method));
            const OPERATION: Operation = Operation::$method;
        }
    )+};
}

methods!(RuntimeService {
    Version(VersionRequest) -> VersionResponse,
    Status(StatusRequest) -> StatusResponse,
    RuntimeConfig(RuntimeConfigRequest) -> RuntimeConfigResponse,
    UpdateRuntimeConfig(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse,
    RunPodSandbox(RunPodSandboxRequest) -> RunPodSandboxResponse,
    StopPodSandbox(StopPodSandboxRequest) -> StopPodSandboxResponse,
    RemovePodSandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse,
    PodSandboxStatus(PodSandboxStatusRequest) -> PodSandboxStatusResponse,
    ListPodSandbox(ListPodSandboxRequest) -> ListPodSandboxResponse,
    PortForward(PortForwardRequest) -> PortForwardResponse,
    UpdatePodSandboxResources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse,
    CreateContainer(CreateContainerRequest) -> CreateContainerResponse,
    StartContainer(StartContainerRequest) -> StartContainerResponse,
    StopContainer(StopContainerRequest) -> StopContainerResponse,
    RemoveContainer(RemoveContainerRequest) -> RemoveContainerResponse,
    ListContainers(ListContainersRequest) -> ListContainersResponse,
    ContainerStatus(ContainerStatusRequest) -> ContainerStatusResponse,
    UpdateContainerResources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse,
    ExecSync(ExecSyncRequest) -> ExecSyncResponse,
    Exec(ExecRequest) -> ExecResponse,
    Attach(AttachRequest) -> AttachResponse,
    ReopenContainerLog(ReopenContainerLogRequest) -> ReopenContainerLogResponse,
    CheckpointContainer(CheckpointContainerRequest) -> CheckpointContainerResponse,
    GetContainerEvents(GetEventsRequest) -> ContainerEventResponse,
    ContainerStats(ContainerStatsRequest) -> ContainerStatsResponse,
    ListContainerStats(ListContainerStatsRequest) -> ListContainerStatsResponse,
    PodSandboxStats(PodSandboxStatsRequest) -> PodSandboxStatsResponse,
    ListPodSandboxStats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse,
    ListMetricDescriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse,
    ListPodSandboxMetrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse,
});

methods!(ImageService {
    ListImages(ListImagesRequest) -> ListImagesResponse,
    ImageStatus(ImageStatusRequest) -> ImageStatusResponse,
    PullImage(PullImageRequest) -> PullImageResponse,
    RemoveImage(RemoveImageRequest) -> RemoveImageResponse,
    ImageFsInfo(ImageFsInfoRequest) -> ImageFsInfoResponse,
});
