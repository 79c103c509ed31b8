//! Creates, deletes and patches pods for controllers.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;
use steersman_api::{ArcStr, ObjectKey, OwnerReference, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_informer::wire::{Object, Opaque};

use crate::call::{Answer, Call, Content, JSON, STRATEGIC_MERGE_PATCH};
use crate::controller::SyncError;
use crate::pod_template::PodDraft;
use steersman_kinds::pod::Pod;

/// Creates, deletes and patches the pods of owners, and records events about the owner, as upstream's `RealPodControl`:
/// `SuccessfulCreate`, `FailedCreate`, `SuccessfulDelete`, `FailedDelete`.
///
/// Every write to a pod carries the pod's uid, so that it never changes a later pod of the same name.
#[derive(Clone)]
pub struct PodControl {
    client: kube::Client,
    recorder: Recorder,
    /// The groups of fields to decode from answers.
    groups: u64,
}

/// Identifies one pod, even if a later pod has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// The pod's name; its namespace is the owner's.
    pub name: ArcStr,
    /// The pod's uid, which tells it from other pods of that name.
    pub uid: Uid,
}

/// The result of changing or deleting a pod.
#[derive(Debug)]
pub enum Changed {
    /// The API server changed the pod; this is the pod's new state. If the change removed the pod for good, this is its
    /// last state, which may carry the version from before the change.
    Now(Arc<Pod>),
    /// The pod does not exist.
    Gone,
}

/// The result of creating a pod.
#[derive(Debug)]
pub enum Made {
    /// The new pod.
    Pod(Arc<Pod>),
    /// The pod's namespace is being deleted, so nothing can be created in it. No event is recorded, as upstream.
    NamespaceTerminates,
}

