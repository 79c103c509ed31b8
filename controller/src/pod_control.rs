//! Creates and deletes pods for controllers, and removes their finalizers.

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;
use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_informer::wire::{Object, Opaque};

use crate::client::{Changed, Client, Created, Delete, Deleted, Patch};
use crate::controller::SyncError;
use crate::pod_template::PodDraft;
use steersman_kinds::pod::Pod;

/// Creates and deletes the pods of owners, and records events about the owner, as upstream's `RealPodControl`:
/// `SuccessfulCreate`, `FailedCreate`, `SuccessfulDelete`, `FailedDelete`. Pods are adopted and released by
/// [`Children`](crate::children::Children).
///
/// Every write to a pod carries the pod's uid, so that it never changes a later pod of the same name.
#[derive(Clone)]
pub struct PodControl {
    client: Client<Pod>,
    recorder: Recorder,
}

/// Identifies one pod, even if a later pod has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// The pod's name; its namespace is the owner's.
    pub name: ArcStr,
    /// The pod's uid, which tells it from other pods of that name.
    pub uid: Uid,
}

impl PodControl {
    /// Calls go through `client`, and events through `recorder`. If the API server
    /// [answers the client with metadata](Client::answered_with_metadata), [`create`](Self::create) returns pods that have only
    /// metadata.
    pub fn new(client: Client<Pod>, recorder: Recorder) -> Self {
        Self { client, recorder }
    }

    /// Creates a pod from a template.
    ///
    /// # Errors
    /// The API server did not create the pod, or may not have: see [`SyncError::surely_not_done`].
    pub async fn create(
        &self,
        owner: &ObjectReference,
        draft: &PodDraft,
        template: &Opaque,
    ) -> Result<Created<Pod>, SyncError> {
        let namespace = owner.namespace.as_deref().unwrap_or_default();
        let created = match draft.fill_in(template) {
            Err(error) => {
                Err(SyncError::Failed(format!("creating a pod of {namespace}/{}: {error}", draft.owner.name)))
            }
            Ok(content) => self.client.create(namespace, content).await,
        };
        match &created {
            Ok(Created::Now(pod)) => {
                let message = format!("Created pod: {}", pod.meta().key.name);
                self.recorder.event(owner, EventType::Normal, "SuccessfulCreate", message);
            }
            Ok(Created::Exists(status)) => {
                self.record_failure(owner, "FailedCreate", "Error creating: ", &status.message)
            }
            // Upstream records no event for this either.
            Ok(Created::NamespaceTerminating) => {}
            Err(error) => self.record_error(owner, "FailedCreate", "Error creating: ", error),
        }
        created
    }

    /// Deletes a pod, with the pod's own grace period.
    ///
    /// # Errors
    /// The API server did not delete the pod, or may not have.
    pub async fn delete(&self, owner: &ObjectReference, pod: &PodRef) -> Result<Deleted<Pod>, SyncError> {
        let namespace = owner.namespace.as_deref().unwrap_or_default();
        let key = ObjectKey::new(namespace, pod.name.clone());
        let deleted = self.client.delete(&key, &Delete::of(&pod.uid)).await;
        match &deleted {
            Ok(Deleted::Now(..)) => {
                let message = format!("Deleted pod: {}", pod.name);
                self.recorder.event(owner, EventType::Normal, "SuccessfulDelete", message);
            }
            Ok(Deleted::Gone) => {}
            Ok(Deleted::Conflict(status)) => {
                self.record_failure(owner, "FailedDelete", "Error deleting: ", &status.message);
            }
            Err(error) => self.record_error(owner, "FailedDelete", "Error deleting: ", error),
        }
        deleted
    }

    /// Removes a finalizer from a pod.
    ///
    /// # Errors
    /// The API server did not change the pod, or may not have.
    pub async fn remove_finalizer(
        &self,
        namespace: &str,
        pod: &PodRef,
        finalizer: &str,
    ) -> Result<Changed<Pod>, SyncError> {
        let patch = json!({"metadata": {
            "uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [finalizer],
        }});
        let key = ObjectKey::new(namespace, pod.name.clone());
        self.client.patch(&key, &Patch::Strategic(patch)).await
    }

    fn record_error(&self, owner: &ObjectReference, reason: &'static str, doing: &str, error: &SyncError) {
        if error.is_end_of_leadership() {
            return;
        }
        // The event has the API server's message, as upstream's, if the server sent one.
        let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
        self.record_failure(owner, reason, doing, &why);
    }

    fn record_failure(&self, owner: &ObjectReference, reason: &'static str, doing: &str, why: &str) {
        self.recorder.event(owner, EventType::Warning, reason, format!("{doing}{why}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use steersman_apiserver::{Calls, Failure, TestServer, Verb};
    use steersman_client::events::{self, broadcaster};
    use steersman_client::{Clients, GateClosed, WriteGate};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Closed from the start, or a second after each write began.
    struct Gate {
        admits: bool,
    }

    impl WriteGate for Gate {
        fn admit(&self) -> Result<(), GateClosed> {
            self.admits.then_some(()).ok_or_else(|| GateClosed::because("not the leader"))
        }
        fn closed(&self) -> BoxFuture<'static, ()> {
            tokio::time::sleep(Duration::from_secs(1)).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_the_server_has_refused_or_left_unanswered_is_told_in_an_event() {
        let owner = ObjectReference {
            api_version: Some("batch/v1".to_owned()),
            kind: Some("Job".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some("pi".to_owned()),
            ..ObjectReference::default()
        };
        let pod = PodRef { name: "a".into(), uid: "u".into() };
        for (gate, failure, told) in [
            (None, Failure::InternalError, 1),
            (Some(Gate { admits: false }), Failure::InternalError, 0),
            (Some(Gate { admits: true }), Failure::Hang, 0),
        ] {
            let server = TestServer::start().await;
            server.faults().fail(1, Calls::to("pods").verb(Verb::Delete), failure);
            let recording = server.record();
            let clients = Clients::over(server.in_memory());
            let (events, writers) = broadcaster(&clients, events::Metrics::new());
            let clients = match gate {
                Some(gate) => clients.gated(Arc::new(gate)),
                None => clients,
            };
            let control = PodControl::new(Client::new(clients.sender("test")), events.recorder("test"));
            control.delete(&owner, &pod).await.unwrap_err();
            let stop = CancellationToken::new();
            tokio::join!(writers.run(stop.clone()), async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                stop.cancel();
            });
            assert_eq!(recording.count(&Calls::to("events").verb(Verb::Create)), told);
        }
    }
}
