//! Runs a probe, once it is decided to.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Probe};
use rustls::ClientConfig;

use super::{ProbeKind, exec, grpc, http, tcp};
use crate::container::{ContainerId, port};
use crate::events::{EventType, Events, container_reference};
use crate::kuberuntime::actions::ProbeResult;
use crate::pod_text::pod_text;
use crate::runtime::RuntimeService;

/// How probes call themselves, as those of the kubelet of this version.
pub(super) const USER_AGENT: &str = "kube-probe/1.36";
/// How often a probe is begun that can't be carried out.
const TRIES: u32 = 3;
/// The reason of events about failures, and about probes that can't be carried out.
const UNHEALTHY: &str = "Unhealthy";
/// The reason of events about answers that are good and should not be as they are.
const PROBE_WARNING: &str = "ProbeWarning";

/// How a probe ends.
pub(super) type Attempt = Result<Outcome, ProbeError>;

/// What a container answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) state: State,
    /// What it said.
    pub(super) output: String,
}

impl Outcome {
    pub(super) fn new(state: State, output: impl Into<String>) -> Self {
        Self { state, output: output.into() }
    }
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Success,
    /// A success that somebody should look at.
    Warning,
    Failure,
    Unknown,
}

impl State {
    /// As events have it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Warning => "warning",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

/// A probe could not be carried out: nothing is known of the container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct ProbeError {
    /// What upstream takes it for.
    state: State,
    message: String,
}

impl ProbeError {
    pub(super) fn new(state: State, message: impl Into<String>) -> Self {
        Self { state, message: message.into() }
    }
}

/// The container that is probed.
pub(super) struct Target<'a> {
    pub(super) kind: ProbeKind,
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    pub(super) probe: &'a Probe,
    pub(super) id: &'a ContainerId,
    pub(super) status: &'a PodStatus,
}

/// Runs probes of all kinds, and tells events of those that fail.
#[derive(Clone)]
pub(super) struct Prober {
    runtime: Arc<dyn RuntimeService>,
    events: Events,
    tls: Arc<ClientConfig>,
}

impl Prober {
    pub(super) fn new(runtime: Arc<dyn RuntimeService>, events: Events) -> Self {
        Self { runtime, events, tls: http::tls() }
    }

    /// Probes, and says what is now known of the container: success or failure.
    ///
    /// # Errors
    /// Nothing is known; an event was told.
    pub(super) async fn probe(&self, target: &Target<'_>) -> Result<ProbeResult, ProbeError> {
        let mut attempt = self.attempt(target).await;
        for _ in 1..TRIES {
            if attempt.is_ok() {
                break;
            }
            attempt = self.attempt(target).await;
        }
        let kind = target.kind.as_str();
        let Outcome { state, output } = attempt.inspect_err(|error| {
            let state = error.state.as_str();
            self.event(
                target,
                UNHEALTHY,
                &format!("{kind} probe errored and resulted in {state} state: {error}"),
            );
        })?;
        let (pod, container) = (target.pod.metadata.name.as_deref(), &target.container.name);
        tracing::debug!(pod, container, kind, state = state.as_str(), output, "Probed");
        Ok(match state {
            State::Success => ProbeResult::Success,
            State::Warning => {
                self.event(target, PROBE_WARNING, &format!("{kind} probe warning: {output}"));
                ProbeResult::Success
            }
            State::Failure => {
                self.event(target, UNHEALTHY, &format!("{kind} probe failed: {output}"));
                ProbeResult::Failure
            }
            State::Unknown => ProbeResult::Failure,
        })
    }

    async fn attempt(&self, target: &Target<'_>) -> Attempt {
        let Target { container, probe, .. } = target;
        let timeout = Duration::from_secs(seconds(probe.timeout_seconds, 1));
        let pod_ip = target.status.pod_ip.as_deref().unwrap_or_default();
        let unknown = |message: String| ProbeError::new(State::Unknown, message);
        if let Some(exec) = &probe.exec {
            let command = exec.command.as_deref().unwrap_or_default();
            let env = container.env.as_deref().unwrap_or_default();
            exec::probe(&*self.runtime, &target.id.id, command, env, timeout).await
        } else if let Some(get) = &probe.http_get {
            let port = port::resolve(&get.port, container).map_err(unknown)?;
            // Boxed, like the next: a task that waits for its period has no room for a request.
            Box::pin(http::probe(get, pod_ip, port, timeout, &self.tls)).await
        } else if let Some(socket) = &probe.tcp_socket {
            let port = port::resolve(&socket.port, container).map_err(unknown)?;
            let host = socket.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
            tcp::probe(host, port, timeout).await
        } else if let Some(grpc) = &probe.grpc {
            let port = u16::try_from(grpc.port)
                .map_err(|_| unknown(format!("invalid port number: {}", grpc.port)))?;
            Box::pin(grpc::probe(pod_ip, grpc.service.as_deref().unwrap_or_default(), port, timeout)).await
        } else {
            Err(unknown(format!("missing probe handler for {}:{}", pod_text(target.pod), container.name)))
        }
    }

    fn event(&self, target: &Target<'_>, reason: &'static str, message: &str) {
        let involved = container_reference(target.pod, &field_path(target.pod, &target.container.name));
        self.events.event(&involved, EventType::Warning, reason, message);
    }
}

/// A number of seconds that the API server fills in, or of a pod that did not come from there.
pub(super) fn seconds(given: Option<i32>, default: u64) -> u64 {
    given.and_then(|given| u64::try_from(given).ok()).filter(|given| *given > 0).unwrap_or(default)
}

/// Where in the pod's spec a container stands.
fn field_path(pod: &Pod, container: &str) -> String {
    let ordinary = pod.spec.iter().flat_map(|spec| &spec.containers).any(|other| other.name == container);
    let list = if ordinary { "containers" } else { "initContainers" };
    format!("spec.{list}{{{container}}}")
}
