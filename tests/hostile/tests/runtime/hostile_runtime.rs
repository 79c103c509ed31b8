//! A runtime that answers what an input says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use parking_lot::RwLock;
use steersman_node::cri::v1;
use steersman_node::runtime::simulated::SimulatedRuntime;
use steersman_node::runtime::{Code, ContainerEvents, Error, ImageService, Result, RuntimeService};
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::answers::Answers;

/// More calls than this for one input, of an agent that lives for some minutes, are calls without end.
const MOST_CALLS: u64 = 200_000;

/// What the ids of containers begin with that are only there to show a change.
const CHANGE: &str = "change-";
/// The most pods that such containers are added to.
const CHANGES: usize = 10;

/// A simulated runtime that does all that it is asked to, and tells the truth until it is [given](Self::answer) other answers.
#[derive(Clone)]
pub(crate) struct HostileRuntime {
    pub(crate) simulated: SimulatedRuntime,
    shared: Arc<Shared>,
}

struct Shared {
    answers: RwLock<Option<Arc<Answers>>>,
    events: broadcast::Sender<v1::ContainerEventResponse>,
    calls: AtomicU64,
    began: Instant,
}

impl HostileRuntime {
    pub(crate) fn over(simulated: SimulatedRuntime) -> Self {
        let shared = Shared {
            answers: RwLock::default(),
            events: broadcast::Sender::new(4096),
            calls: AtomicU64::new(0),
            began: Instant::now(),
        };
        Self { simulated, shared: Arc::new(shared) }
    }

    /// Gives these answers from now on; `None` for the truth.
    pub(crate) fn answer(&self, answers: Option<Answers>) {
        let answers = answers.map(Arc::new);
        self.shared.calls.store(0, Ordering::Relaxed);
        self.shared.answers.write().clone_from(&answers);
        for event in answers.iter().flat_map(|answers| &answers.events) {
            // Without a stream, nobody hears of it.
            let _ = self.shared.events.send(event.clone());
        }
    }

    /// What to answer, unless it is the truth.
    fn answers(&self) -> Option<Arc<Answers>> {
        let calls = self.shared.calls.fetch_add(1, Ordering::Relaxed);
        assert!(calls < MOST_CALLS, "the agent calls the runtime without end");
        self.shared.answers.read().clone()
    }

    /// The id of what was created.
    fn created(&self, id: String) -> String {
        match self.answers() {
            Some(answers) if !answers.created.is_empty() => answers.created.clone(),
            _ => id,
        }
    }

    /// Adds a container to each pod, another one each second, which is gone when the agent asks for it: the agent looks closely at
    /// pods only where a list shows a change.
    fn with_changes(
        &self,
        mut listed: Vec<v1::Container>,
        filter: &v1::ContainerFilter,
    ) -> Vec<v1::Container> {
        let created = v1::ContainerState::ContainerCreated.into();
        if filter.state.is_some_and(|wanted| wanted.state != created) {
            return listed;
        }
        let uid = |of: &v1::Container| of.labels.get("io.kubernetes.pod.uid").cloned();
        let pods: BTreeMap<_, _> =
            listed.iter().map(|container| (uid(container), container.clone())).collect();
        let second = self.shared.began.elapsed().as_secs();
        listed.extend(pods.into_values().take(CHANGES).map(|of| {
            let id = format!("{CHANGE}{second}");
            v1::Container { id, state: created, labels: of.labels, ..v1::Container::default() }
        }));
        listed
    }

    fn url(&self) -> Result<String> {
        let answers = self.answers();
        answers.map(|answers| answers.stream.clone()).ok_or_else(|| missing(Code::Unimplemented))
    }
}

fn missing(code: Code) -> Error {
    Error::status(code, "there is none")
}

#[async_trait]
impl RuntimeService for HostileRuntime {
    async fn version(&self, api_version: &str) -> Result<v1::VersionResponse> {
        match self.answers() {
            Some(answers) => answers.version.clone().ok_or_else(|| missing(Code::Unknown)),
            None => self.simulated.version(api_version).await,
        }
    }

    async fn status(&self) -> Result<v1::StatusResponse> {
        match self.answers() {
            Some(answers) => answers.status.clone().ok_or_else(|| missing(Code::Unknown)),
            None => self.simulated.status().await,
        }
    }

    async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse> {
        self.simulated.runtime_config().await
    }

    async fn update_runtime_config(&self, runtime_config: &v1::RuntimeConfig) -> Result<()> {
        self.simulated.update_runtime_config(runtime_config).await
    }

    async fn run_pod_sandbox(&self, config: &v1::PodSandboxConfig, runtime_handler: &str) -> Result<String> {
        Ok(self.created(self.simulated.run_pod_sandbox(config, runtime_handler).await?))
    }

    async fn stop_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()> {
        self.simulated.stop_pod_sandbox(pod_sandbox_id).await
    }

    async fn remove_pod_sandbox(&self, pod_sandbox_id: &str) -> Result<()> {
        self.simulated.remove_pod_sandbox(pod_sandbox_id).await
    }

