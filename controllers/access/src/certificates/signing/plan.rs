//! Whether a request gets a certificate.

use steersman_api::Time;
use steersman_controller::plan::Plan;
use steersman_kinds::certificate_signing_request::FAILED;

use super::super::live::{Live, NewCondition};
use super::super::request::{Error, Request};
use super::super::rules;

/// A request as the sync knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Observed {
    /// The cache says that the request can be signed.
    Cached,
    /// As the API server has it.
    Fresh(Box<Live>),
    /// The request is gone, or this sync is done with it.
    Settled,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Read the request from the API server.
    Read,
    /// Issue a certificate.
    Sign(Box<Request>),
    /// Refuse the request for good.
    Refuse(NewCondition),
    /// Fail: the request can't be read.
    Fail(Error),
}

/// Signs an approved request that its signer accepts. `has_authority` tells which signers this process signs for.
pub(super) fn plan(observed: &Observed, now: Time, has_authority: impl Fn(&str) -> bool) -> Plan<Step> {
    let live = match observed {
        Observed::Cached => return Plan::step(Step::Read),
        Observed::Fresh(live) => live,
        Observed::Settled => return Plan::done(),
    };
    let signer = live.spec.signer_name.as_str();
    if !live.is_approved() || live.is_finished() || !has_authority(signer) {
        return Plan::done();
    }
    let request = match Request::from_pem(&live.spec.request.0) {
        Ok(request) => request,
        Err(error) => return Plan::step(Step::Fail(error)),
    };
    let usages = live.spec.usages.as_deref().unwrap_or_default();
    Plan::step(match rules::check(signer, &request, usages) {
        Ok(()) => Step::Sign(Box::new(request)),
        Err(message) => Step::Refuse(NewCondition {
            kind: FAILED,
            reason: "SignerValidationFailure",
            message,
            last_update_time: Some(now),
        }),
    })
}
