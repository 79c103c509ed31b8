//! What is always there, and what follows from writes.

use std::sync::Arc;

use serde_json::json;

use super::server::ApiServer;
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::store::Object;

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Namespaces that can't be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

impl ApiServer {
    /// Creates what is always there.
    pub(super) fn bootstrap(&self) {
        let resources = self.resources();
        let namespaces =
            resources.get("", "v1", "namespaces").expect("the schema table must have namespaces");
        for name in NAMESPACES {
            let mut namespace = json!({"metadata": {"name": name}});
            namespaces.strategy.default(&mut namespace);
            self.add_named(namespaces, "", namespace, false)
                .expect("a new store must take the first namespaces");
        }
    }

    /// What can never be deleted is refused.
    pub(super) fn may_delete(&self, resource: &Resource, name: &str) -> Result<()> {
        if resource.table == "namespaces" && IMMORTAL.contains(&name) {
            return Err(Refusal::forbidden(resource, name, "this namespace may not be deleted"));
        }
        Ok(())
    }

    /// An object was written: what follows from it?
    pub(super) fn noticed(&self, _object: &Arc<Object>) {}

    /// An object is gone: what follows from it?
    pub(super) fn vanished(&self, _object: &Arc<Object>) {}
}
