//! Logs of containers.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::answers::{self, Answer, text};
use super::pods::terminal_of;
use super::query::{InvalidLogQuery, Query};
use super::route::ContainerPath;
use super::service::Server;
use crate::container::ContainerId;
use crate::logs::{Followed, LogReader};

/// Answers with the log that a query asks for.
pub(super) async fn container_logs(server: &Server, path: &ContainerPath, query: &Query) -> Answer {
    let wanted = match query.logs(Timestamp::now()) {
        Ok(wanted) => wanted,
        Err(InvalidLogQuery::Undecodable) => {
            return text(StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#);
        }
        Err(InvalidLogQuery::Unprocessable) => {
            return text(StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#);
        }
    };
    let name = &path.pod.name;
    let Some(pod) = server.host.pod(&path.pod.namespace, name) else {
        return text(StatusCode::NOT_FOUND, format!("pod {name:?} does not exist"));
    };
    if terminal_of(&pod, &path.container).is_none() {
        let message = format!("container {:?} not found in pod {name:?}", path.container);
        return text(StatusCode::NOT_FOUND, message);
    }
    let status = server.host.pod_status(&pod).or_else(|| pod.status.clone()).unwrap_or_default();
    let opened = async {
        let id = container_with_log(name, &status, &path.container, wanted.previous)?;
        let container_id = id.parse::<ContainerId>().map(|id| id.id).unwrap_or_default();
        let unable = || format!("unable to retrieve container logs for {id}");
        let answer = server.runtime.container_status(&container_id).await.map_err(|error| {
            tracing::debug!(container = id, %error, "Failed to get container status");
            unable()
        })?;
        let log = answer.status.ok_or_else(unable)?.log_path;
        let followed = Followed { runtime: server.runtime.clone(), container_id };
        LogReader::open(log, wanted.options, wanted.follow.then_some(followed))
            .await
            .map_err(|error| error.to_string())
    };
    match opened.await {
        Ok(reader) => answers::stream(body(reader)),
        Err(message) => text(StatusCode::BAD_REQUEST, message),
    }
}

/// A log as it is read; what keeps it from being read further is said at its end.
fn body(reader: LogReader) -> answers::Body {
    let frame = |bytes: Bytes| Ok::<_, Infallible>(Frame::data(bytes));
    let pieces = stream::unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(bytes)) => Some((frame(bytes), Some(reader))),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(%error, "Reading a container's log failed");
                Some((frame(error.to_string().into()), None))
            }
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// The id, as statuses show it, of the container whose log is that of the one named, or in words why there is none. One
/// that waits to be started again has the log of the one before.
fn container_with_log(
    pod: &str,
    status: &PodStatus,
    container: &str,
    previous: bool,
) -> Result<String, String> {
    let statuses =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let found = statuses.into_iter().flatten().flatten().find(|status| status.name == container);
    let whose = format!("container {container:?} in pod {pod:?}");
    let Some(found) = found else { return Err(format!("{whose} is not available")) };
    let last = last_id(found);
    if previous {
        return last.flatten().ok_or_else(|| format!("previous terminated {whose} not found"));
    }
    let state = found.state.clone().unwrap_or_default();
    if state.running.is_some() {
        return Ok(found.container_id.clone().unwrap_or_default());
    }
    let is_terminated = || format!("{whose} is terminated");
    if let Some(terminated) = state.terminated {
        // Without an id it never ran.
        return id(terminated.container_id).or(last.flatten()).ok_or_else(is_terminated);
    }
    if let Some(last) = last {
        return last.ok_or_else(is_terminated);
    }
    let Some(waiting) = state.waiting else {
        return Err(format!("{whose} is waiting to start - no logs yet"));
    };
    let reason = match waiting.reason.as_deref().unwrap_or_default() {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        other => other,
    };
    Err(format!("{whose} is waiting to start: {reason}"))
}

/// The id of the container before this one, where there was one and it ended; the inner `None` is one that had no id.
fn last_id(status: &ContainerStatus) -> Option<Option<String>> {
    let last = status.last_state.as_ref()?.terminated.as_ref()?;
    Some(id(last.container_id.clone()))
}

fn id(id: Option<String>) -> Option<String> {
    id.filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_log_is_that_of_the_container_that_last_ran() {
        let running = json!({ "running": {} });
        let terminated = |id: &str| json!({ "terminated": { "exitCode": 0, "containerID": id } });
        let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
        let none = json!({});
        let not = |what: &str| Err(format!("container \"c\" in pod \"p\" {what}"));
        let is = |id: &str| Ok(id.to_owned());
        for (state, last, previous, expected) in [
            (&running, &none, false, is("x://now")),
            (&running, &terminated("x://old"), false, is("x://now")),
            (&running, &terminated("x://old"), true, is("x://old")),
            (
                &running,
                &none,
                true,
                Err("previous terminated container \"c\" in pod \"p\" not found".to_owned()),
            ),
            (
                &running,
                &terminated(""),
                true,
                Err("previous terminated container \"c\" in pod \"p\" not found".to_owned()),
            ),
            (&terminated("x://end"), &terminated("x://old"), false, is("x://end")),
            (&terminated(""), &terminated("x://old"), false, is("x://old")),
            (&terminated(""), &none, false, not("is terminated")),
            (&waiting("CrashLoopBackOff"), &terminated("x://old"), false, is("x://old")),
            (&waiting("CrashLoopBackOff"), &terminated(""), false, not("is terminated")),
            (&waiting("ContainerCreating"), &none, false, not("is waiting to start: ContainerCreating")),
            (&waiting("ErrImagePull"), &none, false, not("is waiting to start: image can't be pulled")),
            (
                &waiting("ImagePullBackOff"),
                &none,
                false,
                not("is waiting to start: trying and failing to pull image"),
            ),
            (&none, &none, false, not("is waiting to start - no logs yet")),
        ] {
            for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
                let status = json!({ list: [{
                    "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                    "containerID": "x://now", "state": state, "lastState": last,
                }] });
                let status: PodStatus = serde_json::from_value(status).unwrap();
                let found = container_with_log("p", &status, "c", previous);
                assert_eq!(found, expected, "{state} {last} {previous}");
            }
        }
        assert_eq!(container_with_log("p", &PodStatus::default(), "c", false), not("is not available"));
    }
}
