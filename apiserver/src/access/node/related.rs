//! Which objects are related to a node.

use std::sync::Arc;

use serde_json::Value;
use steersman_api::ObjectKey;

use super::references::{Named, claimed_by, names, secrets_of_volume};
use crate::meta::is_mirror;
use crate::object::text_at;
use crate::store::{Object, Store, TableId};

const VOLUMES: &str = "persistentvolumes";

/// Finds out whether an object is related to a node: through the pods that are bound to it, or by `spec.nodeName`. Nothing is related by
/// an empty name.
pub(super) struct Related<'a> {
    store: &'a Store,
    node: &'a str,
}

impl<'a> Related<'a> {
    pub(super) fn new(store: &'a Store, node: &'a str) -> Self {
        Self { store, node }
    }

    /// Whether a pod is bound to the node.
    pub(super) fn has_pod(&self, namespace: &str, name: &str) -> bool {
        let pod = self.store.get(&"pods".into(), &ObjectKey::new(namespace, name));
        pod.is_some_and(|pod| self.is_bound(&pod))
    }

    /// Whether a pod of the node names something in its namespace. Pods that only show what the node runs by itself do not
    /// count: the node made them.
    pub(super) fn is_named(&self, kind: Named, namespace: &str, name: &str) -> bool {
        if namespace.is_empty() {
            return false;
        }
        self.all("pods", namespace).iter().filter(|pod| self.is_bound(pod)).any(|pod| {
            let pod = pod.parsed();
            !is_mirror(&pod) && names(&pod, kind, name)
        })
    }

    /// Whether a volume is bound to a claim of a pod of the node.
    pub(super) fn has_volume(&self, name: &str) -> bool {
        let volume = self.store.get(&VOLUMES.into(), &ObjectKey::new("", name));
        volume.is_some_and(|volume| self.is_claimed(&volume.parsed()))
    }

    /// Whether such a volume needs a Secret on its node.
    pub(super) fn has_volume_with_secret(&self, namespace: &str, name: &str) -> bool {
        self.all(VOLUMES, "").iter().any(|volume| {
            let volume = volume.kept();
            secrets_of_volume(volume).contains(&(namespace, name)) && self.is_claimed(volume)
        })
    }

    /// Whether the object's `spec.nodeName` is the node.
    pub(super) fn is_of_node(&self, table: &str, name: &str) -> bool {
        let found = self.store.get(&table.into(), &ObjectKey::new("", name));
        found.is_some_and(|found| text_at(&found.parsed(), "spec.nodeName") == self.node)
    }

    fn is_claimed(&self, volume: &Value) -> bool {
        claimed_by(volume).is_some_and(|(namespace, claim)| self.is_named(Named::Claim, namespace, claim))
    }

    fn is_bound(&self, pod: &Object) -> bool {
        pod.field("spec.nodeName") == self.node
    }

    fn all(&self, table: &str, namespace: &str) -> Vec<Arc<Object>> {
        let table: TableId = table.into();
        if self.store.len(&table) == 0 {
            return Vec::new();
        }
        self.store.snapshot(&table, namespace, None).map(|snapshot| snapshot.objects).unwrap_or_default()
    }
}
