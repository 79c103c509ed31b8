//! Syncs of approved requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steersman_api::{ObjectKey, Time};
use steersman_controller::client::{Client, Subresource};
use steersman_controller::context::Clock;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_kinds::certificate_signing_request::CertificateSigningRequest;

use super::super::live::{Live, replace};
use super::super::request::Request;
use super::authority::Authority;
use super::plan::{Observed, Step, plan};
use super::usages::Usages;
use super::validity::{self, Validity};
use super::{SignableRequest, is_signable};

/// Signs requests.
pub(super) struct SigningController {
    pub requests: Lister<SignableRequest>,
    pub client: Client<CertificateSigningRequest>,
    /// The authority of each signer.
    pub authorities: BTreeMap<&'static str, Arc<Authority>>,
    /// Maximum duration of a certificate.
    pub duration: Duration,
    pub clock: Clock,
}

impl SigningController {
    /// Makes the certificate of a request, in PEM.
    async fn sign(&self, live: &Live, request: &Request) -> Result<String, String> {
        let authority = self.authorities.get(live.spec.signer_name.as_str());
        let authority = authority.ok_or("the signer has no authority")?.current().await;
        let duration = validity::duration(live.spec.expiration_seconds, self.duration);
        let usages = Usages::of(live.spec.usages.as_deref().unwrap_or_default())?;
        let validity = Validity::new(self.clock.now(), duration, authority.expires())?;
        let key = request.verified_key().map_err(|error| error.to_string())?;
        authority.sign(request, &key, &usages, &validity)
    }
}

impl Controller for SigningController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Observed;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let request = self.requests.get(key);
        let request = request.map_err(|request| SyncError::Unreadable(format!("csr {}", request.key)))?;
        let signers: Vec<_> = self.authorities.keys().copied().collect();
        let is_signable = request.is_some_and(|request| is_signable(&request, &signers));
        Ok(if is_signable { Observation::Ready(Observed::Cached) } else { Observation::Nothing })
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now, |signer| self.authorities.contains_key(signer))
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Observed, SyncError> {
        let (step, live) = match (step, observed) {
            (Step::Read, _) => {
                let live = Live::read(&self.client, key).await?;
                return Ok(live.map_or(Observed::Settled, |live| Observed::Fresh(Box::new(live))));
            }
            (step, Observed::Fresh(live)) => (step, live),
            (step, _) => return Err(SyncError::Failed(format!("{step:?} without the request {key}"))),
        };
        let object = match step {
            Step::Fail(error) => {
                return Err(SyncError::Failed(format!("unable to parse csr \"{key}\": {error}")));
            }
            Step::Refuse(condition) => live.with_condition(condition),
            Step::Sign(request) => {
                let failed = |why| SyncError::Failed(format!("error auto signing csr: {why}"));
                let certificate = self.sign(live, request).await.map_err(failed)?;
                live.with_certificate(&STANDARD.encode(certificate))
            }
            Step::Read => return Ok(observed.clone()),
        };
        replace(&self.client, key, Subresource::Status, &object).await?;
        Ok(Observed::Settled)
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Observed>) {
        if let StepResult::Done(next) = result {
            *observed = next;
        }
    }
}
