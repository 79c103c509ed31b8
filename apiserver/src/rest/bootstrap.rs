//! What is always there, and what follows from writes.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::options::Commit;
use super::server::ApiServer;
use crate::managed_fields;
use crate::object;
use crate::refusal::{Refusal, Result};
use crate::registry::{DEFINITIONS, Resource, SYSTEM_CLASSES, SystemClass, resources_of, table_of};
use crate::store::{Loaded, Object, OpenError};

/// The manager of what the server makes by itself.
const SELF: &str = "kube-apiserver";
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Namespaces that can't be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

impl ApiServer {
    /// Puts the objects of a data folder back. Definitions go first: they say what custom resources are.
    ///
    /// # Errors
    /// An object can't be read: nothing is served then, so that nothing of the folder is lost.
    pub(super) fn restore(&self, loaded: Loaded, folder: &Path) -> std::result::Result<(), OpenError> {
        let (definitions, others): (Vec<_>, Vec<_>) =
            loaded.objects.into_iter().partition(|(table, ..)| table == DEFINITIONS);
        for (table, key, state) in definitions.into_iter().chain(others) {
            let unreadable = |why: String| OpenError::Object {
                folder: folder.to_owned(),
                table: table.clone(),
                key: key.clone(),
                why,
            };
            let mut value: Value =
                serde_json::from_slice(&state).map_err(|error| unreadable(error.to_string()))?;
            if let Some(managed) = value["metadata"].get_mut("managedFields") {
                managed_fields::compact(managed);
            }
            let resource = self.resources().of_table(&table);
            let resource = resource.ok_or_else(|| unreadable("no such resource is served".to_owned()))?;
            let version = object::text_at(&value, "metadata.resourceVersion").parse();
            let version = version.map_err(|_| unreadable("it has no version".to_owned()))?;
            self.store().restore(&resource, key.clone(), version, value);
            if let Some(object) = self.store().get(&table, &key).filter(|_| table == DEFINITIONS) {
                self.noticed(&object);
            }
        }
        Ok(())
    }

    /// Creates what is always there, as far as it is missing.
    pub(super) fn bootstrap(&self) {
        let resources = self.resources();
        let namespaces =
            resources.get("", "v1", "namespaces").expect("the schema table must have namespaces");
        for name in NAMESPACES {
            self.begin_with(namespaces, json!({"metadata": {"name": name}}));
        }
        let classes = resources.get("scheduling.k8s.io", "v1", "priorityclasses");
        let classes = classes.expect("the schema table must have priority classes");
        for class in SYSTEM_CLASSES {
            let SystemClass { name, value, description } = class;
            let class = json!({"metadata": {"name": name}, "value": value, "description": description});
            self.begin_with(classes, class);
        }
    }

    /// Creates one of the first objects, unless it is there.
    fn begin_with(&self, resource: &Arc<Resource>, mut object: Value) {
        resource.strategy.default(&mut object);
        self.track_new(resource, &mut object, SELF);
        if let Err(refusal) = self.add_named(None, resource, "", object, Commit::Write) {
            assert_eq!(refusal.status.reason, "AlreadyExists", "a store must take the first objects");
        }
    }

    /// What can never be deleted is refused.
    pub(super) fn may_delete(&self, resource: &Resource, name: &str) -> Result<()> {
        let of_system = SYSTEM_CLASSES.iter().any(|class| class.name == name);
        if resource.table == "priorityclasses.scheduling.k8s.io" && of_system {
            let why = "this is a system priority class and cannot be deleted";
            return Err(Refusal::forbidden(resource, name, why));
        }
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
