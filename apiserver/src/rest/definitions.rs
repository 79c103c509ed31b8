//! What the definitions of custom resources make of a server: what it serves, and the objects that go with them.
//!
//! A definition that is deleted stays, as upstream, until the last of its objects is gone: a finalizer holds it. So at no
//! moment there are objects that nobody can reach, whenever the process ends. From the mark on nothing new is made.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use steersman_api::ObjectKey;

use super::options::DeleteOptions;
use super::server::ApiServer;
use crate::meta;
use crate::refusal::{Refusal, Result};
use crate::registry::{self, DEFINITIONS, Resource};
use crate::store::{self, Object, TableId};

impl ApiServer {
    /// Serves what the definition of that name says now; nothing if it is gone.
    pub(super) fn serve_as_defined(&self, name: &str) {
        if registry::is_built_in(name) {
            tracing::warn!(name, "a definition of what is built in is left out of account");
            return;
        }
        self.change_resources(|resources| {
            resources.remove_table(name);
            // Looked at only here, where one comes after the other: the last to change what is served knows the newest.
            if let Some(definition) = self.store().get(&DEFINITIONS.into(), &ObjectKey::cluster(name)) {
                for resource in registry::resources_of(definition.kept()) {
                    resources.insert(resource);
                }
            }
        });
    }

    /// Serves what all definitions say now, after writes were undone.
    pub(crate) fn serve_as_all_defined(&self) {
        let resources = self.resources();
        let versions = resources.groups().iter().flat_map(|group| &group.versions);
        let custom = versions.flat_map(|version| version.resources.values()).filter(|it| it.schema.is_none());
        let mut names: BTreeSet<_> = custom.map(|resource| resource.table.to_string()).collect();
        let definitions = self.store().snapshot(&DEFINITIONS.into(), "", None);
        let definitions = definitions.map(|snapshot| snapshot.objects).unwrap_or_default();
        names.extend(definitions.iter().map(|definition| definition.key.name.to_string()));
        names.iter().for_each(|name| self.serve_as_defined(name));
    }

    /// Stores a new object of a resource, in the form of `stored`.
    ///
    /// # Errors
    /// The key is taken, or the resource has gone, or is going, since the request came.
    pub(super) fn store_new(
        &self,
        resource: &Resource,
        stored: &Arc<Resource>,
        key: ObjectKey,
        value: Value,
    ) -> Result<std::result::Result<Arc<Object>, store::Error>> {
        if resource.schema.is_some() {
            return Ok(self.store().create(stored, key, value));
        }
        self.with_resources(|resources| {
            match resources.get(&resource.group, &resource.version, &resource.plural) {
                None => Err(Refusal::no_such_resource()),
                Some(now) if now.closing => {
                    let why = "create not allowed while custom resource definition is terminating";
                    Err(Refusal::forbidden(resource, &key.name, why))
                }
                Some(_) => Ok(self.store().create(stored, key, value)),
            }
        })
    }

    /// Deletes the objects of a definition that is going. What something holds lets it go when it goes itself.
    pub(super) fn clean_up(&self, definition: &Object) {
        if !registry::awaits_cleanup(definition.kept()) {
            return;
        }
        let table = TableId::from(definition.key.name.as_str());
        let options = DeleteOptions::default();
        // Nothing comes to these: it has been marked, and that is what is served.
        let left =
            self.store().snapshot(&table, "", None).map(|snapshot| snapshot.objects).unwrap_or_default();
        for object in left.into_iter().filter(|object| object.resource.schema.is_none()) {
            let ObjectKey { namespace, name } = &object.key;
            if let Err(refusal) = self.remove(&object.resource, namespace, name, &options)
                && refusal.status.code != 404
            {
                tracing::warn!(%table, key = %object.key, why = refusal.status.message, "an object stays");
            }
        }
        self.let_definition_go(&table);
    }

    /// Cleans up after the definitions that were going when the process before this one ended.
    pub(super) fn go_on_cleaning_up(&self) {
        let definitions = self.store().snapshot(&DEFINITIONS.into(), "", None);
        for definition in definitions.map(|snapshot| snapshot.objects).unwrap_or_default() {
            self.clean_up(&definition);
        }
    }

    /// Takes the finalizer off a definition that is going, once its table is empty.
    pub(super) fn let_definition_go(&self, table: &TableId) {
        loop {
            let definition = self.store().get(&DEFINITIONS.into(), &ObjectKey::cluster(table.clone()));
            let Some(seen) = definition else { return };
            let Some(cleaned) = registry::cleaned_up(&seen.parsed(), self.clock().now()) else { return };
            if self.store().len(table) > 0 && !registry::is_built_in(table) {
                return;
            }
            let done = if meta::is_finished(&seen.resource, &cleaned) {
                self.store().remove(&seen).map(|last| self.vanished(&last))
            } else {
                self.store().replace(&seen, cleaned).map(|_| ())
            };
            match done {
                // Without space for the mark that it has been cleaned up, the next object that goes tries again.
                Ok(()) | Err(store::Error::NoSpace) => return,
                // Overtaken by another write: look again.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
