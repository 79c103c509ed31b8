//! The protection controllers: keep an object that is being deleted for as long as something uses it, by a finalizer.
//!
//! ```text
//! the object changes, or a user of it goes ─> queue ─> observe ─> plan ─┬─ it has no finalizer: add it
//!                                                                      └─ it is being deleted ─┬─ a cache shows a user: keep it
//!                                                                                              ├─ ask the API server for users
//!                                                                                              └─ none: remove the finalizer
//! ```
//!
//! One engine (`engine`, `plan`, `finalizer`) serves four kinds. Each has a `Guard`, which knows the users:
//!
//! | guard | object | users |
//! |---|---|---|
//! | `claims` | PersistentVolumeClaim | pods that were scheduled |
//! | `volumes` | PersistentVolume | the claim that it is bound to |
//! | `attributes_classes` | VolumeAttributesClass | claims and volumes |
//! | `pod_groups` | PodGroup | pods that have not ended |
//!
//! As upstream's, except that the API server is asked for users of a VolumeAttributesClass, too, and that an object whose user
//! only the API server shows is looked at again a few seconds later: no change of the cache may ever tell of that user.

pub mod attributes_classes;
pub mod claims;
pub mod pod_groups;
pub mod volumes;

mod engine;
mod finalizer;
mod plan;
#[cfg(test)]
mod tests;

use steersman_api::Meta;
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Kind, Selection};
use steersman_informer::{Change, View};

/// Knows what uses the objects of one kind.
trait Guard: Send + Sync + 'static {
    /// What the cache keeps of an object.
    type Cached: Selection<Kind: Kind>;
    /// Keeps an object until nothing uses it.
    const FINALIZER: &'static str;

    /// Discards what the guard remembers of an earlier term.
    fn term_begins(&self) {}

    /// Whether a cache shows that something uses the object.
    ///
    /// # Errors
    /// A user of the object can't be read.
    fn is_used(&self, object: &View<Self::Cached>) -> Result<bool, SyncError>;

    /// Whether something uses the object, as the API server says now. `object` is being deleted.
    ///
    /// # Errors
    /// The call failed.
    fn is_used_now(&self, object: &Meta) -> impl Future<Output = Result<bool, SyncError>> + Send;
}

/// Whether an object lacks the finalizer, or waits for its removal.
fn needs_sync<S: Selection>(change: &Change<S>, finalizer: &str) -> bool {
    change.new().is_some_and(|object| object.meta().is_deleting() == object.meta().has_finalizer(finalizer))
}
