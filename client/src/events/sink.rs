//! The calls that write events.

use std::time::Duration;

use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use super::correlator::Write;
use crate::fault::told;
use crate::gate;

/// How long a call may take before it counts as failed.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Where events are written.
pub(super) struct Sink {
    client: kube::Client,
}

/// An event that was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No answer that makes sense: try again later.
    #[error("unable to write event: {}", told(.0))]
    Unreachable(#[source] kube::Error),
    /// The same, for lack of any answer.
    #[error("unable to write event: no answer within {CALL_DEADLINE:?}")]
    Deadline,
    /// The server, or our own gate, will not have it: forget it.
    #[error("server rejected event: {}", told(.0))]
    Rejected(#[source] kube::Error),
    /// It can't be put into a request: forget it.
    #[error("unable to construct event: {0}")]
    Construct(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Whether another try makes sense; client-go: `recordEvent`.
    pub(super) fn is_retriable(&self) -> bool {
        matches!(self, Error::Unreachable(_) | Error::Deadline)
    }

    /// Whether this is nothing to bother anybody with: the event is there already, or its namespace is going.
    pub(super) fn is_expected(&self) -> bool {
        let Error::Rejected(kube::Error::Api(status)) = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.reason == "AlreadyExists"
            || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    fn of(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(_) => Error::Rejected(error),
            kube::Error::Service(cause) if cause.downcast_ref::<gate::Error>().is_some() => {
                Error::Rejected(error)
            }
            _ => Error::Unreachable(error),
        }
    }
}

impl Sink {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// Writes; a patch of an event that is gone writes it anew.
    pub(super) async fn write(&self, write: &Write) -> Result<(), Error> {
        match write {
            Write::Create(event) => self.create(event).await,
            Write::Patch(event) => match self.patch(event).await {
                Err(Error::Rejected(kube::Error::Api(status))) if status.code == StatusCode::NOT_FOUND => {
                    self.create(event).await
                }
                outcome => outcome,
            },
        }
    }

    async fn create(&self, event: &Event) -> Result<(), Error> {
        let body = serde_json::to_vec(event).map_err(|error| Error::Construct(error.into()))?;
        self.call(Method::POST, path(event), "application/json", body).await
    }

    async fn patch(&self, event: &Event) -> Result<(), Error> {
        let patch = json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        });
        let path = format!("{}/{}", path(event), event.metadata.name.as_deref().unwrap_or_default());
        let body = patch.to_string().into_bytes();
        self.call(Method::PATCH, path, "application/strategic-merge-patch+json", body).await
    }

    async fn call(&self, method: Method, path: String, kind: &str, body: Vec<u8>) -> Result<(), Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, kind)
            .body(body)
            .map_err(|error| Error::Construct(error.into()))?;
        match tokio::time::timeout(CALL_DEADLINE, self.client.request_text(request)).await {
            Ok(answer) => answer.map(drop).map_err(Error::of),
            Err(_) => Err(Error::Deadline),
        }
    }
}

fn path(event: &Event) -> String {
    format!("/api/v1/namespaces/{}/events", event.metadata.namespace.as_deref().unwrap_or_default())
}
