//! Syncs of the queue `garbage_collector_attempt_to_orphan`.
//!
//! ```text
//! the owner waits with finalizer orphan ─> first lists complete or overdue ─> list the kinds whose first list is overdue
//!     ─> release each dependent ─> remove the finalizer
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{Meta, Time};
use steersman_client::Sender;
use steersman_client::discovery::Scope;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::ORPHAN;
use super::attempt_to_delete::object::LISTING;
use super::collector::Collector;
use super::graph::{ObjectId, is_orphaning};
use super::kinds::{Completeness, Kind, KindId, Progress as ListProgress};
use super::writes::{Calls, Wrote};

/// How many dependents are released at once. Upstream: all of them; the client's rate limit spreads the calls.
const AT_ONCE: usize = 32;
/// How often a dependent that other clients write at the same time is tried.
const ATTEMPTS: usize = 5;
/// Maximum number of kinds that one sync lists at once.
const LISTS: usize = 4;
/// Maximum number of dependents that a sync takes from the list of one kind. The next sync takes the rest.
const LISTED: usize = 1000;
/// The time between two syncs that list a kind because it has more than [`LISTED`] dependents.
const REST: Duration = Duration::from_secs(5);
/// Maximum time between two attempts to list a sick kind. The back-off of the key is shorter at first.
const RELIST: Duration = Duration::from_secs(60);

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
    dependents: BTreeSet<ObjectId>,
    /// The metadata of those dependents that a list of this sync has shown.
    listed: HashMap<ObjectId, Meta>,
    /// Of which kinds the graph has all dependents.
    completeness: Completeness,
    /// The sick kinds that may have dependents which are neither in the graph nor in `listed`.
    sick: BTreeMap<KindId, Listing>,
    progress: Progress,
    /// Whether the removal of the owner's finalizer has met a conflict.
    met_conflict: bool,
}

/// What has become of the list of a sick kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// The sync must list the kind.
    Due,
    /// The list has more dependents than a sync takes.
    Cut,
    /// The list has failed.
    Failed,
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
    /// List the dependents of a sick kind.
    List(KindId),
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
    /// Dependents of a sick kind, at most [`LISTED`] and one.
    Listed(Vec<Meta>),
    /// What became of a write.
    Wrote(Wrote),
}

/// The next steps. The finalizer stays until each dependent of each kind is released: the collector would delete a dependent
/// that still names the owner. Neither cache nor graph has the dependents of sick kinds, so the sync lists those kinds itself.
fn plan(orphaning: &Orphaning) -> Plan<Step> {
    match orphaning.progress {
        Progress::Done => return Plan::done(),
        Progress::Outdated => return Plan::step(Step::Read),
        Progress::Releasing => {}
    }
    if !is_orphaning(&orphaning.owner) {
        return Plan::done();
    }
    if orphaning.completeness == Completeness::Listing {
        return Plan::Done { requeue_after: Some(LISTING) };
    }
    let due = orphaning.sick.iter().filter(|(_, listing)| **listing == Listing::Due);
    let lists: Vec<_> = due.map(|(kind, _)| Step::List(*kind)).collect();
    if !lists.is_empty() {
        // The dependents of other kinds need not wait for a kind that can't be listed.
        let on_failure = OnFailure::PlanAgain;
        return Plan::Act(Batch { steps: lists, pace: Pace::Together(LISTS), on_failure });
    }
    if !orphaning.dependents.is_empty() {
        let steps = orphaning.dependents.iter().cloned().map(Step::Release).collect();
        return Plan::Act(Batch { steps, pace: Pace::Together(AT_ONCE), on_failure: OnFailure::Stop });
    }
    let has = |listing: Listing| orphaning.sick.values().any(|other| *other == listing);
    if has(Listing::Cut) {
        Plan::Done { requeue_after: Some(REST) }
    } else if has(Listing::Failed) {
        Plan::Done { requeue_after: Some(RELIST) }
    } else {
        Plan::step(Step::Finish)
    }
}

