//! Syncs of finished jobs.

use steersman_api::{ObjectKey, Time};
use steersman_controller::client::{Client, Delete, Deleted, Propagation};
use steersman_controller::context::Clock;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::job::{Job, JobStatus, JobTtl};

use super::FinishedJob;
use super::metrics::Metrics;
use super::plan::{Candidate, Observed, Step, plan};

/// Deletes finished jobs whose TTL is over.
pub(super) struct TtlController {
    pub jobs: Lister<FinishedJob>,
    pub client: Client<Job>,
    pub metrics: Metrics,
    pub clock: Clock,
}

fn candidate(job: &Job) -> Result<Candidate, SyncError> {
    let (ttl, status) = (JobTtl::of(job), JobStatus::of(job));
    let (ttl, status) = ttl.zip(status).expect("the groups that the controller reads must be kept");
    let key = &job.meta().key;
    Candidate::of(job.meta(), ttl, status).map_err(|error| SyncError::Failed(format!("job {key}: {error}")))
}

impl Controller for TtlController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Observed;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let job = self.jobs.get(key).map_err(|job| SyncError::Unreadable(format!("Job {}", job.key)))?;
        job.map_or(Ok(Observation::Nothing), |job| {
            candidate(job.object()).map(|job| Observation::Ready(Observed::Cached(job)))
        })
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        // The rest of a TTL goes by fractions of a second.
        plan(observed, self.clock.timestamp())
    }

    async fn act(&self, key: &ObjectKey, _: &Observed, step: &Step) -> Result<Observed, SyncError> {
        match step {
            Step::Read => match self.client.get(key).await? {
                Some(job) => candidate(&job).map(Observed::Fresh),
                None => Ok(Observed::Gone),
            },
            Step::Delete(uid, expired) => {
                let delete = Delete { propagation: Some(Propagation::Foreground), ..Delete::of(uid) };
                match self.client.delete(key, &delete).await? {
                    Deleted::Now(..) => {
                        let late = self.clock.timestamp().duration_since((*expired).into());
                        self.metrics.deletion.observe(late.as_secs_f64());
                    }
                    // Another job has the name now. It comes with its own changes.
                    Deleted::Gone | Deleted::Conflict(_) => {}
                }
                Ok(Observed::Gone)
            }
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Observed>) {
        if let StepResult::Done(next) = result {
            *observed = next;
        }
    }
}
