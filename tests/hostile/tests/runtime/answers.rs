//! All that a runtime answers, as one message: an input of the test.

use prost::Message;
use steersman_node::cri::v1;
use steersman_node::runtime::{ImageService, RuntimeService};

/// The answers of a runtime, whatever is done to its containers meanwhile.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) sandboxes: Vec<v1::PodSandbox>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<v1::Container>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) sandbox_statuses: Vec<v1::PodSandboxStatusResponse>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) container_statuses: Vec<v1::ContainerStatusResponse>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) sandbox_stats: Vec<v1::PodSandboxStats>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) images: Vec<v1::Image>,
    #[prost(message, optional, tag = "7")]
    pub(crate) image_fs: Option<v1::ImageFsInfoResponse>,
    #[prost(message, optional, tag = "8")]
    pub(crate) status: Option<v1::StatusResponse>,
    #[prost(message, optional, tag = "9")]
    pub(crate) version: Option<v1::VersionResponse>,
    /// Told as soon as these answers are given.
    #[prost(message, repeated, tag = "10")]
    pub(crate) events: Vec<v1::ContainerEventResponse>,
    #[prost(message, optional, tag = "11")]
    pub(crate) exec: Option<v1::ExecSyncResponse>,
    /// The id of what is created, in the place of its own; none where it is empty.
    #[prost(string, tag = "12")]
    pub(crate) created: String,
    /// Whether lists show only what they are asked for.
    #[prost(bool, tag = "13")]
    pub(crate) filters: bool,
    /// Where streams are to be had.
    #[prost(string, tag = "14")]
    pub(crate) stream: String,
    /// Whether the answers are given for so long that garbage is collected meanwhile.
    #[prost(bool, tag = "15")]
    pub(crate) long: bool,
    /// Whether the agent starts anew with these answers.
    #[prost(bool, tag = "16")]
    pub(crate) restart: bool,
}

impl Answers {
    /// What a good runtime answers at this moment.
    pub(crate) async fn of<R: RuntimeService + ImageService>(runtime: &R) -> Self {
        let containers = runtime.list_containers(&Default::default()).await.unwrap();
        let sandboxes = runtime.list_pod_sandbox(&Default::default()).await.unwrap();
        let (mut sandbox_statuses, mut container_statuses, mut events) =
            <(Vec<_>, Vec<_>, Vec<_>)>::default();
        for sandbox in &sandboxes {
            let status = runtime.pod_sandbox_status(&sandbox.id).await.unwrap();
            events.push(v1::ContainerEventResponse {
                container_id: sandbox.id.clone(),
                container_event_type: v1::ContainerEventType::ContainerStoppedEvent.into(),
                created_at: sandbox.created_at,
                pod_sandbox_status: status.status.clone(),
                containers_statuses: Vec::new(),
            });
            sandbox_statuses.push(v1::PodSandboxStatusResponse { containers_statuses: Vec::new(), ..status });
        }
        for container in &containers {
            container_statuses.push(runtime.container_status(&container.id).await.unwrap());
        }
        Self {
            sandbox_stats: runtime.list_pod_sandbox_stats(&Default::default()).await.unwrap(),
            images: runtime.list_images(&Default::default()).await.unwrap(),
            image_fs: Some(runtime.image_fs_info().await.unwrap()),
            status: Some(runtime.status().await.unwrap()),
            version: Some(runtime.version("0.1.0").await.unwrap()),
            exec: Some(v1::ExecSyncResponse { stdout: b"well".to_vec(), ..Default::default() }),
            created: String::new(),
            filters: true,
            stream: "http://127.0.0.1:1/".to_owned(),
            long: false,
            restart: false,
            sandboxes,
            containers,
            sandbox_statuses,
            container_statuses,
            events,
        }
    }

    /// The sandboxes that a filter lets through.
    pub(crate) fn sandboxes(&self, filter: &v1::PodSandboxFilter) -> Vec<v1::PodSandbox> {
        let wanted = |sandbox: &&v1::PodSandbox| {
            !self.filters
                || (filter.id.is_empty() || filter.id == sandbox.id)
                    && filter.state.is_none_or(|wanted| wanted.state == sandbox.state)
                    && filter.label_selector.iter().all(|(key, value)| sandbox.labels.get(key) == Some(value))
        };
        self.sandboxes.iter().filter(wanted).cloned().collect()
    }

    /// The containers that a filter lets through.
    pub(crate) fn containers(&self, filter: &v1::ContainerFilter) -> Vec<v1::Container> {
        let wanted = |container: &&v1::Container| {
            !self.filters
                || (filter.id.is_empty() || filter.id == container.id)
                    && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == container.pod_sandbox_id)
                    && filter.state.is_none_or(|wanted| wanted.state == container.state)
                    && filter
                        .label_selector
                        .iter()
                        .all(|(key, value)| container.labels.get(key) == Some(value))
        };
        self.containers.iter().filter(wanted).cloned().collect()
    }

    /// The status of a sandbox; that of another one if it has none. `None` if there is none at all.
    pub(crate) fn sandbox_status(&self, id: &str) -> Option<v1::PodSandboxStatusResponse> {
        let is_of = |answer: &&v1::PodSandboxStatusResponse| {
            answer.status.as_ref().is_some_and(|status| status.id == id)
        };
        self.sandbox_statuses.iter().find(is_of).or_else(|| any(&self.sandbox_statuses, id)).cloned()
    }

    /// The status of a container; that of another one if it has none. `None` if there is none at all.
    pub(crate) fn container_status(&self, id: &str) -> Option<v1::ContainerStatusResponse> {
        let is_of = |answer: &&v1::ContainerStatusResponse| {
            answer.status.as_ref().is_some_and(|status| status.id == id)
        };
        self.container_statuses.iter().find(is_of).or_else(|| any(&self.container_statuses, id)).cloned()
    }
}

/// One of these, always the same for an id.
fn any<'a, T>(all: &'a [T], id: &str) -> Option<&'a T> {
    let sum = id.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    all.get(sum.checked_rem(all.len())?)
}