impl Orphaning {
    fn absorb(&mut self, step: &Step, result: StepResult<Outcome>) {
        let outcome = match (step, result) {
            (_, StepResult::Done(outcome)) => outcome,
            (Step::List(kind), _) => {
                self.sick.insert(*kind, Listing::Failed);
                return;
            }
            _ => return,
        };
        match (step, outcome) {
            (Step::List(kind), Outcome::Listed(mut dependents)) => {
                if dependents.len() > LISTED {
                    dependents.truncate(LISTED);
                    self.sick.insert(*kind, Listing::Cut);
                } else {
                    self.sick.remove(kind);
                }
                for meta in dependents {
                    let id = ObjectId { kind: *kind, uid: meta.uid.clone() };
                    // The graph may have it already, from a first list that has broken off.
                    self.dependents.insert(id.clone());
                    self.listed.insert(id, meta);
                }
            }
            (Step::Release(dependent), Outcome::Wrote(Wrote::Done | Wrote::Gone)) => {
                self.dependents.remove(dependent);
            }
            (_, Outcome::Read(None)) => self.progress = Progress::Done,
            (_, Outcome::Read(Some(newest))) => {
                self.owner = *newest;
                self.progress = Progress::Releasing;
            }
            (Step::Finish, Outcome::Wrote(Wrote::Conflict(_))) => {
                self.progress = Progress::Outdated;
                self.met_conflict = true;
            }
            _ => self.progress = Progress::Done,
        }
    }
}

impl AttemptToOrphan {
    /// Lists the owner's dependents of a sick kind. A namespaced owner has dependents in its own namespace only.
    async fn list(&self, kind: KindId, owner: &Meta) -> Result<Vec<Meta>, SyncError> {
        let kind = self.collector.kinds.get(kind).ok_or_else(changed_kind)?;
        let mut dependents = Vec::new();
        let look = |object: &Meta| {
            let is_dependent = object.owners.iter().any(|reference| reference.uid == owner.uid);
            if is_dependent && dependents.len() <= LISTED {
                dependents.push(object.clone());
            }
        };
        Calls::of(&kind, &self.sender).for_each(&owner.key.namespace, look).await?;
        Ok(dependents)
    }

