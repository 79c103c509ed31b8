//! The objects of all kinds that refer to one owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_api::{ArcStr, GroupVersionResource, Meta, Uid};

use super::SharedInformerFactory;
use crate::shared_informer::AnyInformer;

/// A cached object that refers to an owner.
#[derive(Clone, Debug)]
pub struct Dependent {
    /// The resource of the cache that holds the object.
    pub resource: GroupVersionResource,
    /// The object's metadata.
    pub meta: Meta,
}

impl SharedInformerFactory {
    /// All cached objects whose owner references name this uid, as a managing owner or not, sorted by resource.
    ///
    /// Caches of a narrower scope than the factory's are not read: their objects are in a cache of the whole kind, if one is
    /// needed. If several caches hold a group's resource, such as one for each of its versions, this reads only one: one that is
    /// synced rather than one that is not, and among those the one that has advanced furthest.
    ///
    /// This reads one cache after the other and holds no lock across them, so the result is not a snapshot. A cache that has
    /// not synced may lack objects. The caller must compare the references with the owner: an owner that has a namespace owns
    /// objects of its namespace only. The first call makes an index in each cache.
    pub fn dependents(&self, owner: &Uid) -> Vec<Dependent> {
        let mut best = BTreeMap::<(ArcStr, ArcStr), Arc<dyn AnyInformer>>::new();
        for informer in self.whole_informers() {
            let resource = informer.resource();
            let kind = (resource.group.clone(), resource.resource.clone());
            let rank = |informer: &dyn AnyInformer| {
                (informer.has_synced(), !informer.is_stopped(), informer.last_sync_resource_version())
            };
            if best.get(&kind).is_none_or(|known| rank(&**known) < rank(&*informer)) {
                best.insert(kind, informer);
            }
        }
        let mut dependents = Vec::new();
        for informer in best.into_values() {
            let owned = informer.owned_by(owner).into_iter();
            dependents.extend(owned.map(|meta| Dependent { resource: informer.resource().clone(), meta }));
        }
        dependents
    }
}
