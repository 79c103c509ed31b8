//! Which requests are approved.

use steersman_controller::plan::Plan;
use steersman_kinds::certificate_signing_request::APPROVED;

use super::super::live::{Live, NewCondition};
use super::super::request::{Error, Request};
use super::super::rules::{KUBELET_CLIENT, kubelet_client};

/// What the requestor must be allowed to create, so that the controller approves a request that it recognises: a subresource of
/// CertificateSigningRequests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// A certificate for the node that the requestor is.
    SelfNodeClient,
    /// A certificate for any node.
    NodeClient,
}

impl Permission {
    /// All permissions, in the order in which the controller asks for them.
    const ALL: [Self; 2] = [Self::SelfNodeClient, Self::NodeClient];

    /// The subresource.
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::SelfNodeClient => "selfnodeclient",
            Self::NodeClient => "nodeclient",
        }
    }

    /// The message of the condition `Approved`.
    fn message(self) -> &'static str {
        match self {
            Self::SelfNodeClient => {
                "Auto approving self kubelet client certificate after SubjectAccessReview."
            }
            Self::NodeClient => "Auto approving kubelet client certificate after SubjectAccessReview.",
        }
    }

    /// Whether a request is one that this permission is about.
    fn recognises(self, live: &Live, request: &Request) -> bool {
        let spec = &live.spec;
        let is_own = spec.username.as_deref().unwrap_or_default() == request.subject.common_name();
        (is_own || self == Self::NodeClient)
            && spec.signer_name == KUBELET_CLIENT
            && kubelet_client(request, spec.usages.as_deref().unwrap_or_default()).is_ok()
    }
}

/// A request as the sync knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Observed {
    /// The cache shows no decision about the request.
    Cached,
    /// As the API server has it, with the permissions that the requestor does not have.
    Fresh(Box<Live>, Vec<Permission>),
    /// As the API server has it. The requestor has this permission.
    Allowed(Box<Live>, Permission),
    /// The request is gone, or this sync is done with it.
    Settled,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Read the request from the API server.
    Read,
    /// Ask the API server whether the requestor has a permission.
    Review(Permission),
    /// Approve the request.
    Approve(NewCondition),
    /// Fail, and so try again later: the requestor has none of these permissions, and may get one.
    Refuse(Vec<Permission>),
    /// Fail: the request can't be read.
    Fail(Error),
}

/// Approves a request of a kubelet whose requestor has one of the permissions.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let (live, refused) = match observed {
        Observed::Cached => return Plan::step(Step::Read),
        Observed::Settled => return Plan::done(),
        Observed::Fresh(live, refused) => (live, refused),
        Observed::Allowed(_, permission) => {
            return Plan::step(Step::Approve(NewCondition {
                kind: APPROVED,
                reason: "AutoApproved",
                message: permission.message().to_owned(),
                last_update_time: None,
            }));
        }
    };
    if live.is_issued() || live.is_decided() {
        return Plan::done();
    }
    let request = match Request::from_pem(&live.spec.request.0) {
        Ok(request) => request,
        Err(error) => return Plan::step(Step::Fail(error)),
    };
    let mut recognised =
        Permission::ALL.into_iter().filter(|permission| permission.recognises(live, &request));
    match recognised.find(|permission| !refused.contains(permission)) {
        Some(next) => Plan::step(Step::Review(next)),
        None if refused.is_empty() => Plan::done(),
        None => Plan::step(Step::Refuse(refused.clone())),
    }
}
