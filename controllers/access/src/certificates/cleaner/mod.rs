//! The cleaner: deletes requests that have served their purpose, or that wait for a decision for too long.
//!
//! ```text
//! every hour: all requests ─> plan: those that are due ─> delete
//! ```

use std::sync::Arc;
use std::time::Duration;

use steersman_api::Time;
use steersman_controller::client::{Client, Delete};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::PeriodicLoop;
use steersman_informer::{Lister, keep};
use steersman_kinds::certificate_signing_request::{CertificateSigningRequest, RequestStatus};

use plan::{Due, Observed, plan};

mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("certificatesigningrequest-cleaner-controller", &["csrcleaner"], construct).rules(&[
        Rule::new(&["certificates.k8s.io"], &["certificatesigningrequests"], &["list", "watch", "delete"]),
    ]);

keep! {
    /// The fields of a request that say when it can go.
    pub struct CleanableRequest: CertificateSigningRequest => RequestStatus
}

/// The time between two looks. Upstream: `pollingInterval`.
const PERIOD: Duration = Duration::from_secs(60 * 60);

/// Makes the controller.
///
/// # Errors
/// The cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let requests = context.informers.informer::<CleanableRequest>()?;
    let client = Client::new(context.client_for("certificate-controller"));
    let cleaner = Cleaner { requests: requests.lister(), client };
    let clean = PeriodicLoop::new(Arc::new(cleaner), "all requests", PERIOD);
    Ok(Construction::new([clean.into()], [requests.any()]))
}

/// Deletes old requests. It has one key, which stands for all requests.
struct Cleaner {
    requests: Lister<CleanableRequest>,
    client: Client<CertificateSigningRequest>,
}

impl Controller for Cleaner {
    type Key = &'static str;
    type Observed = Observed;
    type Step = Due;
    type Outcome = ();

    async fn observe(&self, _: &Self::Key) -> Result<Observation<Observed>, SyncError> {
        let (requests, unreadable) = self.requests.list_readable();
        if let Some(error) = unreadable.first() {
            tracing::warn!(%error, requests = unreadable.len(), "Skipped requests that can't be read");
        }
        Ok(Observation::Ready(Observed { requests, is_cleaned: false }))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Due> {
        plan(observed, now)
    }

    async fn act(&self, _: &Self::Key, _: &Observed, due: &Due) -> Result<(), SyncError> {
        tracing::info!(csr = %due.key, reason = %due.reason, "Cleaning CSR");
        // If the outcome is a conflict, the request was deleted, and another one has its name.
        self.client.delete(&due.key, &Delete::of(&due.uid)).await.map(drop)
    }

    fn absorb(&self, observed: &mut Observed, _: Due, _: StepResult<()>) {
        observed.is_cleaned = true;
    }
}
