//! What is always there, and what follows from writes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::options::Commit;
use super::server::ApiServer;
use crate::object;
use crate::refusal::{Refusal, Result};
use crate::registry::{self, DEFINITIONS, Resource, SYSTEM_CLASSES, SystemClass};
use crate::store::{Loaded, Object, OpenError, TableId};

/// The manager of what the server makes by itself.
pub(super) const SELF: &str = "kube-apiserver";
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Namespaces that can't be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

impl ApiServer {
    /// Puts the objects of a data folder back. Definitions go first: they say what custom resources are. Objects
    /// without a definition are kept until a client creates their definition (again).
    ///
    /// # Errors
    /// An object can't be read: nothing is served then, so that nothing of the folder is lost.
    pub(super) fn restore(&self, loaded: Loaded, folder: &Path) -> std::result::Result<(), OpenError> {
        let (definitions, others): (Vec<_>, Vec<_>) =
            loaded.objects.into_iter().partition(|(table, ..)| table == DEFINITIONS);
        let mut unserved: HashMap<TableId, Arc<Resource>> = HashMap::new();
        for (table, key, state) in definitions.into_iter().chain(others) {
            let unreadable = |why: String| OpenError::Object {
                folder: folder.to_owned(),
                table: table.clone(),
                key: key.clone(),
                why,
            };
            let resource = self.resources().of_table(&table).unwrap_or_else(|| {
                Arc::clone(unserved.entry(table.clone()).or_insert_with(|| registry::unserved(&table)))
            });
            self.store().restore(&resource, key.clone(), state).map_err(unreadable)?;
            if table == DEFINITIONS {
                self.serve_as_defined(&key.name);
            }
        }
        for table in unserved.keys() {
            tracing::warn!(%table, "objects are kept that nobody serves");
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
        self.bootstrap_addresses();
        self.go_on_cleaning_up();
    }

    /// Creates one of the first objects, unless it is there.
    fn begin_with(&self, resource: &Arc<Resource>, mut object: Value) {
        resource.strategy.default(&mut object);
        self.track_new(resource, &mut object, SELF);
        let name = object::text_at(&object, "metadata.name");
        if let Err(refusal) = self.add_named(None, resource, "", object, Commit::Write) {
            if refusal.is_no_space() {
                tracing::warn!(kind = %resource.kind, name, "there is no space for an object that every cluster has");
                return;
            }
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

    /// An object was written, in the place of `old` if that is not none: what follows from it?
    pub(super) fn noticed(&self, old: Option<&Object>, object: &Object) {
        self.note_addresses(old, Some(object));
        if object.resource.table == DEFINITIONS {
            self.serve_as_defined(&object.key.name);
            self.clean_up(object);
        }
    }

    /// Acts on the removal of an object: serves the resource of a removed definition no more, and lets a definition go whose
    /// last object this was.
    pub(super) fn vanished(&self, object: &Object) {
        self.note_addresses(Some(object), None);
        let resource = &object.resource;
        if resource.table == DEFINITIONS {
            self.serve_as_defined(&object.key.name);
        } else if resource.schema.is_none() {
            self.let_definition_go(&resource.table);
        }
    }
}
