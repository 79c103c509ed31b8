//! Syncs of protected objects.

use steersman_api::{Meta, ObjectKey, Time};
use steersman_controller::client::Client;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_informer::wire::{Kind, Selection};

use super::Guard;
use super::finalizer::{Write, write};
use super::plan::{Observed, Outcome, Step, plan};

/// Adds and removes the finalizer of the objects that `G` guards.
///
/// A sync needs no cache that shows the controller's own writes: a write is decided on one version of the object, and has no
/// effect on a later one.
pub(super) struct Protection<G: Guard> {
    pub objects: Lister<G::Cached>,
    pub client: Client<<G::Cached as Selection>::Kind>,
    pub guard: G,
}

/// An object as the cache shows it.
pub(super) struct Sync {
    meta: Meta,
    observed: Observed,
}

impl<G: Guard> Controller for Protection<G> {
    type Key = ObjectKey;
    type Observed = Sync;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.guard.term_begins();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Sync>, SyncError> {
        let kind = <G::Cached as Selection>::Kind::KIND;
        let object = self.objects.get(key);
        let object = object.map_err(|object| SyncError::Unreadable(format!("{kind} {}", object.key)))?;
        let Some(object) = object else { return Ok(Observation::Nothing) };
        let meta = object.meta();
        let (is_deleting, has_finalizer) = (meta.is_deleting(), meta.has_finalizer(G::FINALIZER));
        let is_used = is_deleting && has_finalizer && self.guard.is_used(&object)?;
        let observed = Observed { is_deleting, has_finalizer, is_used, ..Observed::default() };
        Ok(Observation::Ready(Sync { meta: meta.clone(), observed }))
    }

    fn plan(&self, sync: &Sync, _: Time) -> Plan<Step> {
        plan(&sync.observed)
    }

    async fn act(&self, _: &ObjectKey, sync: &Sync, step: &Step) -> Result<Outcome, SyncError> {
        let change = match step {
            Step::Ask => return self.guard.is_used_now(&sync.meta).await.map(Outcome::Asked),
            Step::Add => Write::Add,
            Step::Remove => Write::Remove,
        };
        write(&self.client, &sync.meta, G::FINALIZER, change).await.map(|()| Outcome::Written)
    }

    fn absorb(&self, sync: &mut Sync, _: Step, result: StepResult<Outcome>) {
        sync.observed.absorb(&result);
    }
}
