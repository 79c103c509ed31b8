//! The cleaner of PodCertificateRequests: deletes those that are older than all use of them.
//!
//! ```text
//! every five minutes: all requests ─> plan: those that are due ─> delete
//! ```

use std::sync::Arc;
use std::time::Duration;

use steersman_api::{Meta, ObjectKey, Time, Uid};
use steersman_controller::client::{Client, Delete};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::PeriodicLoop;
use steersman_informer::{Lister, keep};
use steersman_kinds::pod_certificate_request::PodCertificateRequest;

#[cfg(test)]
mod tests;

/// The row of the controller. It runs only with the feature gate `PodCertificateRequest`, which is off by default.
pub const DESCRIPTOR: Descriptor = Descriptor::new(
    "podcertificaterequest-cleaner-controller",
    &[],
    construct,
)
.rules(&[Rule::new(&["certificates.k8s.io"], &["podcertificaterequests"], &["list", "watch", "delete"])]);

keep! {
    /// What the controller reads of a request: its metadata.
    pub struct AgingRequest: PodCertificateRequest =>
}

/// How long requests stay. A kubelet waits for its certificate for less. Upstream passes this number to the controller.
const THRESHOLD: Duration = Duration::from_secs(15 * 60);
/// The time between two looks, as upstream's.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Maximum number of concurrent calls. The client's own rate limit is much narrower.
const MAX_CONCURRENT_CALLS: usize = 20;

/// Makes the controller.
///
/// # Errors
/// The cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let requests = context.informers.informer::<AgingRequest>()?;
    let client = Client::new(context.client_for("podcertificaterequestcleaner"));
    let cleaner = Cleaner { requests: requests.lister(), client };
    let clean = PeriodicLoop::new(Arc::new(cleaner), "all pod certificate requests", PERIOD);
    Ok(Construction::new([clean.into()], [requests.any()]))
}

/// Deletes old requests. It has one key, which stands for all requests.
struct Cleaner {
    requests: Lister<AgingRequest>,
    client: Client<PodCertificateRequest>,
}

/// A request to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Due {
    key: ObjectKey,
    uid: Uid,
}

/// The requests, before or after they were cleaned.
#[derive(Debug, Default)]
struct Observed {
    requests: Vec<Meta>,
    /// Whether this sync has tried to delete those that were due. The next one tries the rest.
    is_cleaned: bool,
}

/// Deletes the requests that are due.
fn plan(observed: &Observed, now: Time) -> Plan<Due> {
    let is_due = |request: &&Meta| request.created.is_some_and(|created| now >= created + THRESHOLD);
    let due = observed.requests.iter().filter(is_due);
    let steps: Vec<_> =
        due.map(|request| Due { key: request.key.clone(), uid: request.uid.clone() }).collect();
    if steps.is_empty() || observed.is_cleaned {
        return Plan::done();
    }
    let (pace, on_failure) = (Pace::Together(MAX_CONCURRENT_CALLS), OnFailure::PlanAgain);
    Plan::Act(Batch { steps, pace, on_failure })
}

impl Controller for Cleaner {
    type Key = &'static str;
    type Observed = Observed;
    type Step = Due;
    type Outcome = ();

    async fn observe(&self, _: &Self::Key) -> Result<Observation<Observed>, SyncError> {
        // The metadata of objects that can't be decoded can be read all the same.
        let mut requests = Vec::new();
        self.requests.for_each_meta(|request| requests.push(request.clone()));
        Ok(Observation::Ready(Observed { requests, is_cleaned: false }))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Due> {
        plan(observed, now)
    }

    async fn act(&self, _: &Self::Key, _: &Observed, due: &Due) -> Result<(), SyncError> {
        // If the outcome is a conflict, the request was deleted, and another one has its name.
        self.client.delete(&due.key, &Delete::of(&due.uid)).await.map(drop)
    }

    fn absorb(&self, observed: &mut Observed, _: Due, _: StepResult<()>) {
        observed.is_cleaned = true;
    }
}
