//! The calls that create service accounts and request their tokens.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use kube::core::Status;
use serde_json::{Value, json};
use steersman_api::ArcStr;

use super::LIFETIME;
use crate::Sender;

/// Deadline of one call.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum size of an answer. A token takes some kilobytes at most.
const MAX_ANSWER: usize = 256 << 10;

/// The granted token.
pub(super) struct Granted {
    /// The `Authorization` header with the token.
    pub(super) header: HeaderValue,
    /// How long the token is valid, from the request on.
    pub(super) lifetime: Duration,
}

/// Makes the calls, with the rights of the process itself.
pub(super) struct Requests {
    namespace: ArcStr,
    sender: Sender,
}

impl Requests {
    pub(super) fn new(namespace: ArcStr, sender: Sender) -> Self {
        Self { namespace, sender }
    }

    /// Requests a token for the account `name`, and creates the account first if it does not exist.
    ///
    /// # Errors
    /// The API server refused, or there was no answer.
    pub(super) async fn token(&self, name: &str) -> Result<Granted, kube::Error> {
        match self.request(name).await {
            Err(error) if is(&error, StatusCode::NOT_FOUND) => {
                self.create_account(name).await?;
                self.request(name).await
            }
            outcome => outcome,
        }
    }

    async fn request(&self, name: &str) -> Result<Granted, kube::Error> {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{name}/token", self.namespace);
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {}, "spec": {"audiences": [], "expirationSeconds": LIFETIME.as_secs()},
        });
        let granted = self.post(path, &request).await?;
        let unusable =
            |what: &str| kube::Error::Service(format!("the API server granted a token {what}").into());
        let token = granted["status"]["token"].as_str().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| unusable("without content"))?;
        let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| unusable("that no header can contain"))?;
        header.set_sensitive(true);
        let lifetime = granted["spec"]["expirationSeconds"].as_u64();
        // No token is valid for more than 2^32 seconds: the API server refuses such requests.
        let lifetime = lifetime.map(|seconds| Duration::from_secs(seconds.min(u64::from(u32::MAX))));
        Ok(Granted { header, lifetime: lifetime.ok_or_else(|| unusable("without expirationSeconds"))? })
    }

    /// Creates the account, and the namespace if it does not exist.
    async fn create_account(&self, name: &str) -> Result<(), kube::Error> {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": self.namespace},
        });
        let mut outcome = self.post(path.clone(), &account).await;
        if outcome.as_ref().is_err_and(|error| is(error, StatusCode::NOT_FOUND)) {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
            // This process may lack the right; the API server creates the namespaces that it needs as well.
            if let Err(error) = self.post("/api/v1/namespaces".to_owned(), &namespace).await {
                tracing::warn!(namespace = %self.namespace, %error, "Can't create the namespace of service accounts");
            }
            outcome = self.post(path, &account).await;
        }
        match outcome {
            Err(error) if !is(&error, StatusCode::CONFLICT) => Err(error),
            _ => Ok(()),
        }
    }

    async fn post(&self, path: String, body: &Value) -> Result<Value, kube::Error> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Bytes::from(body.to_string()))
            .map_err(|error| kube::Error::Service(error.into()))?;
        let exchange = async {
            let response = self.sender.send(request).await?;
            let code = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(kube::Error::Service)?.to_bytes();
            if code.is_success() {
                return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
            }
            Err(kube::Error::Api(Box::new(serde_json::from_slice(&body).unwrap_or_else(|_| {
                Status::failure(code.canonical_reason().unwrap_or_default(), "").with_code(code.as_u16())
            }))))
        };
        let late = || kube::Error::Service(format!("no answer within {CALL_DEADLINE:?}").into());
        tokio::time::timeout(CALL_DEADLINE, exchange).await.unwrap_or_else(|_| Err(late()))
    }
}

fn is(error: &kube::Error, code: StatusCode) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code.as_u16())
}
