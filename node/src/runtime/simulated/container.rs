//! A container of the simulation: what it is, and how the CRI shows it.

use tokio::sync::watch;
use tokio::time::Instant;

use super::behaviour::ContainerBehaviour;
use super::clock::Clock;
use super::log_file::LogFile;
use super::usage;
use crate::cri::v1;

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Exit {
    pub(super) code: i32,
    /// `None`: `Completed` for code 0, `Error` for others.
    pub(super) reason: Option<String>,
    /// For the kubelet, by way of the runtime.
    pub(super) message: String,
}

impl Exit {
    /// By SIGKILL: 128 and the signal's number.
    pub(super) fn killed() -> Self {
        Self { code: 137, ..Self::default() }
    }

    /// It never ran; containerd's code and reason.
    pub(super) fn not_started(message: &str) -> Self {
        Self { code: 128, reason: Some("StartError".into()), message: message.into() }
    }
}

/// Where in its life a container is. It goes through these in order, and may leave out the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Life {
    Created,
    Running { since: Instant },
    Exited { started: Option<Instant>, at: Instant, exit: Exit },
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    /// What nobody else may be called meanwhile.
    pub(super) reserved: String,
    /// One that is there, and has this among its containers.
    pub(super) sandbox: String,
    pub(super) config: v1::ContainerConfig,
    pub(super) behaviour: ContainerBehaviour,
    pub(super) image: v1::Image,
    pub(super) created: Instant,
    pub(super) life: Life,
    /// Open while it runs, where logs are written.
    pub(super) log: Option<LogFile>,
    /// SIGTERM was sent; it is sent once.
    pub(super) asked_to_stop: bool,
    /// True once it has exited.
    pub(super) ended: watch::Sender<bool>,
}

impl Container {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.life, Life::Running { .. })
    }

    pub(super) fn state(&self) -> v1::ContainerState {
        match self.life {
            Life::Created => v1::ContainerState::ContainerCreated,
            Life::Running { .. } => v1::ContainerState::ContainerRunning,
            Life::Exited { .. } => v1::ContainerState::ContainerExited,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.config.metadata.as_ref().map_or("", |metadata| &metadata.name)
    }

    pub(super) fn matches(&self, filter: &v1::ContainerFilter) -> bool {
        (filter.id.is_empty() || filter.id == self.id)
            && filter.state.as_ref().is_none_or(|wanted| wanted.state == i32::from(self.state()))
            && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == self.sandbox)
            && filter.label_selector.iter().all(|(key, value)| self.config.labels.get(key) == Some(value))
    }

    /// As `list_containers` shows it.
    pub(super) fn listed(&self, clock: Clock) -> v1::Container {
        v1::Container {
            id: self.id.clone(),
            pod_sandbox_id: self.sandbox.clone(),
            metadata: self.config.metadata.clone(),
            image: self.config.image.clone(),
            image_ref: self.image.id.clone(),
            state: self.state().into(),
            created_at: clock.nanos(self.created),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            image_id: self.image.id.clone(),
        }
    }

    /// As `container_status` shows it.
    pub(super) fn status(&self, clock: Clock, log_directory: &str) -> v1::ContainerStatus {
        let (started, finished, exit) = match &self.life {
            Life::Created => (None, None, None),
            Life::Running { since } => (Some(*since), None, None),
            Life::Exited { started, at, exit } => (*started, Some(*at), Some(exit)),
        };
        let nanos = |at: Option<Instant>| at.map_or(0, |at| clock.nanos(at));
        let reason = exit.map(|exit| match (&exit.reason, exit.code) {
            (Some(reason), _) => reason.clone(),
            (None, 0) => "Completed".into(),
            (None, _) => "Error".into(),
        });
        let linux = self.config.linux.as_ref().and_then(|linux| linux.resources.clone());
        v1::ContainerStatus {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state().into(),
            created_at: clock.nanos(self.created),
            started_at: nanos(started),
            finished_at: nanos(finished),
            exit_code: exit.map_or(0, |exit| exit.code),
            image: Some(v1::ImageSpec {
                image: self.image.repo_tags.first().unwrap_or(&self.image.id).clone(),
                ..Default::default()
            }),
            image_ref: self.image.repo_digests.first().unwrap_or(&self.image.id).clone(),
            reason: reason.unwrap_or_default(),
            message: exit.map(|exit| exit.message.clone()).unwrap_or_default(),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            mounts: self.config.mounts.clone(),
            log_path: if self.config.log_path.is_empty() {
                String::new()
            } else {
                format!("{log_directory}/{}", self.config.log_path)
            },
            resources: linux.map(|linux| v1::ContainerResources { linux: Some(linux), windows: None }),
            image_id: self.image.id.clone(),
            user: None,
            stop_signal: self.config.stop_signal,
        }
    }

    /// What it uses; processor time goes by the time it has run.
    pub(super) fn stats(&self, clock: Clock, now: Instant) -> v1::ContainerStats {
        let ran = match &self.life {
            Life::Running { since } => now.saturating_duration_since(*since),
            _ => Default::default(),
        };
        v1::ContainerStats {
            attributes: Some(v1::ContainerAttributes {
                id: self.id.clone(),
                metadata: self.config.metadata.clone(),
                labels: self.config.labels.clone(),
                annotations: self.config.annotations.clone(),
            }),
            cpu: Some(usage::cpu(clock.nanos(now), ran, self.behaviour.usage.cpu_millis)),
            memory: Some(usage::memory(clock.nanos(now), self.behaviour.usage.memory_bytes)),
            writable_layer: Some(usage::file_system(clock.nanos(now), 0, 0)),
            ..Default::default()
        }
    }

    /// Where its termination message goes on the node: the kubelet mounts a file and annotates its path.
    pub(super) fn termination_log(&self) -> Option<&str> {
        let path = self.config.annotations.get("io.kubernetes.container.terminationMessagePath")?;
        let mount = self.config.mounts.iter().find(|mount| mount.container_path == *path)?;
        Some(&mount.host_path)
    }
}
