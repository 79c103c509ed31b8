//! Syncs of the queue `garbage_collector_attempt_to_delete`.

use std::sync::Arc;

use steersman_api::Time;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, Plan};

use super::collector::{Collector, Key};
use super::coordinates::Coordinates;
use super::graph::{ObjectId, is_waiting};
use super::kinds::{Kind, Progress as ListProgress};
use super::owners::Owners;
use super::writes::Calls;

pub(super) mod object;
mod owner;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use object::Object;
use owner::Owner;

/// Deletes the objects whose owners are all gone.
pub(super) struct AttemptToDelete {
    pub(super) collector: Arc<Collector>,
    pub(super) owners: Owners,
}

/// The observed state of a key.
pub(super) enum Observed {
    /// Of an object.
    Object(Arc<Kind>, Box<Object>),
    /// Of an owner that no cache shows.
    Owner(Owner),
}

/// A step of either sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// About an object.
    Object(object::Step),
    /// About an owner.
    Owner(owner::Step),
}

impl AttemptToDelete {
    fn object(&self, id: &ObjectId) -> Observation<Observed> {
        let Some(kind) = self.collector.kinds.get(id.kind) else { return Observation::Nothing };
        let Some(meta) = kind.informer.meta_by_uid(&id.uid) else { return Observation::Nothing };
        if is_waiting(&meta) {
            self.collector.acquaint(id);
        }
        let standings =
            meta.owners.iter().map(|reference| self.owners.known(reference, &meta.key.namespace)).collect();
        let ((dependents, is_blocked), completeness) =
            self.collector.dependents(|graph| (graph.has_dependents(&id.uid), graph.is_blocked(&id.uid)));
        let progress = object::Progress::Begun;
        let met_conflict = false;
        let object = Object { meta, standings, dependents, is_blocked, completeness, progress, met_conflict };
        Observation::Ready(Observed::Object(kind, Box::new(object)))
    }

    fn owner(&self, coordinates: &Coordinates) -> Observation<Observed> {
        if self.collector.graph.lock().sight(&coordinates.uid).is_none() {
            // Nothing refers to it any more.
            return Observation::Nothing;
        }
        let reference = coordinates.as_reference();
        let kind = self.collector.kinds.named(&reference);
        let progress = kind.and_then(|kind| self.collector.kinds.progress(kind.id));
        Observation::Ready(Observed::Owner(Owner {
            standing: self.owners.known(&reference, &coordinates.namespace),
            source: owner::Source::Known,
            is_watched: progress == Some(ListProgress::Synced),
        }))
    }

    async fn act_on_object(
        &self,
        kind: &Kind,
        object: &Object,
        step: &object::Step,
    ) -> Result<object::Outcome, SyncError> {
        let (calls, meta) = (Calls::of(kind, &self.owners.sender), &object.meta);
        let wrote = match step {
            object::Step::Look(at) => {
                let owner = Coordinates::of(&meta.owners[*at], meta.key.namespace.clone());
                return self.owners.look(&owner).await.map(object::Outcome::Standing);
            }
            object::Step::Read => {
                return Ok(object::Outcome::Read(calls.read(meta).await?.map(Box::new)));
            }
            object::Step::Release(owners) => calls.release(meta, owners).await?,
            object::Step::Unblock => match calls.unblock(meta).await? {
                Ok(newest) => return Ok(object::Outcome::Changed(Box::new(newest))),
                Err(wrote) => wrote,
            },
            object::Step::Delete(propagation, version) => {
                tracing::debug!(kind = %kind.gvk.kind, object = %meta.key, ?propagation, "Deleting object");
                calls.delete(meta, *version, *propagation).await?
            }
            object::Step::Finish => calls.remove_finalizer(meta, super::FOREGROUND).await?,
        };
        let what = || format!("collecting {} {}", kind.gvk.kind, meta.key);
        Ok(object::Outcome::Wrote(wrote.only_once(object.met_conflict, what)?))
    }
}

impl Controller for AttemptToDelete {
    type Key = Key;
    type Observed = Observed;
    type Step = Step;
    type Outcome = object::Outcome;

    async fn observe(&self, key: &Key) -> Result<Observation<Observed>, SyncError> {
        Ok(match key {
            Key::Object(id) => self.object(id),
            Key::Owner(coordinates) => self.owner(coordinates),
        })
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        match observed {
            Observed::Object(_, object) => steps(object::plan(object), Step::Object),
            Observed::Owner(owner) => steps(owner::plan(*owner), Step::Owner),
        }
    }

    async fn act(&self, key: &Key, observed: &Observed, step: &Step) -> Result<object::Outcome, SyncError> {
        match (key, observed, step) {
            (_, Observed::Object(kind, object), Step::Object(step)) => {
                self.act_on_object(kind, object, step).await
            }
            (Key::Owner(coordinates), _, Step::Owner(owner::Step::Look)) => {
                self.owners.look(coordinates).await.map(object::Outcome::Standing)
            }
            (Key::Owner(coordinates), Observed::Owner(owner), Step::Owner(owner::Step::QueueDependents)) => {
                self.collector.queue_dependents(coordinates);
                Ok(object::Outcome::Standing(owner.standing))
            }
            _ => unreachable!("a step must be of the key's sort"),
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<object::Outcome>) {
        match (observed, step) {
            (Observed::Object(_, object), Step::Object(step)) => {
                let namespace = object.meta.key.namespace.clone();
                object.absorb(&step, result, |reference| self.owners.known(reference, &namespace));
            }
            (Observed::Owner(owner), Step::Owner(step)) => {
                if let StepResult::Done(object::Outcome::Standing(standing)) = result {
                    owner.absorb(step, StepResult::Done(standing));
                }
            }
            _ => unreachable!("a step must be of the key's sort"),
        }
    }
}

/// The same plan, with its steps wrapped.
fn steps<A, B>(plan: Plan<A>, wrap: impl Fn(A) -> B) -> Plan<B> {
    match plan {
        Plan::Act(Batch { steps, pace, on_failure }) => {
            Plan::Act(Batch { steps: steps.into_iter().map(wrap).collect(), pace, on_failure })
        }
        Plan::Done { requeue_after } => Plan::Done { requeue_after },
    }
}
