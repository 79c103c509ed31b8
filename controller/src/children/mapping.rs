//! Finds the owners that must be synced when a child changes.

use std::sync::Arc;

use steersman_api::{Meta, ObjectKey};
use steersman_informer::Change;
use steersman_informer::wire::{Kind, Selection};
use steersman_informer::work_queue::WorkQueue;

use super::{Children, Owns};

/// How a mapping puts an owner's key into a queue.
pub type Enqueue<'a> = dyn Fn(&ObjectKey) + Send + Sync + 'a;

impl<O: Owns> Children<O> {
    /// Puts the keys of owners into `queue`: of each owner that changes, and of the owners that a changed child concerns.
    pub fn map_to(self: &Arc<Self>, queue: &WorkQueue<ObjectKey>) {
        let owners = queue.clone();
        self.owners.map(move |change| owners.add(change.key().clone()));
        let (this, queue) = (Arc::downgrade(self), queue.clone());
        self.children.map(move |change| {
            if let Some(this) = this.upgrade() {
                this.child_changed(change, &|owner| {
                    queue.wake(owner);
                    queue.add(owner.clone());
                });
            }
        });
    }

    /// Calls `enqueue` for each owner that must be synced after a change of a child: the managing owner before and after
    /// the change. If no controller manages the child, these are the owners that select it, provided that its labels or its
    /// owner changed. As the pod handlers of upstream's ReplicaSet controller.
    pub fn child_changed(&self, change: &Change<O::Child>, enqueue: &Enqueue<'_>) {
        self.dependent_changed(change, enqueue);
    }

    /// As [`child_changed`](Self::child_changed), for objects of another kind that the owners own as well, such as their
    /// revisions.
    pub fn dependent_changed<C: Selection>(&self, change: &Change<C>, enqueue: &Enqueue<'_>) {
        match change {
            Change::Added { object, .. } | Change::Resync { object } => match object.meta() {
                child if child.controller().is_some() || child.is_deleting() => self.managing(child, enqueue),
                child => self.selecting_owners(child, enqueue),
            },
            Change::Updated { old, new } => {
                let (old, new) = (old.meta(), new.meta());
                let changed_owner = old.controller() != new.controller();
                if changed_owner {
                    self.managing(old, enqueue);
                }
                if new.controller().is_some() || new.is_deleting() {
                    self.managing(new, enqueue);
                } else if changed_owner || old.labels != new.labels {
                    self.selecting_owners(new, enqueue);
                }
            }
            Change::Deleted { last } => self.managing(last.meta(), enqueue),
        }
    }

    fn managing(&self, child: &Meta, enqueue: &Enqueue<'_>) {
        let of_kind =
            child.controller().filter(|owner| owner.kind == O::Kind::KIND && owner.group() == O::Kind::GROUP);
        if let Some(owner) = of_kind {
            enqueue(&ObjectKey::new(child.key.namespace.clone(), owner.name.clone()));
        }
    }

    fn selecting_owners(&self, child: &Meta, enqueue: &Enqueue<'_>) {
        self.selecting(&child.key.namespace, &child.labels).iter().for_each(enqueue);
    }
}
