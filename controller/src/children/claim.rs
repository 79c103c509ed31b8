//! The relation of an object to an owner that may claim it.

use steersman_api::{LabelSelector, Meta, ObjectKey, OwnerReference, Uid};
use steersman_informer::wire::Kind;

/// The relation of an object to an owner that may claim it, as upstream's `ClaimObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The owner manages it.
    Owned,
    /// No controller manages it, and the owner's selector selects it: the owner must adopt it.
    Orphan,
    /// The owner manages it, but its selector does not select it any more: the owner must release it.
    Stray,
}

impl Claim {
    /// The relation of `child` to an owner of kind `O`. `None` if the owner must leave the object alone.
    ///
    /// An owner that is being deleted neither adopts nor releases, and an object that is being deleted is not adopted.
    pub fn of<O: Kind>(owner: &Meta, selector: &LabelSelector, child: &Meta) -> Option<Self> {
        let selected = selector.matches(&child.labels);
        match child.controller() {
            Some(_) if !is_child_of::<O>(child, &owner.key, &owner.uid) => None,
            Some(_) if selected => Some(Self::Owned),
            Some(_) if owner.is_deleting() => None,
            Some(_) => Some(Self::Stray),
            None => {
                let adoptable = selected
                    && !owner.is_deleting()
                    && !child.is_deleting()
                    && child.key.namespace == owner.key.namespace;
                adoptable.then_some(Self::Orphan)
            }
        }
    }
}

/// Whether the managing owner of `child` is the object of kind `O` with this key and uid.
///
/// Compares namespace, kind, name and uid, as upstream's `PodControllerIndexKey`. The uid alone is not enough: the API
/// server does not check owner references, so an object of any namespace can carry any uid.
pub fn is_child_of<O: Kind>(child: &Meta, owner: &ObjectKey, uid: &Uid) -> bool {
    let is_it = |reference: &OwnerReference| {
        reference.uid == *uid && reference.kind == O::KIND && reference.name == owner.name
    };
    child.key.namespace == owner.namespace && child.controller().is_some_and(is_it)
}