impl PodControl {
    /// Calls go through `client`, and events through `recorder`. `groups` are the groups of fields to decode from
    /// answers.
    pub fn new(client: kube::Client, recorder: Recorder, groups: u64) -> Self {
        Self { client, recorder, groups }
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
    ) -> Result<Made, SyncError> {
        let namespace = owner.namespace.as_deref().unwrap_or_default();
        let what = format!("creating a pod of {namespace}/{}", draft.owner.name);
        let made = match draft.fill_in(template) {
            Err(error) => Err(SyncError::Failed(format!("{what}: {error}"))),
            Ok(content) => {
                let path = format!("/api/v1/namespaces/{namespace}/pods");
                let call = Call { what, method: Method::POST, path, content: Some(content) };
                call.send(&self.client).await.and_then(|answer| self.pod(&answer))
            }
        };
        match made {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.meta().key.name);
                self.recorder.event(owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(Made::Pod(pod))
            }
            Err(error) if error.status().is_some_and(|status| status.has_cause("NamespaceTerminating")) => {
                Ok(Made::NamespaceTerminates)
            }
            Err(error) => {
                self.say_failed(owner, "FailedCreate", "Error creating: ", &error);
                Err(error)
            }
        }
    }

    /// Deletes a pod, with the pod's own grace period.
    ///
    /// # Errors
    /// The API server did not delete the pod, or may not have. If the pod does not exist, the result is
    /// [`Changed::Gone`].
    pub async fn delete(&self, owner: &ObjectReference, pod: &PodRef) -> Result<Changed, SyncError> {
        let path = path(owner, &pod.name);
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid},
        });
        let what = format!("deleting pod {}", key(owner, &pod.name));
        let content = Some(Content::json(JSON, &options));
        let answer = Call { what, method: Method::DELETE, path, content }.send(&self.client).await;
        match answer.and_then(|answer| self.pod(&answer)) {
            Ok(state) => {
                let message = format!("Deleted pod: {}", pod.name);
                self.recorder.event(owner, EventType::Normal, "SuccessfulDelete", message);
                Ok(Changed::Now(state))
            }
            Err(error) if error.is("NotFound") => Ok(Changed::Gone),
            Err(error) => {
                self.say_failed(owner, "FailedDelete", "Error deleting: ", &error);
                Err(error)
            }
        }
    }

    /// Removes a finalizer from a pod.
    ///
    /// # Errors
    /// The API server did not change the pod, or may not have. If the pod does not exist, the result is
    /// [`Changed::Gone`].
    pub async fn remove_finalizer(
        &self,
        namespace: &str,
        pod: &PodRef,
        finalizer: &str,
    ) -> Result<Changed, SyncError> {
        let patch = json!({"metadata": {
            "uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [finalizer],
        }});
        self.patch(namespace, pod, &patch, "removing the finalizer of").await
    }

    /// Makes `owner` the controller of a pod that has none, and adds a finalizer to the pod.
    ///
    /// # Errors
    /// The API server did not change the pod, or may not have. If the pod does not exist, the result is
    /// [`Changed::Gone`].
    pub async fn adopt(
        &self,
        namespace: &str,
        pod: &PodRef,
        owner: &OwnerReference,
        finalizer: &str,
    ) -> Result<Changed, SyncError> {
        let patch = json!({"metadata": {
            "ownerReferences": [owner], "uid": pod.uid, "finalizers": [finalizer],
        }});
        self.patch(namespace, pod, &patch, "adopting").await
    }

    /// Removes an owner and a finalizer from a pod.
    ///
    /// # Errors
    /// The API server did not change the pod, or may not have. If the pod does not exist, or had no owners any more,
    /// the result is [`Changed::Gone`].
    pub async fn release(
        &self,
        namespace: &str,
        pod: &PodRef,
        owner: &Uid,
        finalizer: &str,
    ) -> Result<Changed, SyncError> {
        let patch = json!({"metadata": {
            "uid": pod.uid,
            "ownerReferences": [{"$patch": "delete", "uid": owner}],
            "$deleteFromPrimitiveList/finalizers": [finalizer],
        }});
        match self.patch(namespace, pod, &patch, "releasing").await {
            // The pod has no owners any more, or another pod has its name.
            Err(error) if error.is("Invalid") => Ok(Changed::Gone),
            other => other,
        }
    }

    async fn patch(
        &self,
        namespace: &str,
        pod: &PodRef,
        patch: &serde_json::Value,
        doing: &str,
    ) -> Result<Changed, SyncError> {
        let call = Call {
            what: format!("{doing} pod {namespace}/{}", pod.name),
            method: Method::PATCH,
            path: format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name),
            content: Some(Content::json(STRATEGIC_MERGE_PATCH, patch)),
        };
        match call.send(&self.client).await {
            Ok(answer) => self.pod(&answer).map(Changed::Now),
            Err(error) if error.is("NotFound") => Ok(Changed::Gone),
            Err(error) => Err(error),
        }
    }

    fn pod(&self, answer: &Answer) -> Result<Arc<Pod>, SyncError> {
        answer.object(self.groups).map(Arc::new)
    }

    fn say_failed(&self, owner: &ObjectReference, reason: &'static str, doing: &str, error: &SyncError) {
        if error.is_end_of_leadership() {
            return;
        }
        // As upstream: the server's own message, if it answered.
        let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
        self.recorder.event(owner, EventType::Warning, reason, format!("{doing}{why}"));
    }
}

fn path(owner: &ObjectReference, pod: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{pod}", owner.namespace.as_deref().unwrap_or_default())
}

fn key(owner: &ObjectReference, pod: &ArcStr) -> ObjectKey {
    ObjectKey::new(owner.namespace.as_deref().unwrap_or_default(), pod.clone())
}

#[cfg(test)]
mod tests {
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
            let (events, writer) = broadcaster(clients.component("events"), events::Metrics::new());
            let clients = match gate {
                Some(gate) => clients.gated(Arc::new(gate)),
                None => clients,
            };
            let control = PodControl::new(clients.component("test"), events.recorder("test"), 0);
            control.delete(&owner, &pod).await.unwrap_err();
            let stop = CancellationToken::new();
            tokio::join!(writer.run(stop.clone()), async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                stop.cancel();
            });
            assert_eq!(recording.count(&Calls::to("events").verb(Verb::Create)), told);
        }
    }
}
