//! Leases of informers.

use std::fmt;
use std::sync::Arc;

use super::{Entry, Held, Inner};
use crate::shared_informer::AnyInformer;

/// Keeps the informer of one kind in a factory. From [`SharedInformerFactory::lease`](super::SharedInformerFactory::lease) or
/// [`SharedInformerFactory::lease_informer`](super::SharedInformerFactory::lease_informer).
///
/// When the last lease of an informer is dropped, the factory forgets the informer and stops it, unless a user asked for it
/// permanently. The next user that asks for the kind gets a new informer. Mappings and handlers of a user are the user's to
/// remove: another lease may keep the informer running.
pub struct Lease {
    factory: Arc<Inner>,
    informer: Arc<dyn AnyInformer>,
}

impl Lease {
    /// Called under the lock of the factory's state, by which the lease was counted.
    pub(super) fn new(factory: Arc<Inner>, informer: Arc<dyn AnyInformer>) -> Self {
        Self { factory, informer }
    }

    /// The leased informer. An `Arc` that outlives the lease does not keep the informer running; its cache then stays
    /// readable, and grows stale.
    pub fn informer(&self) -> &Arc<dyn AnyInformer> {
        &self.informer
    }

    /// Starts the informer, if it does not run yet, and starts no other.
    ///
    /// Does nothing if the informer is permanent as well: the factory's [`start`](super::SharedInformerFactory::start) starts
    /// those, once all users have said which fields they need.
    pub fn start(&self) {
        let mut state = self.factory.state.lock();
        let entries = state.informers.get_mut(self.informer.resource());
        let own = entries.into_iter().flatten().find(|entry| self.is_of(entry));
        if let Some(entry) = own
            && entry.held != Held::Permanently
        {
            self.factory.start(entry);
        }
    }

    fn is_of(&self, entry: &Entry) -> bool {
        Arc::ptr_eq(&self.informer, &entry.informer)
    }
}

/// Takes another lease of the same informer.
impl Clone for Lease {
    fn clone(&self) -> Self {
        let mut state = self.factory.state.lock();
        let entries = state.informers.get_mut(self.informer.resource());
        if let Some(entry) = entries.into_iter().flatten().find(|entry| self.is_of(entry))
            && let Held::Leased(leases) = &mut entry.held
        {
            *leases += 1;
        }
        Self { factory: Arc::clone(&self.factory), informer: Arc::clone(&self.informer) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.factory.state.lock();
        let Some(entries) = state.informers.get_mut(self.informer.resource()) else { return };
        let Some(at) = entries.iter().position(|entry| self.is_of(entry)) else { return };
        let Held::Leased(leases) = &mut entries[at].held else { return };
        *leases -= 1;
        if *leases == 0 {
            entries.remove(at);
            if entries.is_empty() {
                state.informers.remove(self.informer.resource());
            }
            self.informer.stop();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(self.informer.resource()).finish()
    }
}
