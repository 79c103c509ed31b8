//! Commands in containers, containers' own streams, and ports of pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use super::answers::{Answer, error, json, text};
use super::pods::{running, terminal_of};
use super::query::{Invalid, Query};
use super::route::{ContainerPath, PodPath};
use super::service::Server;
use crate::cri::v1;
use crate::kuberuntime::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::runtime::{Code, Error};

/// How long a streaming server keeps what it was asked to prepare; until then it may have no room for more.
const PREPARED_FOR_SECONDS: HeaderValue = HeaderValue::from_static("60");

/// Why there is nothing to be had, as it is told; boxed since answers are large.
type Refusal = Box<Answer>;

/// Where a command's streams are to be had.
pub(super) async fn exec(server: &Server, path: &ContainerPath, query: &Query) -> Result<String, Refusal> {
    let streams = query.streams().map_err(invalid)?;
    let pod = find_pod(server, &path.pod)?;
    let container_id = container_id(server, &pod, path)
        .await?
        .ok_or_else(|| internal(&format!("container not found ({:?})", path.container)))?;
    let request = v1::ExecRequest {
        container_id,
        cmd: query.all("command").map(str::to_owned).collect(),
        tty: streams.tty,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
    };
    server.runtime.exec(&request).await.map(|answer| answer.url).map_err(|error| refused(&error))
}

/// Where a container's own streams are to be had. Whether they are a terminal is up to the container.
pub(super) async fn attach(server: &Server, path: &ContainerPath, query: &Query) -> Result<String, Refusal> {
    let streams = query.streams().map_err(invalid)?;
    let pod = find_pod(server, &path.pod)?;
    let full_name = || format!("{}_{}", path.pod.name, path.pod.namespace);
    let absent = || internal(&format!("container {} not found in pod {}", path.container, full_name()));
    let container_id = container_id(server, &pod, path).await?.ok_or_else(absent)?;
    let tty = terminal_of(&pod, &path.container).ok_or_else(absent)?;
    let request = v1::AttachRequest {
        container_id,
        stdin: streams.stdin,
        tty,
        stdout: streams.stdout,
        // The runtime refuses both; of a container with a terminal all comes from stdout.
        stderr: streams.stderr && !tty,
    };
    server.runtime.attach(&request).await.map(|answer| answer.url).map_err(|error| refused(&error))
}

/// Where ports of a pod are to be had.
pub(super) async fn port_forward(
    server: &Server,
    path: &PodPath,
    query: &Query,
    headers: &HeaderMap,
) -> Result<String, Refusal> {
    let port = query.ports(headers).map_err(invalid)?;
    let pod = find_pod(server, path)?;
    let uid = Uid::from(pod.metadata.uid.as_deref().unwrap_or_default());
    if path.uid.as_ref().is_some_and(|wanted| *wanted != uid) {
        return Err(text(StatusCode::NOT_FOUND, "pod not found").into());
    }
    let uid = server.host.translate_pod_uid(&uid);
    let filter = v1::PodSandboxFilter {
        state: Some(v1::PodSandboxStateValue { state: v1::PodSandboxState::SandboxReady.into() }),
        label_selector: labels([(POD_UID, &uid.to_string())]),
        ..Default::default()
    };
    let sandboxes = server.runtime.list_pod_sandbox(&filter).await.map_err(|error| refused(&error))?;
    // The newest, should there be two.
    let Some(sandbox) = sandboxes.into_iter().max_by_key(|sandbox| sandbox.created_at) else {
        return Err(internal(&format!("pod not found (\"{}_{}\")", path.name, path.namespace)));
    };
    let request = v1::PortForwardRequest { pod_sandbox_id: sandbox.id, port };
    server.runtime.port_forward(&request).await.map(|answer| answer.url).map_err(|error| refused(&error))
}

/// Runs a command to its end and answers with what it wrote.
pub(super) async fn run(server: &Server, path: &ContainerPath, query: &Query) -> Result<Answer, Refusal> {
    let pod = find_pod(server, &path.pod)?;
    let container_id = container_id(server, &pod, path)
        .await?
        .ok_or_else(|| internal(&format!("container not found ({:?})", path.container)))?;
    let command: Vec<String> = query.get("cmd").unwrap_or_default().split(' ').map(str::to_owned).collect();
    let answer = server
        .runtime
        .exec_sync(&container_id, &command, Duration::ZERO)
        .await
        .map_err(|error| internal(&error.to_string()))?;
    if answer.exit_code != 0 {
        let message = format!(
            "command '{}' exited with {}: {}",
            command.join(" "),
            answer.exit_code,
            String::from_utf8_lossy(&answer.stderr)
        );
        return Err(internal(&message));
    }
    Ok(json([answer.stdout, answer.stderr].concat()))
}

fn find_pod(server: &Server, path: &PodPath) -> Result<Arc<Pod>, Refusal> {
    server
        .host
        .pod(&path.namespace, &path.name)
        .ok_or_else(|| text(StatusCode::NOT_FOUND, "pod does not exist").into())
}

/// The id of the container that runs under that name, in the pod of the uid that the path names, else in `pod`.
async fn container_id(server: &Server, pod: &Pod, path: &ContainerPath) -> Result<Option<String>, Refusal> {
    let own = || Uid::from(pod.metadata.uid.as_deref().unwrap_or_default());
    let uid = server.host.translate_pod_uid(&path.pod.uid.clone().unwrap_or_else(own));
    let selector = labels([
        (POD_UID, &uid.to_string()),
        (POD_NAME, &path.pod.name),
        (POD_NAMESPACE, &path.pod.namespace),
        (CONTAINER_NAME, &path.container),
    ]);
    let found = server.runtime.list_containers(&running(selector)).await.map_err(|error| refused(&error))?;
    Ok(found.into_iter().max_by_key(|container| container.created_at).map(|container| container.id))
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn invalid(invalid: Invalid) -> Refusal {
    text(StatusCode::BAD_REQUEST, invalid.0).into()
}

fn internal(message: &str) -> Refusal {
    text(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned()).into()
}

/// As upstream tells of a runtime that does not stream.
fn refused(failure: &Error) -> Refusal {
    let status = match failure.code() {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut answer = text(status, failure.to_string());
    if status == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(RETRY_AFTER, PREPARED_FOR_SECONDS);
    }
    answer.into()
}

/// For a request that wants streams and no upgrade.
pub(super) fn upgrade_required() -> Answer {
    error(StatusCode::INTERNAL_SERVER_ERROR, "Upgrade request required")
}
