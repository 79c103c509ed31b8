//! Reads of the cache of one kind.

use steersman_api::{ArcStr, ObjectKey};
use steersman_informer::index::{BY_CONTROLLER, BY_NAMESPACE, by_controller, by_namespace};
use steersman_informer::{Index, IndexValue, Informer, Lister, Selection, Unreadable, View};

/// Reads the objects of one kind. Cheap to clone.
pub(in super::super) struct Cache<S: Selection> {
    lister: Lister<S>,
    by_namespace: Index<S>,
    /// Only for kinds whose owners matter.
    by_controller: Option<Index<S>>,
}

impl<S: Selection> Cache<S> {
    pub(super) fn new(informer: &Informer<S>) -> Self {
        let by_namespace = informer.add_index(BY_NAMESPACE, by_namespace);
        Self { lister: informer.lister(), by_namespace, by_controller: None }
    }

    /// The same cache with an index of owners.
    pub(super) fn with_owners(informer: &Informer<S>) -> Self {
        let by_controller = informer.add_index(BY_CONTROLLER, by_controller);
        Self { by_controller: Some(by_controller), ..Self::new(informer) }
    }

    /// The object of this key.
    pub(in super::super) fn get(&self, key: &ObjectKey) -> Result<Option<View<S>>, Unreadable> {
        self.lister.get(key)
    }

    /// The objects of a namespace.
    pub(in super::super) fn in_namespace(&self, namespace: &ArcStr) -> Result<Vec<View<S>>, Unreadable> {
        self.lister.by_index(&self.by_namespace, &namespace.clone().into())
    }

    /// The objects of a managing owner.
    ///
    /// # Panics
    /// If the cache has no index of owners.
    pub(in super::super) fn by_controller(&self, owner: &IndexValue) -> Result<Vec<View<S>>, Unreadable> {
        let index = self.by_controller.expect("the cache must have an index of owners");
        self.lister.by_index(&index, owner)
    }
}

impl<S: Selection> Clone for Cache<S> {
    fn clone(&self) -> Self {
        Self {
            lister: self.lister.clone(),
            by_namespace: self.by_namespace,
            by_controller: self.by_controller,
        }
    }
}
