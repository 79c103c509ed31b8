//! Syncs of the queue `garbage_collector_attempt_to_orphan`.
//!
//! ```text
//! the owner waits with finalizer orphan ─> first lists of all kinds complete ─> release each dependent ─> remove the finalizer
//! ```

use std::sync::Arc;
use std::time::Duration;

use steersman_api::{Meta, Time};
use steersman_client::Sender;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::ORPHAN;
use super::attempt_to_delete::object::LISTING;
use super::collector::Collector;
use super::graph::{ObjectId, is_orphaning};
use super::kinds::{Completeness, Kind, Progress as ListProgress};
use super::writes::{Calls, Wrote};

/// How many dependents are released at once. Upstream: all of them; the client's rate limit spreads the calls.
const AT_ONCE: usize = 32;
/// How often a dependent that other clients write at the same time is tried.
const ATTEMPTS: usize = 5;
/// The wait for a kind whose first list is overdue.
const SICK: Duration = Duration::from_secs(5);

/// Releases the dependents of owners that are being deleted.
pub(super) struct AttemptToOrphan {
    pub(super) collector: Arc<Collector>,
    pub(super) sender: Sender,
}

/// The state that decides about an owner.
#[derive(Clone, Debug)]
pub(super) struct Orphaning {
    /// The owner's newest known metadata.
    owner: Meta,
    /// The dependents that have not been released yet.
    dependents: Vec<ObjectId>,
    /// Of which kinds the graph has all dependents.
    completeness: Completeness,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Releasing,
    /// The owner has changed, so that it must be read.
    Outdated,
    /// The finalizer or the owner is gone.
    Done,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Remove the reference to the owner from this dependent.
    Release(ObjectId),
    /// Read the owner.
    Read,
    /// Remove the owner's finalizer.
    Finish,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// The owner's newest state. `None` if it is gone.
    Read(Option<Box<Meta>>),
    /// What became of a write.
    Wrote(Wrote),
}

/// The next steps. A dependent that the graph does not show yet would be released from nothing, and collected: so this waits for
/// every kind, also for sick ones.
fn plan(orphaning: &Orphaning) -> Plan<Step> {
    match orphaning.progress {
        Progress::Done => return Plan::done(),
        Progress::Outdated => return Plan::step(Step::Read),
        Progress::Releasing => {}
    }
    if !is_orphaning(&orphaning.owner) {
        return Plan::done();
    }
    match orphaning.completeness {
        Completeness::Listing => return Plan::Done { requeue_after: Some(LISTING) },
        Completeness::ButSick => return Plan::Done { requeue_after: Some(SICK) },
        Completeness::Complete => {}
    }
    if orphaning.dependents.is_empty() {
        return Plan::step(Step::Finish);
    }
    let steps = orphaning.dependents.iter().cloned().map(Step::Release).collect();
    Plan::Act(Batch { steps, pace: Pace::Together(AT_ONCE), on_failure: OnFailure::Stop })
}

impl Orphaning {
    fn absorb(&mut self, step: &Step, result: StepResult<Outcome>) {
        let StepResult::Done(outcome) = result else { return };
        match (step, outcome) {
            (Step::Release(dependent), Outcome::Wrote(Wrote::Done | Wrote::Gone)) => {
                self.dependents.retain(|other| other != dependent);
            }
            (_, Outcome::Read(None)) => self.progress = Progress::Done,
            (_, Outcome::Read(Some(newest))) => {
                self.owner = *newest;
                self.progress = Progress::Releasing;
            }
            (Step::Finish, Outcome::Wrote(Wrote::Conflict)) => self.progress = Progress::Outdated,
            _ => self.progress = Progress::Done,
        }
    }
}

impl AttemptToOrphan {
    async fn release(&self, dependent: &ObjectId, owner: &Meta) -> Result<Wrote, SyncError> {
        let cached = || {
            let kind = self.collector.kinds.get(dependent.kind)?;
            let meta = kind.informer.meta_by_uid(&dependent.uid)?;
            Some((kind, meta))
        };
        let Some((kind, mut meta)) = cached() else {
            return without_cache(self.collector.kinds.progress(dependent.kind));
        };
        let calls = Calls::of(&kind, &self.sender);
        for _ in 0..ATTEMPTS {
            match calls.release(&meta, std::slice::from_ref(&owner.uid)).await? {
                Wrote::Conflict => match calls.read(&meta).await? {
                    Some(newest) => meta = newest,
                    None => return Ok(Wrote::Gone),
                },
                wrote => return Ok(wrote),
            }
        }
        Err(SyncError::Failed(format!(
            "releasing {} {}: other clients write it all the time",
            kind.gvk.kind, meta.key
        )))
    }
}

