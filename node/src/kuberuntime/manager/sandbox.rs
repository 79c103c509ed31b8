//! Making a pod's sandbox.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use tracing::{debug, error};

use super::convert::{sandbox_ips, sandbox_status};
use super::records::uid;
use super::spec::is_on_host_network;
use super::{Kuberuntime, off_thread};
use crate::cri::v1;
use crate::events::{EventType, pod_reference};
use crate::interrupt::Interrupt;
use crate::kuberuntime::log_path::pod_logs_directory;
use crate::kuberuntime::resource_claims;
use crate::kuberuntime::sandbox_config::{SandboxInputs, pod_sandbox_config};
use crate::kuberuntime::sync_result::SyncError;
use crate::pod_text::pod_text;

/// A sandbox that containers are started in.
pub(super) struct Sandbox {
    pub(super) id: String,
    /// What it was made from.
    pub(super) config: v1::PodSandboxConfig,
    /// Its addresses, the first one first; none in the node's network.
    pub(super) ips: Vec<String>,
}

impl Kuberuntime {
    /// Makes the sandbox number `attempt` of the pod, and reads its addresses. Refuses pods that claim devices. An event
    /// has told a failure.
    pub(super) async fn create_sandbox(
        &self,
        pod: &Pod,
        attempt: u32,
        interrupt: &Interrupt,
    ) -> Result<Sandbox, SyncError> {
        self.metrics.started_pods.inc();
        if let Some(why) = resource_claims::refusal(pod) {
            let (reason, text) =
                ("FailedPrepareDynamicResources", format!("Failed to prepare dynamic resources: {why}"));
            self.events.event(&pod_reference(pod), EventType::Warning, reason, &text);
            return Err(SyncError::new("CreatePodSandboxError", text));
        }
        self.records.set_actuated_pod(pod);
        let (id, config) = self.run_sandbox(pod, attempt, interrupt).await.map_err(|(message, error)| {
            self.metrics.started_pods_errors.inc();
            error!(pod = pod_text(pod), error, "CreatePodSandbox for pod failed");
            let text = format!("Failed to create pod sandbox: {error}");
            self.events.event(&pod_reference(pod), EventType::Warning, "FailedCreatePodSandBox", &text);
            SyncError::new("CreatePodSandboxError", message)
        })?;
        debug!(pod = pod_text(pod), sandbox = id, "Created PodSandbox for pod");
        let answer = self.runtime.pod_sandbox_status(&id).await.map_err(|error| {
            error!(pod = pod_text(pod), %error, "Failed to get pod sandbox status; Skipping pod");
            let text = format!("Unable to get pod sandbox status: {error}");
            self.events.event(&pod_reference(pod), EventType::Warning, "FailedPodSandBoxStatus", &text);
            SyncError::new("CreatePodSandboxError", error.to_string())
        })?;
        let ips = if is_on_host_network(pod) {
            Vec::new()
        } else {
            answer.status.map(|status| sandbox_ips(&sandbox_status(status))).unwrap_or_default()
        };
        (self.sandbox_ready)(pod);
        Ok(Sandbox { id, config, ips })
    }

    /// Fails with the message for the result and that for the event.
    async fn run_sandbox(
        &self,
        pod: &Pod,
        attempt: u32,
        interrupt: &Interrupt,
    ) -> Result<(String, v1::PodSandboxConfig), (String, String)> {
        let told =
            |what: &str, error: String| (format!("{what} for pod {:?}: {error}", pod_text(pod)), error);
        let config = self.sandbox_config(pod, attempt).await;
        let config = config.map_err(|error| told("Failed to generate sandbox config", error))?;
        make_folder(PathBuf::from(&config.log_directory), 0o755)
            .await
            .map_err(|error| told("Failed to create log directory", error))?;
        let handler = self.helper.runtime_handler(pod).await;
        let handler = handler.map_err(|error| told("Failed to create sandbox", error))?;
        let began = Instant::now();
        let id = interrupt.whole(self.runtime.run_pod_sandbox(&config, &handler)).await;
        self.metrics.run_sandbox.with_label_values(&[&handler]).observe(began.elapsed().as_secs_f64());
        if id.is_err() {
            self.metrics.run_sandbox_errors.with_label_values(&[&handler]).inc();
        }
        let id = id.map_err(|error| told("Failed to create sandbox", error.to_string()))?;
        Ok((id, config))
    }

    /// What the pod's sandbox of that number is made from.
    pub(super) async fn sandbox_config(
        &self,
        pod: &Pod,
        attempt: u32,
    ) -> Result<v1::PodSandboxConfig, String> {
        let dns = self.helper.pod_dns(pod).await?;
        let (hostname, domain) = self.helper.hostname_and_domain(pod)?;
        let meta = &pod.metadata;
        let (name, namespace) = (meta.name.as_deref(), meta.namespace.as_deref());
        let log_directory = pod_logs_directory(
            &self.options.pod_logs,
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
            &uid(pod),
        );
        let inputs = SandboxInputs {
            dns: &dns,
            hostname: &hostname,
            domain: &domain,
            cgroup_parent: &self.helper.cgroup_parent(pod),
            log_directory: &log_directory.to_string_lossy(),
            extra_supplemental_groups: &self.helper.extra_supplemental_groups(pod),
            node: &self.options.node,
        };
        pod_sandbox_config(pod, attempt, &inputs)
    }
}

/// Makes a folder and those above it; new ones get that mode. Fails in words.
pub(super) async fn make_folder(path: PathBuf, mode: u32) -> Result<(), String> {
    off_thread(move || {
        if path.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(mode))
    })
    .await
    .map_err(|error| error.to_string())
}
