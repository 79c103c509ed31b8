//! Syncs of undecided requests.

use serde_json::json;
use steersman_api::{ObjectKey, Time};
use steersman_client::Sender;
use steersman_controller::client::{AccessReview, Client, Subresource};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_kinds::certificate_signing_request::CertificateSigningRequest;

use super::super::live::{Live, replace};
use super::plan::{Observed, Permission, Step, plan};
use super::{ApprovableRequest, is_approvable};

/// Approves requests of kubelets.
pub(super) struct ApprovingController {
    pub requests: Lister<ApprovableRequest>,
    pub client: Client<CertificateSigningRequest>,
    pub sender: Sender,
}

impl ApprovingController {
    /// Asks the API server whether the requestor has a permission.
    async fn review(&self, key: &ObjectKey, live: &Live, permission: Permission) -> Result<bool, SyncError> {
        let what =
            format!("reviewing whether the requestor of csr {key} may create {}", permission.subresource());
        review_of(live, permission).is_allowed(&self.sender, what).await
    }
}

/// The question whether the requestor of a request has a permission.
pub(super) fn review_of(live: &Live, permission: Permission) -> AccessReview {
    let spec = &live.spec;
    AccessReview::of_user(&json!({
        "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
        "resourceAttributes": {
            "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
            "subresource": permission.subresource(), "version": "*",
        },
    }))
}

impl Controller for ApprovingController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Observed;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let request = self.requests.get(key);
        let request = request.map_err(|request| SyncError::Unreadable(format!("csr {}", request.key)))?;
        let is_approvable = request.is_some_and(|request| is_approvable(&request));
        Ok(if is_approvable { Observation::Ready(Observed::Cached) } else { Observation::Nothing })
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Observed, SyncError> {
        match (step, observed) {
            (Step::Read, _) => {
                let live = Live::read(&self.client, key).await?;
                Ok(live.map_or(Observed::Settled, |live| Observed::Fresh(Box::new(live), Vec::new())))
            }
            (Step::Review(permission), Observed::Fresh(live, refused)) => {
                if self.review(key, live, *permission).await? {
                    return Ok(Observed::Allowed(live.clone(), *permission));
                }
                let refused = refused.iter().copied().chain([*permission]).collect();
                Ok(Observed::Fresh(live.clone(), refused))
            }
            (Step::Approve(condition), Observed::Allowed(live, _)) => {
                let object = live.with_condition(condition);
                replace(&self.client, key, Subresource::Approval, &object).await?;
                Ok(Observed::Settled)
            }
            (Step::Refuse(tried), _) => {
                let tried: Vec<_> = tried.iter().map(|permission| permission.subresource()).collect();
                Err(SyncError::Failed(format!(
                    "recognized csr \"{key}\" as [{}] but subject access review was not approved",
                    tried.join(" ")
                )))
            }
            (Step::Fail(error), _) => {
                Err(SyncError::Failed(format!("unable to parse csr \"{key}\": {error}")))
            }
            (step, _) => Err(SyncError::Failed(format!("{step:?} does not fit what is known of csr {key}"))),
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Observed>) {
        if let StepResult::Done(next) = result {
            *observed = next;
        }
    }
}
