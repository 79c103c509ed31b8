//! Starting one container.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Secret};
use tracing::{debug, error, info, warn};

use super::records::uid;
use super::sandbox::{Sandbox, make_folder};
use super::spec::reference;
use super::{Kuberuntime, off_thread};
use crate::container::{ContainerId, PodStatus};
use crate::cri::v1;
use crate::events::EventType;
use crate::images::ImageErrorReason;
use crate::interrupt::Interrupt;
use crate::kuberuntime::back_off::{self, Decision};
use crate::kuberuntime::container_config::{ConfigError, ContainerInputs, ImageUser, container_config};
use crate::kuberuntime::log_path::{container_logs_directory, legacy_log_symlink, restart_count_by_logs};
use crate::kuberuntime::sync_result::{PodSyncResult, SyncAction, SyncError};
use crate::pod_text::pod_text;

const FAILED: &str = "Failed";
const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";

/// What containers of one pod are started with.
pub(super) struct Start<'a> {
    pub(super) pod: &'a Pod,
    pub(super) status: &'a PodStatus,
    pub(super) sandbox: &'a Sandbox,
    pub(super) pull_secrets: &'a [Secret],
    pub(super) interrupt: &'a Interrupt,
}

/// The kinds of containers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Regular,
    Init,
    /// The target is the container whose processes it is to see.
    Ephemeral {
        target: Option<&'a str>,
    },
}

impl Kind<'_> {
    /// The label `container_type` of metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Regular => "container",
            Self::Init => "init_container",
            Self::Ephemeral { .. } => "ephemeral_container",
        }
    }
}

impl Kuberuntime {
    /// Starts a container, unless it is held back; the step is in the result, and a failure was told.
    pub(super) async fn start(
        &self,
        start: &Start<'_>,
        kind: Kind<'_>,
        container: &Container,
        result: &mut PodSyncResult,
    ) -> Result<(), ()> {
        let (pod, name, label) = (pod_text(start.pod), container.name.as_str(), kind.label());
        let ended = match self.held_back(start, container) {
            Some(held_back) => Err(held_back),
            None => {
                self.metrics.started_containers.with_label_values(&[label]).inc();
                let ended = self.start_now(start, kind, container).await;
                if let Err(error) = &ended {
                    let labels = [label, error.reason.as_str()];
                    self.metrics.started_containers_errors.with_label_values(&labels).inc();
                }
                ended
            }
        };
        match &ended {
            Ok(()) => {}
            // Already told as often as it is of use.
            Err(SyncError { reason, message, .. })
                if reason == CRASH_LOOP_BACK_OFF || reason == ImageErrorReason::ImagePullBackOff.as_str() =>
            {
                debug!(
                    pod,
                    name,
                    kind = label,
                    reason,
                    note = message,
                    "Backing Off restarting container in pod"
                );
            }
            Err(SyncError { reason, message, .. }) => {
                error!(pod, name, kind = label, reason, note = message, "a container could not be started");
            }
        }
        let started = ended.as_ref().map(|_| ()).map_err(|_| ());
        result.push(SyncAction::StartContainer, name, ended);
        started
    }

    /// Why the container must not be started yet, if so.
    fn held_back(&self, start: &Start<'_>, container: &Container) -> Option<SyncError> {
        let (pod, now) = (start.pod, (self.clock)());
        let decision = self.back_off.lock().check(pod, container, start.status, now);
        let Decision::Wait { delay, until } = decision else { return None };
        let text =
            format!("Back-off restarting failed container {} in pod {}", container.name, pod_text(pod));
        self.events.event(&reference(pod, &container.name), EventType::Warning, "BackOff", &text);
        Some(SyncError {
            reason: CRASH_LOOP_BACK_OFF.to_owned(),
            message: back_off::message(delay, &container.name, pod),
            retry_in: Some(Duration::try_from(until.duration_since(now)).unwrap_or_default()),
        })
    }

    async fn start_now(
        &self,
        start: &Start<'_>,
        kind: Kind<'_>,
        container: &Container,
    ) -> Result<(), SyncError> {
        let (pod, sandbox, name) = (start.pod, start.sandbox, container.name.as_str());
        let config = self.configured(start, kind, container).await?;
        let resources = container.resources.clone().unwrap_or_default();
        self.records.set_actuated(&uid(pod), name, resources);
        self.records
            .save()
            .await
            .map_err(|error| self.failed(pod, name, "", "CreateContainerConfigError", &error.to_string()))?;

        let create = self.runtime.create_container(&sandbox.id, &config, &sandbox.config);
        let created = start.interrupt.whole(create).await;
        let id =
            created.map_err(|error| self.failed(pod, name, "", "CreateContainerError", error.message()))?;
        self.killer.event(pod, name, &id, EventType::Normal, "Created", "Container created");
        let started = start.interrupt.whole(self.runtime.start_container(&id)).await;
        started.map_err(|error| self.failed(pod, name, &id, "RunContainerError", error.message()))?;
        self.killer.event(pod, name, &id, EventType::Normal, "Started", "Container started");
        self.link_log(pod, container, &id, &Path::new(&sandbox.config.log_directory).join(&config.log_path))
            .await;
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        match hook {
            Some(hook) => {
                let id = ContainerId::new(self.options.runtime_name.clone(), id);
                self.post_start(pod, container, id, hook).await
            }
            None => Ok(()),
        }
    }

