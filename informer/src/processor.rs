//! Delivers events to public handlers. Each handler has one slot per key, so a slow handler costs no more than its keys.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use steersman_api::ObjectKey;
use tokio::sync::Notify;

use crate::store::Written;
use crate::wire::{Object, Selection, View};

/// An event of one object, as a handler gets it.
#[derive(Clone, Debug)]
pub enum Event<S: Selection> {
    /// An object that is new to the handler.
    Added {
        /// The object was cached before the handler was added, or came with the informer's first list.
        initial: bool,
        /// The object's state.
        object: View<S>,
    },
    /// The object changed; or, if both states are the same, this is a resync.
    Updated {
        /// The state that the handler last got.
        old: View<S>,
        /// The object's state. The handler may have missed states in between.
        new: View<S>,
    },
    /// The object was deleted.
    Deleted {
        /// The last known state.
        last: View<S>,
    },
}

/// A public handler. It gets the events of one object in order, one at a time. A slow handler misses intermediate states, and
/// does not delay the informer or other handlers.
///
/// The handler gets no event of an object that was added and deleted before its turn. If another object of the same name
/// (another uid) replaced an object, it gets a deletion and an addition. Of an object that can't be read it gets the last
/// readable state, or else the metadata alone; a [`Lister`](crate::Lister) returns the error.
pub trait EventHandler<S: Selection>: Send + 'static {
    /// Handles one event.
    fn handle(&mut self, event: Event<S>) -> impl Future<Output = ()> + Send;
}

/// A closure is a handler that does not wait.
impl<S: Selection, F: FnMut(Event<S>) + Send + 'static> EventHandler<S> for F {
    async fn handle(&mut self, event: Event<S>) {
        self(event);
    }
}

/// The events that wait for one handler.
pub(crate) struct Mailbox<K> {
    state: Mutex<State<K>>,
    filled: Notify,
}

struct State<K> {
    /// A slot for each key whose newest state the handler has not got yet.
    slots: HashMap<ObjectKey, Slot<K>>,
    /// The keys of the slots, in the order of delivery. Each slot is here once.
    order: BTreeMap<u64, ObjectKey>,
    next: u64,
    /// The number of slots of the initial list, including the one that is being delivered.
    initial: usize,
    /// No further slot of the initial list will come.
    initial_complete: bool,
}

struct Slot<K> {
    order: u64,
    /// The state that the handler last got, if any.
    told: Option<Arc<K>>,
    newest: Newest<K>,
    initial: bool,
}

enum Newest<K> {
    Present(Arc<K>),
    Gone(Arc<K>),
}

/// A slot that is being delivered.
pub(crate) struct Delivery<K> {
    told: Option<Arc<K>>,
    newest: Newest<K>,
    pub(crate) initial: bool,
}

impl<K: Object> Mailbox<K> {
    pub(crate) fn new() -> Self {
        let state = State {
            slots: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            initial: 0,
            initial_complete: false,
        };
        Self { state: Mutex::new(state), filled: Notify::new() }
    }

    /// Adds a write of the store. `initial`: it is part of the first list.
    pub(crate) fn put(&self, written: &Written<K>, initial: bool) {
        match written {
            Written::Added(new) => self.merge(None, Newest::Present(Arc::clone(new)), initial),
            Written::Updated(old, new) => self.merge(Some(old), Newest::Present(Arc::clone(new)), false),
            Written::Deleted(last) => self.merge(Some(last), Newest::Gone(Arc::clone(last)), false),
        }
    }

    /// Adds a resync of an object.
    pub(crate) fn resync(&self, object: &Arc<K>) {
        self.merge(Some(object), Newest::Present(Arc::clone(object)), false);
    }

    /// Records that the initial list is complete.
    pub(crate) fn complete_initial(&self) {
        self.state.lock().initial_complete = true;
    }

    /// Whether the handler has handled the whole initial list.
    pub(crate) fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.initial_complete && state.initial == 0
    }

    fn merge(&self, old: Option<&Arc<K>>, newest: Newest<K>, initial: bool) {
        let key = match &newest {
            Newest::Present(object) | Newest::Gone(object) => object.meta().key.clone(),
        };
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(slot) = state.slots.get_mut(&key) {
            if slot.told.is_none() && matches!(newest, Newest::Gone(_)) {
                // The object was added and deleted before its turn.
                let slot = state.slots.remove(&key).expect("a slot just found must be there");
                state.order.remove(&slot.order);
                state.initial -= usize::from(slot.initial);
            } else {
                slot.newest = newest;
            }
            return;
        }
        let order = state.next;
        state.next += 1;
        state.initial += usize::from(initial);
        state.slots.insert(key.clone(), Slot { order, told: old.cloned(), newest, initial });
        state.order.insert(order, key);
        self.filled.notify_one();
    }

    /// Waits for the next slot. Cancel-safe.
    pub(crate) async fn take(&self) -> Delivery<K> {
        // A handler that never waits must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.state.lock();
                if let Some((_, key)) = state.order.pop_first() {
                    let slot = state.slots.remove(&key).expect("each key in order must have a slot");
                    return Delivery { told: slot.told, newest: slot.newest, initial: slot.initial };
                }
            }
            filled.await;
        }
    }

    /// Records that the handler has handled a slot of the initial list.
    pub(crate) fn told_initial(&self) {
        self.state.lock().initial -= 1;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.state.lock().slots.len()
    }
}