    async fn release(&self, dependent: &ObjectId, orphaning: &Orphaning) -> Result<Wrote, SyncError> {
        let owner = &orphaning.owner;
        let known = || {
            let kind = self.collector.kinds.get(dependent.kind)?;
            let listed = orphaning.listed.get(dependent).cloned();
            let meta = listed.or_else(|| kind.informer.meta_by_uid(&dependent.uid))?;
            Some((kind, meta))
        };
        let Some((kind, mut meta)) = known() else {
            return without_cache(self.collector.kinds.progress(dependent.kind));
        };
        let calls = Calls::of(&kind, &self.sender);
        for _ in 0..ATTEMPTS {
            match calls.release(&meta, std::slice::from_ref(&owner.uid)).await? {
                Wrote::Conflict(_) => match calls.read(&meta).await? {
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
        _ => Err(changed_kind()),
    }
}

fn changed_kind() -> SyncError {
    SyncError::Failed("releasing dependents: the cache of their kind has changed".to_owned())
}

impl Controller for AttemptToOrphan {
    type Key = ObjectId;
    type Observed = (Arc<Kind>, Box<Orphaning>);
    type Step = Step;
    type Outcome = Outcome;

    async fn observe(&self, id: &ObjectId) -> Result<Observation<Self::Observed>, SyncError> {
        let Some(kind) = self.collector.kinds.get(id.kind) else { return Ok(Observation::Nothing) };
        let Some(owner) = kind.informer.meta_by_uid(&id.uid) else { return Ok(Observation::Nothing) };
        let (dependents, completeness, sick) = self.collector.dependents_to_orphan(&id.uid);
        let is_possible = |dependents: &Kind| kind.scope == Scope::Cluster || dependents.scope == kind.scope;
        let sick = sick.iter().filter(|sick| is_possible(sick)).map(|sick| (sick.id, Listing::Due)).collect();
        let dependents = dependents.into_iter().collect();
        let (listed, progress, met_conflict) = (HashMap::new(), Progress::Releasing, false);
        let orphaning = Orphaning { owner, dependents, listed, completeness, sick, progress, met_conflict };
        Ok(Observation::Ready((kind, Box::new(orphaning))))
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
            Step::List(sick) => Outcome::Listed(self.list(*sick, &orphaning.owner).await?),
            Step::Release(dependent) => Outcome::Wrote(self.release(dependent, orphaning).await?),
            Step::Read => Outcome::Read(calls.read(&orphaning.owner).await?.map(Box::new)),
            Step::Finish => {
                let wrote = calls.remove_finalizer(&orphaning.owner, ORPHAN).await?;
                let what = || format!("orphaning dependents of {} {}", kind.gvk.kind, orphaning.owner.key);
                Outcome::Wrote(wrote.only_once(orphaning.met_conflict, what)?)
            }
        })
    }

    fn absorb(&self, (_, orphaning): &mut Self::Observed, step: Step, result: StepResult<Outcome>) {
        orphaning.absorb(&step, result);
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::{Deletion, SharedList, Uid};

    use super::super::testing::{conflict, meta};
    use super::*;

    fn dependent(uid: &str) -> ObjectId {
        ObjectId { kind: KindId(0), uid: Uid::from(uid) }
    }

    fn orphaning(dependents: &[&str], completeness: Completeness) -> Orphaning {
        let owner = Meta {
            deletion: Deletion::at(Time::from_seconds(1)),
            finalizers: [ORPHAN.into()].into(),
            ..Meta::default()
        };
        let dependents = dependents.iter().map(|uid| dependent(uid)).collect();
        Orphaning {
            owner,
            dependents,
            listed: HashMap::new(),
            completeness,
            sick: BTreeMap::new(),
            progress: Progress::Releasing,
            met_conflict: false,
        }
    }

    #[test]
    fn the_finalizer_goes_once_all_dependents_are_released() {
        let mut two = orphaning(&["a", "b"], Completeness::Complete);
        let Plan::Act(batch) = plan(&two) else { panic!("the dependents must be released") };
        assert_eq!(batch.steps, [Step::Release(dependent("a")), Step::Release(dependent("b"))]);
        two.absorb(&batch.steps[0], StepResult::Done(Outcome::Wrote(Wrote::Done)));
        two.absorb(&batch.steps[1], StepResult::Done(Outcome::Wrote(Wrote::Gone)));
        assert_eq!(plan(&two), Plan::step(Step::Finish));
        two.absorb(&Step::Finish, StepResult::Done(Outcome::Wrote(conflict())));
        assert_eq!(plan(&two), Plan::step(Step::Read));
        let mut newest = two.owner.clone();
        newest.finalizers = SharedList::default();
        two.absorb(&Step::Read, StepResult::Done(Outcome::Read(Some(Box::new(newest)))));
        assert_eq!(plan(&two), Plan::done(), "another party has removed the finalizer");
    }

    #[test]
    fn a_kind_that_is_not_listed_yet_may_have_dependents() {
        let listing = orphaning(&["a"], Completeness::Listing);
        assert_eq!(plan(&listing), Plan::Done { requeue_after: Some(LISTING) });
    }

    /// An orphaning with one dependent in the graph, and with a sick kind whose list has this result.
    fn after_list(result: StepResult<Outcome>) -> Orphaning {
        let sick = KindId(1);
        let mut orphaning = orphaning(&["a"], Completeness::ButSick);
        orphaning.sick.insert(sick, Listing::Due);
        let Plan::Act(batch) = plan(&orphaning) else { panic!("the sick kind must be listed") };
        assert_eq!((&*batch.steps, batch.on_failure), (&[Step::List(sick)][..], OnFailure::PlanAgain));
        orphaning.absorb(&batch.steps[0], result);
        orphaning
    }

    fn released(mut orphaning: Orphaning) -> (usize, Plan<Step>) {
        let Plan::Act(batch) = plan(&orphaning) else { panic!("the dependents must be released") };
        for step in &batch.steps {
            orphaning.absorb(step, StepResult::Done(Outcome::Wrote(Wrote::Done)));
        }
        (batch.steps.len(), plan(&orphaning))
    }

    #[test]
    fn a_list_of_a_sick_kind_shows_its_dependents() {
        let found = |count: usize| {
            let dependents = (0..count).map(|at| meta(&at.to_string())).collect();
            released(after_list(StepResult::Done(Outcome::Listed(dependents))))
        };
        assert_eq!(found(0), (1, Plan::step(Step::Finish)));
        assert_eq!(found(2), (3, Plan::step(Step::Finish)));
        let rest = Plan::Done { requeue_after: Some(REST) };
        assert_eq!(found(LISTED + 1), (LISTED + 1, rest), "the graph's dependent and those of one list");
    }

    #[test]
    fn a_sick_kind_that_cannot_be_listed_keeps_the_owner_and_holds_up_no_other_kind() {
        let failed = StepResult::Failed(SyncError::Failed("down".into()));
        assert_eq!(released(after_list(failed)), (1, Plan::Done { requeue_after: Some(RELIST) }));
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
        stays.owner.deletion = None;
        assert_eq!(plan(&stays), Plan::done());
    }
}