    /// Gets the image and all else that the container's configuration needs, and puts it together.
    async fn configured(
        &self,
        start: &Start<'_>,
        kind: Kind<'_>,
        container: &Container,
    ) -> Result<v1::ContainerConfig, SyncError> {
        let (pod, sandbox, name) = (start.pod, start.sandbox, container.name.as_str());
        let involved = reference(pod, name);
        let image = self
            .images
            .ensure_image_exists(pod, container, &involved, start.pull_secrets, &sandbox.config)
            .await
            .map_err(|error| {
                let reason = error.reason.as_str();
                self.events.event(&involved, EventType::Warning, FAILED, &format!("Error: {reason}"));
                SyncError::new(reason, error.message)
            })?;
        let restart_count = self.restart_count(start, name).await;
        let wrong = |message: String| self.failed(pod, name, "", ConfigError::REASON, &message);
        let target = match kind {
            Kind::Ephemeral { target: Some(target) } => {
                let found = start.status.container(target);
                Some(found.ok_or_else(|| wrong(format!("unable to find target container {target}")))?)
            }
            _ => None,
        };
        let options = self.helper.container_options(pod, container, &sandbox.ips).await.map_err(wrong)?;
        let spec = v1::ImageSpec { image: container.image.clone().unwrap_or_default(), ..Default::default() };
        let status = self.image_service.image_status(&spec).await;
        let status = status.map_err(|error| wrong(error.message().to_owned()))?;
        let termination_message = self.termination_message_path(pod, container);
        let image_user = ImageUser::of(status.image.as_ref());
        let groups = self.helper.extra_supplemental_groups(pod);
        let mut inputs = ContainerInputs {
            image_ref: &image,
            restart_count,
            options: &options,
            image_user: &image_user,
            target_container: target.map(|target| target.id.id.as_str()),
            termination_message: termination_message.as_deref(),
            extra_supplemental_groups: &groups,
            node: &self.options.node,
        };
        let configure = |inputs: &ContainerInputs<'_>| {
            container_config(pod, container, inputs).map_err(|error| wrong(error.to_string()))
        };
        let mut config = configure(&inputs)?;
        make_folder(self.log_folder(pod, name), 0o755).await.map_err(|error| {
            wrong(format!("create container log directory for container {name} failed: {error}"))
        })?;
        // Not before all else is well, or each try would leave one.
        if let Some(file) = &termination_message
            && let Err(error) = make_termination_message(file.clone()).await.map_err(wrong)?
        {
            error!(pod = pod_text(pod), container = name, %error, "error on creating termination-log file");
            inputs.termination_message = None;
            config = configure(&inputs)?;
        }
        Ok(config)
    }

    /// Tells that a container could not be had, and gives what is to be said in its waiting state.
    fn failed(&self, pod: &Pod, name: &str, id: &str, reason: &'static str, message: &str) -> SyncError {
        self.killer.event(pod, name, id, EventType::Warning, FAILED, &format!("Error: {message}"));
        SyncError::new(reason, message)
    }

    /// How many containers of this name came before: one more than the newest has, or than the logs show where the runtime
    /// forgot, so that no log is written over. Past the highest number it begins anew, as upstream's attempt does: under a number
    /// that an ended container has, none could be created.
    async fn restart_count(&self, start: &Start<'_>, name: &str) -> u32 {
        if let Some(newest) = start.status.container(name) {
            return newest.restart_count.wrapping_add(1);
        }
        let folder = self.log_folder(start.pod, name);
        let listed = off_thread({
            let folder = folder.clone();
            move || file_names(&folder)
        });
        match listed.await {
            Ok(names) => restart_count_by_logs(names.iter().map(String::as_str)),
            Err(error) => {
                info!(folder = %folder.display(), %error, "Cannot calculate restartCount from the log directory");
                0
            }
        }
    }

    fn log_folder(&self, pod: &Pod, container: &str) -> PathBuf {
        let meta = &pod.metadata;
        let (name, namespace) = (meta.name.as_deref(), meta.namespace.as_deref());
        container_logs_directory(
            &self.options.pod_logs,
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
            &uid(pod),
            container,
        )
    }

    /// Where the container's termination message is to go, under a name of its own for each incarnation; none where the
    /// container has no path for it.
    fn termination_message_path(&self, pod: &Pod, container: &Container) -> Option<PathBuf> {
        container.termination_message_path.as_ref().filter(|path| !path.is_empty())?;
        let folder = self.options.root.pod_container(&uid(pod), &container.name);
        Some(folder.join(format!("{:08x}", rand::random::<u32>())))
    }

    /// Links the log where collectors of the old way look for it.
    async fn link_log(&self, pod: &Pod, container: &Container, id: &str, log: &Path) {
        let meta = &pod.metadata;
        let (name, namespace) = (meta.name.as_deref(), meta.namespace.as_deref());
        let root = &self.options.container_log_links;
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        let link = legacy_log_symlink(root, namespace, name, &container.name, id);
        let log = log.to_owned();
        let linked = off_thread(move || {
            // A link to nothing would only be garbage.
            if log.exists() && link.parent().is_some_and(Path::is_dir) { symlink(log, link) } else { Ok(()) }
        });
        if let Err(error) = linked.await {
            warn!(pod = pod_text(pod), container = container.name, %error, "Failed to create legacy symbolic link");
        }
    }
}

/// Makes the file for a termination message. That it can't be made, within, does not stop the container.
///
/// Fails, in words, where its folder can't be made.
async fn make_termination_message(file: PathBuf) -> Result<io::Result<()>, String> {
    if let Some(folder) = file.parent() {
        make_folder(folder.to_owned(), 0o750).await?;
    }
    let made = off_thread(move || {
        // Whoever the container runs as may write to it, whatever the mask of this process.
        File::create(&file)?.set_permissions(Permissions::from_mode(0o666))
    });
    Ok(made.await)
}

/// The names of files in a folder; none where the folder is not there.
fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let files = entries
        .filter(|entry| !entry.as_ref().is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())));
    files.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