/// What has become of a dependent that the graph showed and the cache of its kind, which is this far, does not show.
///
/// # Errors
/// The dependent may exist: since the graph was read, its kind has got another cache, or none.
fn without_cache(progress: Option<ListProgress>) -> Result<Wrote, SyncError> {
    match progress {
        Some(ListProgress::Synced) => Ok(Wrote::Gone),
        _ => Err(SyncError::Failed("releasing a dependent: the cache of its kind has changed".to_owned())),
    }
}

impl Controller for AttemptToOrphan {
    type Key = ObjectId;
    type Observed = (Arc<Kind>, Box<Orphaning>);
    type Step = Step;
    type Outcome = Outcome;

    async fn observe(&self, id: &ObjectId) -> Result<Observation<Self::Observed>, SyncError> {
        let Some(kind) = self.collector.kinds.get(id.kind) else { return Ok(Observation::Nothing) };
        let Some(owner) = kind.informer.meta_by_uid(&id.uid) else { return Ok(Observation::Nothing) };
        let (dependents, completeness) = self.collector.dependents(|graph| graph.dependents(&id.uid));
        let progress = Progress::Releasing;
        Ok(Observation::Ready((kind, Box::new(Orphaning { owner, dependents, completeness, progress }))))
    }

    fn plan(&self, (_, orphaning): &Self::Observed, _: Time) -> Plan<Step> {
        plan(orphaning)
    }

    async fn act(
        &self,
        _: &ObjectId,
        (kind, orphaning): &Self::Observed,
        step: &Step,
    ) -> Result<Outcome, SyncError> {
        let calls = Calls::of(kind, &self.sender);
        Ok(match step {
            Step::Release(dependent) => Outcome::Wrote(self.release(dependent, &orphaning.owner).await?),
            Step::Read => Outcome::Read(calls.read(&orphaning.owner).await?.map(Box::new)),
            Step::Finish => Outcome::Wrote(calls.remove_finalizer(&orphaning.owner, ORPHAN).await?),
        })
    }

    fn absorb(&self, (_, orphaning): &mut Self::Observed, step: Step, result: StepResult<Outcome>) {
        orphaning.absorb(&step, result);
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::Uid;

    use super::super::kinds::KindId;
    use super::*;

    fn dependent(uid: &str) -> ObjectId {
        ObjectId { kind: KindId(0), uid: Uid::from(uid) }
    }

    fn orphaning(dependents: &[&str], completeness: Completeness) -> Orphaning {
        let owner = Meta {
            deleted: Some(Time::from_seconds(1)),
            finalizers: [ORPHAN.into()].into(),
            ..Meta::default()
        };
        let dependents = dependents.iter().map(|uid| dependent(uid)).collect();
        Orphaning { owner, dependents, completeness, progress: Progress::Releasing }
    }

    #[test]
    fn the_finalizer_goes_once_all_dependents_are_released() {
        let mut two = orphaning(&["a", "b"], Completeness::Complete);
        let Plan::Act(batch) = plan(&two) else { panic!("the dependents must be released") };
        assert_eq!(batch.steps, [Step::Release(dependent("a")), Step::Release(dependent("b"))]);
        two.absorb(&batch.steps[0], StepResult::Done(Outcome::Wrote(Wrote::Done)));
        two.absorb(&batch.steps[1], StepResult::Done(Outcome::Wrote(Wrote::Gone)));
        assert_eq!(plan(&two), Plan::step(Step::Finish));
        two.absorb(&Step::Finish, StepResult::Done(Outcome::Wrote(Wrote::Conflict)));
        assert_eq!(plan(&two), Plan::step(Step::Read));
        let mut newest = two.owner.clone();
        newest.finalizers = Box::default();
        two.absorb(&Step::Read, StepResult::Done(Outcome::Read(Some(Box::new(newest)))));
        assert_eq!(plan(&two), Plan::done(), "another party has removed the finalizer");
    }

    #[test]
    fn a_kind_that_is_not_listed_yet_may_have_dependents() {
        let wait = |completeness| match plan(&orphaning(&[], completeness)) {
            Plan::Done { requeue_after } => requeue_after,
            Plan::Act(batch) => panic!("{batch:?}"),
        };
        assert_eq!(wait(Completeness::Listing), Some(LISTING));
        assert_eq!(wait(Completeness::ButSick), Some(SICK));
    }

    #[test]
    fn a_dependent_is_gone_only_if_a_complete_cache_lacks_it() {
        assert_eq!(without_cache(Some(ListProgress::Synced)).unwrap(), Wrote::Gone);
        for elsewhere in [Some(ListProgress::Listing), Some(ListProgress::Overdue), None] {
            without_cache(elsewhere).unwrap_err();
        }
    }

    #[test]
    fn an_owner_that_stays_keeps_its_dependents() {
        let mut stays = orphaning(&["a"], Completeness::Complete);
        stays.owner.deleted = None;
        assert_eq!(plan(&stays), Plan::done());
    }
}
