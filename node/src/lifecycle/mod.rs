//! The hooks of containers: what runs after their start and before their stop.

mod http_get;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod};
use tracing::debug;

use self::http_get::{Answered, HttpGet, Target};
use crate::container::ContainerId;
use crate::events::{EventType, Events, pod_reference};
use crate::kuberuntime::manager::{Metrics, pod_ips};
use crate::pod_text::pod_text;
use crate::runtime::RuntimeService;

/// Runs hooks. Takes as long as they do: how long that may be is the caller's to say, by dropping the call.
///
/// As in the kubelet, the hook `tcpSocket` is one that the API lets through and that fails when it is run.
pub struct HookRunner {
    runtime: Arc<dyn RuntimeService>,
    events: Events,
    metrics: Metrics,
    http: HttpGet,
}

/// A hook failed; the text is upstream's. It may hold what the command or the server said, and so what is secret: it is for
/// the container's status, and not for events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

impl HookRunner {
    /// One that runs commands by `runtime`.
    pub fn new(runtime: Arc<dyn RuntimeService>, events: Events, metrics: Metrics) -> Self {
        Self { runtime, events, metrics, http: HttpGet::new() }
    }

    /// Runs a hook of a container to its end.
    ///
    /// # Errors
    /// The command can't be run or does not succeed, or no server answers the request; what it answers is all the same.
    pub async fn run(
        &self,
        id: &ContainerId,
        pod: &Pod,
        container: &Container,
        hook: &LifecycleHandler,
    ) -> Result<(), HookError> {
        let of = format!("for Container {:?} in Pod {:?} failed - error", container.name, pod_text(pod));
        if let Some(exec) = &hook.exec {
            self.exec(id, exec).await.map_err(|(error, output)| {
                let command = exec.command.as_deref().unwrap_or_default().join(" ");
                HookError(format!("Exec lifecycle hook ([{command}]) {of}: {error}, message: {output:?}"))
            })
        } else if let Some(request) = &hook.http_get {
            self.http_get(pod, container, request).await.map_err(|error| {
                let path = request.path.as_deref().unwrap_or_default();
                HookError(format!("HTTP lifecycle hook ({path}) {of}: {error}"))
            })
        } else if let Some(sleep) = &hook.sleep {
            let seconds = u64::try_from(sleep.seconds).unwrap_or_default();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(())
        } else {
            let kind = if hook.tcp_socket.is_some() { "tcpSocket can't be run" } else { "it is of no kind" };
            Err(HookError(format!("Cannot run handler: invalid handler: {kind}")))
        }
    }

    /// Fails with what went wrong and the command's output.
    async fn exec(&self, id: &ContainerId, exec: &ExecAction) -> Result<(), (String, String)> {
        let command = exec.command.as_deref().unwrap_or_default();
        let answer = self.runtime.exec_sync(&id.id, command, Duration::ZERO).await;
        let answer = answer.map_err(|error| (error.to_string(), String::new()))?;
        if answer.exit_code == 0 {
            return Ok(());
        }
        let (stdout, stderr) =
            (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        let error = format!("command '{}' exited with {}: {stderr}", command.join(" "), answer.exit_code);
        Err((error, format!("{stdout}{stderr}")))
    }

    async fn http_get(&self, pod: &Pod, container: &Container, get: &HTTPGetAction) -> Result<(), String> {
        let host = match get.host.as_deref().filter(|host| !host.is_empty()) {
            Some(host) => host.to_owned(),
            None => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default().into();
                let ips = pod_ips(&*self.runtime, &uid).await;
                let ips = ips.map_err(|error| {
                    format!("unable to get pod status, event handlers may be invalid: {error}")
                })?;
                ips.into_iter().next().ok_or("failed to find networking container: it has no address")?
            }
        };
        let target = Target::new(get, container, &host)?;
        if self.http.get(&target).await? == Answered::InPlainHttp {
            debug!(pod = pod_text(pod), host = target.authority(), "an HTTPS hook was answered in HTTP");
            if self.http.get(&target.in_plain_http()).await.is_err() {
                return Err(format!(
                    "Get {:?}: http: server gave HTTP response to HTTPS client",
                    target.to_string()
                ));
            }
            self.metrics.http_fallbacks.inc();
            let message = format!(
                "request to HTTPS lifecycle hook {} got HTTP response, retry with HTTP succeeded",
                target.authority()
            );
            self.events.event(&pod_reference(pod), EventType::Warning, "LifecycleHTTPFallback", &message);
        }
        Ok(())
    }
}
