//! The calls that write events.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Event;
use kube::core::Status;
use serde_json::json;

use super::correlator::Write;
use crate::{Sender, fault::told, gate};

/// How long a call may take before it counts as failed.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Writes events to the API server.
pub(super) struct Sink {
    sender: Sender,
}

/// Why an event was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No response came. Try again later.
    #[error("unable to write event: {}", told(.0))]
    Unreachable(#[source] kube::Error),
    /// No response came within the deadline. Try again later.
    #[error("unable to write event: no answer within {CALL_DEADLINE:?}")]
    Deadline,
    /// The API server or our own gate refused the event. Drop it.
    #[error("server rejected event: {}", told(.0))]
    Rejected(#[source] kube::Error),
    /// The event can't be put into a request. Drop it.
    #[error("unable to construct event: {0}")]
    Construct(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Whether the caller should try again; client-go: `recordEvent`.
    pub(super) fn is_retriable(&self) -> bool {
        matches!(self, Error::Unreachable(_) | Error::Deadline)
    }

    /// Whether this needs no attention: the event exists already, or its namespace is being deleted.
    pub(super) fn is_expected(&self) -> bool {
        let Error::Rejected(kube::Error::Api(status)) = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.reason == "AlreadyExists"
            || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Whether the API server is to blame, and not the event: it is too busy (429), or failed (5xx).
    pub(super) fn is_servers_fault(&self) -> bool {
        matches!(self, Error::Rejected(kube::Error::Api(status)) if status.code == 429 || status.code >= 500)
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
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender }
    }

    /// Creates or patches an event. If the event to patch is gone, creates it.
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
            .body(Bytes::from(body))
            .map_err(|error| Error::Construct(error.into()))?;
        let exchange = async {
            let response = self.sender.send(request).await.map_err(Error::of)?;
            let code = response.status();
            let lost = |error| Error::Unreachable(kube::Error::Service(error));
            let body = response.into_body().collect().await.map_err(lost)?.to_bytes();
            if code.is_client_error() || code.is_server_error() {
                return Err(Error::Rejected(kube::Error::Api(Box::new(status(code, &body)))));
            }
            Ok(())
        };
        tokio::time::timeout(CALL_DEADLINE, exchange).await.unwrap_or(Err(Error::Deadline))
    }
}

/// The API server's Status, or one made from the HTTP code if the body is something else.
fn status(code: StatusCode, body: &[u8]) -> Status {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        Status::failure(code.canonical_reason().unwrap_or_default(), "").with_code(code.as_u16())
    })
}

fn path(event: &Event) -> String {
    format!("/api/v1/namespaces/{}/events", event.metadata.namespace.as_deref().unwrap_or_default())
}
