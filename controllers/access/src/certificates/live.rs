//! Requests as the API server has them.

use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
use serde_json::{Value, json};
use steersman_api::{ObjectKey, Time};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Changed, Client, Subresource};
use steersman_controller::controller::SyncError;
use steersman_kinds::certificate_signing_request::{APPROVED, CertificateSigningRequest, DENIED, FAILED};

/// The newest state of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Live {
    /// The object. What a controller writes is this with a change, so that fields which this program does not know survive.
    object: Value,
    /// The part that never changes.
    pub spec: CertificateSigningRequestSpec,
}

/// A condition that a controller adds to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewCondition {
    /// The condition's type.
    pub kind: &'static str,
    /// Why, in one word for programs.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
    /// When the condition was written. `None`: the API server notes it.
    pub last_update_time: Option<Time>,
}

impl Live {
    /// Reads a request. `None` if there is no request of that name.
    ///
    /// # Errors
    /// The call failed, or the answer is no request.
    pub(super) async fn read(
        client: &Client<CertificateSigningRequest>,
        key: &ObjectKey,
    ) -> Result<Option<Self>, SyncError> {
        let object = client.resource().get_json(key).await?;
        object
            .map(Self::of)
            .transpose()
            .map_err(|error| SyncError::Failed(format!("reading csr {key}: {error}")))
    }

    /// Reads a request in JSON.
    ///
    /// # Errors
    /// The JSON is no request.
    pub(super) fn of(object: Value) -> Result<Self, serde_json::Error> {
        let spec = serde_json::from_value(object["spec"].clone())?;
        Ok(Self { object, spec })
    }

    /// Whether the request has been approved and not denied.
    pub(super) fn is_approved(&self) -> bool {
        self.conditions_of(APPROVED).next().is_some() && self.conditions_of(DENIED).next().is_none()
    }

    /// Whether the request has been approved or denied.
    pub(super) fn is_decided(&self) -> bool {
        [APPROVED, DENIED].into_iter().any(|kind| self.conditions_of(kind).next().is_some())
    }

    /// Whether the signer has issued a certificate, or refused the request for good.
    pub(super) fn is_finished(&self) -> bool {
        self.is_issued() || self.conditions_of(FAILED).any(|condition| holds(&condition["status"]))
    }

    /// Whether the signer has issued a certificate.
    pub(super) fn is_issued(&self) -> bool {
        self.object["status"]["certificate"].as_str().is_some_and(|certificate| !certificate.is_empty())
    }

    fn conditions_of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        let conditions = self.object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(move |condition| condition["type"] == kind)
    }

    /// The object with one condition more.
    pub(super) fn with_condition(&self, new: &NewCondition) -> Value {
        let mut condition = json!({
            "type": new.kind, "status": "True", "reason": new.reason, "message": new.message,
        });
        if let Some(time) = new.last_update_time {
            condition["lastUpdateTime"] = json!(time);
        }
        let mut object = self.object.clone();
        match object["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(condition),
            None => object["status"]["conditions"] = json!([condition]),
        }
        object
    }

    /// The object with a certificate, in base64.
    pub(super) fn with_certificate(&self, certificate: &str) -> Value {
        let mut object = self.object.clone();
        object["status"]["certificate"] = certificate.into();
        object
    }
}

/// Replaces a part of a request. Its version, which is in `object`, is a precondition.
///
/// # Errors
/// The call failed, or the request has changed since. A request that is gone needs no more work.
pub(super) async fn replace(
    client: &Client<CertificateSigningRequest>,
    key: &ObjectKey,
    part: Subresource,
    object: &Value,
) -> Result<(), SyncError> {
    let changed: Changed<_> = client.update_part(key, part, Content::json(JSON, object)).await?;
    changed.or_conflict(|| format!("updating csr {key}")).map(drop)
}

/// Whether a condition with this status holds. Conditions from before the field existed hold.
fn holds(status: &Value) -> bool {
    status.as_str().is_none_or(|status| status.is_empty() || status == "True")
}
