//! Reviews of access: the API server says whether a user may do something.

use http::Method;
use serde_json::{Value, json};
use steersman_api::GroupVersionResource;
use steersman_client::Sender;

use crate::call::{Accept, Call, Content, JSON};
use crate::controller::SyncError;

/// The question whether a user may do something. The API server answers it and stores nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessReview {
    resource: GroupVersionResource,
    object: Value,
}

impl AccessReview {
    /// Asks about any user. `spec` names the user and what the user wants to do: a `SubjectAccessReviewSpec`.
    pub fn of_user(spec: &Value) -> Self {
        Self::new("subjectaccessreviews", "SubjectAccessReview", spec)
    }

    /// Asks about the user that sends the question. `spec` is a `SelfSubjectAccessReviewSpec`.
    pub fn of_caller(spec: &Value) -> Self {
        Self::new("selfsubjectaccessreviews", "SelfSubjectAccessReview", spec)
    }

    fn new(resource: &str, kind: &str, spec: &Value) -> Self {
        Self {
            resource: GroupVersionResource::new("authorization.k8s.io", "v1", resource),
            object: json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}),
        }
    }

    /// The question in JSON.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Sends the question. `what` says in errors what the call does.
    ///
    /// # Errors
    /// The call failed, or the answer is no JSON.
    pub async fn is_allowed(&self, sender: &Sender, what: String) -> Result<bool, SyncError> {
        let call = Call {
            what,
            method: Method::POST,
            path: self.resource.path(""),
            accept: Accept::Json,
            content: Some(Content::json(JSON, &self.object)),
        };
        Ok(call.send(sender).await?.json()?["status"]["allowed"] == true)
    }
}
