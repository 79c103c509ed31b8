//! What is always there, and what follows from writes.

use serde_json::json;

use super::options::Commit;
use super::server::ApiServer;
use crate::refusal::{Refusal, Result};
use crate::registry::{DEFINITIONS, Resource, resources_of, table_of};
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
            self.add_named(namespaces, "", namespace, Commit::Write)
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
    pub(super) fn noticed(&self, object: &Object) {
        if object.resource.table == DEFINITIONS {
            let table = table_of(&object.value);
            self.change_resources(|resources| {
                resources.remove_table(&table);
                for resource in resources_of(&object.value) {
                    resources.insert(resource);
                }
            });
        }
    }

    /// An object is gone: what follows from it?
    pub(super) fn vanished(&self, object: &Object) {
        if object.resource.table == DEFINITIONS {
            let table = table_of(&object.value);
            self.change_resources(|resources| resources.remove_table(&table));
            // Nobody can reach them any more, but who watches them is told.
            let left = self.store().snapshot(&table, "", None).map(|snapshot| snapshot.objects);
            for object in left.unwrap_or_default() {
                let _ = self.store().remove(&object);
            }
        }
    }
}