    async fn pod_sandbox_status(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStatusResponse> {
        match self.answers() {
            Some(answers) => answers.sandbox_status(pod_sandbox_id).ok_or_else(|| missing(Code::NotFound)),
            None => self.simulated.pod_sandbox_status(pod_sandbox_id).await,
        }
    }

    async fn list_pod_sandbox(&self, filter: &v1::PodSandboxFilter) -> Result<Vec<v1::PodSandbox>> {
        match self.answers() {
            Some(answers) => Ok(answers.sandboxes(filter)),
            None => self.simulated.list_pod_sandbox(filter).await,
        }
    }

    async fn port_forward(&self, _: &v1::PortForwardRequest) -> Result<v1::PortForwardResponse> {
        Ok(v1::PortForwardResponse { url: self.url()? })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: &v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<v1::UpdatePodSandboxResourcesResponse> {
        self.simulated.update_pod_sandbox_resources(request).await
    }

    async fn create_container(
        &self,
        pod_sandbox_id: &str,
        config: &v1::ContainerConfig,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String> {
        Ok(self.created(self.simulated.create_container(pod_sandbox_id, config, sandbox_config).await?))
    }

    async fn start_container(&self, container_id: &str) -> Result<()> {
        self.simulated.start_container(container_id).await
    }

    async fn stop_container(&self, container_id: &str, grace: Duration) -> Result<()> {
        self.simulated.stop_container(container_id, grace).await
    }

    async fn remove_container(&self, container_id: &str) -> Result<()> {
        self.simulated.remove_container(container_id).await
    }

    async fn list_containers(&self, filter: &v1::ContainerFilter) -> Result<Vec<v1::Container>> {
        match self.answers() {
            Some(answers) => Ok(self.with_changes(answers.containers(filter), filter)),
            None => self.simulated.list_containers(filter).await,
        }
    }

    async fn container_status(&self, container_id: &str) -> Result<v1::ContainerStatusResponse> {
        match self.answers() {
            Some(_) if container_id.starts_with(CHANGE) => Err(missing(Code::NotFound)),
            Some(answers) => answers.container_status(container_id).ok_or_else(|| missing(Code::NotFound)),
            None => self.simulated.container_status(container_id).await,
        }
    }

    async fn update_container_resources(
        &self,
        container_id: &str,
        resources: &v1::ContainerResources,
    ) -> Result<()> {
        self.simulated.update_container_resources(container_id, resources).await
    }

    async fn exec_sync(
        &self,
        container_id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse> {
        match self.answers() {
            Some(answers) => answers.exec.clone().ok_or_else(|| missing(Code::Unknown)),
            None => self.simulated.exec_sync(container_id, command, timeout).await,
        }
    }

    async fn exec(&self, _: &v1::ExecRequest) -> Result<v1::ExecResponse> {
        Ok(v1::ExecResponse { url: self.url()? })
    }

    async fn attach(&self, _: &v1::AttachRequest) -> Result<v1::AttachResponse> {
        Ok(v1::AttachResponse { url: self.url()? })
    }

    async fn reopen_container_log(&self, container_id: &str) -> Result<()> {
        self.simulated.reopen_container_log(container_id).await
    }

    async fn checkpoint_container(&self, request: &v1::CheckpointContainerRequest) -> Result<()> {
        self.simulated.checkpoint_container(request).await
    }

    async fn get_container_events(&self) -> Result<ContainerEvents> {
        // A reader that is too slow misses the rest.
        let made_up = stream::unfold(self.shared.events.subscribe(), |mut events| async move {
            events.recv().await.ok().map(|event| (Ok(event), events))
        });
        Ok(stream::select(self.simulated.get_container_events().await?, made_up).boxed())
    }

    async fn container_stats(&self, container_id: &str) -> Result<v1::ContainerStats> {
        self.simulated.container_stats(container_id).await
    }

    async fn list_container_stats(
        &self,
        filter: &v1::ContainerStatsFilter,
    ) -> Result<Vec<v1::ContainerStats>> {
        self.simulated.list_container_stats(filter).await
    }

    async fn pod_sandbox_stats(&self, pod_sandbox_id: &str) -> Result<v1::PodSandboxStats> {
        self.simulated.pod_sandbox_stats(pod_sandbox_id).await
    }

    async fn list_pod_sandbox_stats(
        &self,
        filter: &v1::PodSandboxStatsFilter,
    ) -> Result<Vec<v1::PodSandboxStats>> {
        match self.answers() {
            Some(answers) => Ok(answers.sandbox_stats.clone()),
            None => self.simulated.list_pod_sandbox_stats(filter).await,
        }
    }

    async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>> {
        self.simulated.list_metric_descriptors().await
    }

    async fn list_pod_sandbox_metrics(&self) -> Result<Vec<v1::PodSandboxMetrics>> {
        self.simulated.list_pod_sandbox_metrics().await
    }
}

#[async_trait]
impl ImageService for HostileRuntime {
    async fn list_images(&self, filter: &v1::ImageFilter) -> Result<Vec<v1::Image>> {
        match self.answers() {
            Some(answers) => Ok(answers.images.clone()),
            None => self.simulated.list_images(filter).await,
        }
    }

    async fn image_status(&self, image: &v1::ImageSpec) -> Result<v1::ImageStatusResponse> {
        match self.answers() {
            Some(answers) => {
                let named = |found: &&v1::Image| found.repo_tags.contains(&image.image);
                let image = answers.images.iter().find(named).or(answers.images.last()).cloned();
                Ok(v1::ImageStatusResponse { image, ..Default::default() })
            }
            None => self.simulated.image_status(image).await,
        }
    }

    async fn pull_image(
        &self,
        image: &v1::ImageSpec,
        auth: Option<&v1::AuthConfig>,
        sandbox_config: Option<&v1::PodSandboxConfig>,
    ) -> Result<String> {
        Ok(self.created(self.simulated.pull_image(image, auth, sandbox_config).await?))
    }

    async fn remove_image(&self, image: &v1::ImageSpec) -> Result<()> {
        self.simulated.remove_image(image).await
    }

    async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse> {
        match self.answers() {
            Some(answers) => answers.image_fs.clone().ok_or_else(|| missing(Code::Unknown)),
            None => self.simulated.image_fs_info().await,
        }
    }
}
