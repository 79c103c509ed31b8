//! The approving controller: approves requests of kubelets for client certificates, if RBAC allows the requestor that.
//!
//! ```text
//! undecided requests of kubelets ─> queue "certificate" ─> read ─> recognise ─> SubjectAccessReview ─> condition Approved
//! ```
//!
//! It never approves requests for serving certificates, as upstream: the controller can't tell whether a node owns the
//! names that it asks for.

use std::sync::Arc;

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, View, keep};
use steersman_kinds::certificate_signing_request::{CertificateSigningRequest, RequestSpec, RequestStatus};

use super::rules::KUBELET_CLIENT;
use super::signing;

mod controller;
mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("certificatesigningrequest-approving-controller", &["csrapproving"], construct).rules(&[
        Rule::new(&["certificates.k8s.io"], &["certificatesigningrequests"], &["get", "list", "watch"]),
        Rule::new(&["certificates.k8s.io"], &["certificatesigningrequests/approval"], &["update"]),
        Rule::new(&["certificates.k8s.io"], &["signers"], &["approve"]).named(&[KUBELET_CLIENT]),
        Rule::new(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ]);

keep! {
    /// The fields of a request that say whether it can be approved.
    pub struct ApprovableRequest: CertificateSigningRequest => RequestSpec, RequestStatus
}

/// Upstream: `Run(ctx, 5)`.
const WORKERS: usize = 5;

/// Makes the controller.
///
/// # Errors
/// The cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let requests = context.informers.informer::<ApprovableRequest>()?;
    let queue = signing::queue(context);
    let keys = queue.clone();
    requests.map(move |change| match change {
        Change::Added { object: request, .. }
        | Change::Updated { new: request, .. }
        | Change::Resync { object: request }
            if is_approvable(request) =>
        {
            keys.add(change.key().clone());
        }
        _ => {}
    });
    let sender = context.client_for("certificate-controller");
    let controller = controller::ApprovingController {
        requests: requests.lister(),
        client: Client::new(sender.clone()),
        sender,
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(WORKERS).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [requests.any()]))
}

/// Whether the controller may approve a request: a kubelet's request that is neither approved, denied nor signed yet.
fn is_approvable(request: &View<ApprovableRequest>) -> bool {
    let status = request.get::<RequestStatus>();
    request.get::<RequestSpec>().signer_name == *KUBELET_CLIENT
        && !status.is_approved()
        && !status.is_denied()
        && !status.certificate.is_issued
}