impl<K: Object> Delivery<K> {
    /// The events of the slot: one, or two if another object of the same name replaced an object.
    pub(crate) fn into_events<S: Selection<Kind = K>>(self) -> impl Iterator<Item = Event<S>> {
        let initial = self.initial;
        let added = |object| Event::Added { initial, object: View::new(object) };
        let (first, second) = match (self.told, self.newest) {
            (None, Newest::Present(new)) => (Some(added(new)), None),
            (Some(old), Newest::Present(new)) if old.meta().uid != new.meta().uid => {
                (Some(Event::Deleted { last: View::new(old) }), Some(added(new)))
            }
            (Some(old), Newest::Present(new)) => {
                (Some(Event::Updated { old: View::new(old), new: View::new(new) }), None)
            }
            // The handler knows only the first object, not the one that replaced it and was deleted as well.
            (Some(old), Newest::Gone(last)) if old.meta().uid != last.meta().uid => {
                (Some(Event::Deleted { last: View::new(old) }), None)
            }
            (_, Newest::Gone(last)) => (Some(Event::Deleted { last: View::new(last) }), None),
        };
        first.into_iter().chain(second)
    }
}

/// Delivers the slots of a mailbox to its handler. Ends only by being dropped.
pub(crate) async fn deliver<S: Selection>(mailbox: Arc<Mailbox<S::Kind>>, mut handler: impl EventHandler<S>) {
    loop {
        let delivery = mailbox.take().await;
        let initial = delivery.initial;
        for event in delivery.into_events() {
            handler.handle(event).await;
        }
        if initial {
            mailbox.told_initial();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::meta::MetaOnly;
    use futures::FutureExt;
    use steersman_api::Meta;

    fn object(name: &str, uid: &str, version: u64) -> Arc<MetaOnly> {
        Arc::new(MetaOnly(Meta {
            key: ObjectKey::new("default", name),
            uid: uid.into(),
            resource_version: steersman_api::ResourceVersion(version),
            ..Meta::default()
        }))
    }

    fn told(mailbox: &Mailbox<MetaOnly>) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(delivery) = mailbox.take().now_or_never() {
            let version = |view: &View<MetaOnly>| view.meta().resource_version;
            told.extend(delivery.into_events::<MetaOnly>().map(|event| match event {
                Event::Added { object, .. } => format!("+{}", version(&object)),
                Event::Updated { old, new } => format!("{}>{}", version(&old), version(&new)),
                Event::Deleted { last } => format!("-{}", version(&last)),
            }));
        }
        told
    }

    #[test]
    fn a_slow_handler_sees_fewer_states() {
        let mailbox = Mailbox::new();
        let (one, two, three) = (object("a", "u", 1), object("a", "u", 2), object("a", "u", 3));
        mailbox.put(&Written::Updated(Arc::clone(&one), Arc::clone(&two)), false);
        mailbox.put(&Written::Updated(two, three), false);
        assert_eq!(told(&mailbox), ["1>3"]);
    }

    #[test]
    fn an_object_that_came_and_went_is_never_told_of() {
        let mailbox = Mailbox::new();
        mailbox.put(&Written::Added(object("a", "u", 1)), true);
        mailbox.put(&Written::Deleted(object("a", "u", 2)), false);
        mailbox.complete_initial();
        assert!(mailbox.has_synced());
        assert!(told(&mailbox).is_empty());
    }

    #[test]
    fn another_object_of_the_same_name_is_a_deletion_and_an_addition() {
        let mailbox = Mailbox::new();
        mailbox.put(&Written::Deleted(object("a", "u", 2)), false);
        mailbox.put(&Written::Added(object("a", "v", 3)), false);
        assert_eq!(told(&mailbox), ["-2", "+3"]);
    }

    #[test]
    fn a_handler_that_never_runs_costs_a_slot_a_live_key() {
        let mailbox = Mailbox::new();
        for i in 0..10_000 {
            let name = format!("pod-{i}");
            mailbox.put(&Written::Added(object(&name, "u", i)), false);
            mailbox.put(&Written::Deleted(object(&name, "u", i)), false);
        }
        mailbox.put(&Written::Added(object("kept", "u", 1)), false);
        assert_eq!(mailbox.len(), 1);
    }
}
