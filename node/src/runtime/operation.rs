//! The calls by name.

macro_rules! operations {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// A call of the two traits; its text is upstream's label `operation_type`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is the trait's method of that name")]
        pub enum Operation { $($variant),+ }

        impl Operation {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The label `operation_type`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

operations! {
    Version = "version",
    Status = "status",
    RuntimeConfig = "runtime_config",
    UpdateRuntimeConfig = "update_runtime_config",
    RunPodSandbox = "run_podsandbox",
    StopPodSandbox = "stop_podsandbox",
    RemovePodSandbox = "remove_podsandbox",
    PodSandboxStatus = "podsandbox_status",
    ListPodSandbox = "list_podsandbox",
    PortForward = "port_forward",
    UpdatePodSandboxResources = "update_podsandbox_resources",
    CreateContainer = "create_container",
    StartContainer = "start_container",
    StopContainer = "stop_container",
    RemoveContainer = "remove_container",
    ListContainers = "list_containers",
    ContainerStatus = "container_status",
    UpdateContainerResources = "update_container",
    ExecSync = "exec_sync",
    Exec = "exec",
    Attach = "attach",
    ReopenContainerLog = "reopen_container_log",
    CheckpointContainer = "checkpoint_container",
    GetContainerEvents = "get_container_events",
    ContainerStats = "container_stats",
    ListContainerStats = "list_container_stats",
    PodSandboxStats = "podsandbox_stats",
    ListPodSandboxStats = "list_podsandbox_stats",
    ListMetricDescriptors = "list_metric_descriptors",
    ListPodSandboxMetrics = "list_podsandbox_metrics",
    ListImages = "list_images",
    ImageStatus = "image_status",
    PullImage = "pull_image",
    RemoveImage = "remove_image",
    ImageFsInfo = "image_fs_info",
}
