//! Which documents there are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use ring::digest::{Context, SHA512};
use serde_json::{Map, Value, json};
use steersman_api::schema;

use crate::object;
use crate::registry::{DEFINITIONS, Resource, Resources, Version};
use crate::store::{Object, Store};

/// All documents, by path.
pub(super) struct Index {
    entries: BTreeMap<String, Entry>,
}

/// One document: of one version of one group.
pub(super) struct Entry {
    /// `api/v1`, `apis/batch/v1`.
    pub(super) path: String,
    /// Empty for the core group.
    pub(super) group: String,
    /// Such as `v1`.
    pub(super) version: String,
    /// What is served in it, by plural.
    pub(super) resources: Vec<Arc<Resource>>,
    /// The definitions of those that are custom.
    pub(super) definitions: Vec<Arc<Object>>,
    /// Of all that the document is made from: as long as it stays the same, so does the document.
    pub(super) hash: String,
}

impl Index {
    /// What there is at the moment.
    pub(super) fn of(resources: &Resources, store: &Store) -> Self {
        let definitions = store.snapshot(&DEFINITIONS.into(), "", None);
        let definitions = definitions.map(|snapshot| snapshot.objects).unwrap_or_default();
        let groups = resources.groups().iter();
        let versions = groups.flat_map(|group| group.versions.iter().map(|version| (&group.name, version)));
        let entries = versions.map(|(group, version)| {
            let of_group =
                definitions.iter().filter(|definition| definition.kept()["spec"]["group"] == **group);
            let entry = Entry::new(group, version, of_group.cloned().collect());
            (entry.path.clone(), entry)
        });
        Self { entries: entries.collect() }
    }

    pub(super) fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// As `/openapi/v3` tells it.
    pub(super) fn list(&self) -> Value {
        let paths: Map<String, Value> = self
            .entries
            .values()
            .map(|entry| (entry.path.clone(), json!({"serverRelativeURL": entry.url()})))
            .collect();
        json!({"paths": paths})
    }
}

impl Entry {
    fn new(group: &str, version: &Version, definitions: Vec<Arc<Object>>) -> Self {
        let mut resources: Vec<Arc<Resource>> = version.resources.values().cloned().collect();
        resources.sort_by(|a, b| a.plural.cmp(&b.plural));
        let path = if group.is_empty() {
            format!("api/{}", version.name)
        } else {
            format!("apis/{group}/{}", version.name)
        };
        let mut hash = Context::new(&SHA512);
        for part in [env!("CARGO_PKG_VERSION"), schema::table().kubernetes_version(), &path] {
            hash.update(part.as_bytes());
            hash.update(b"\n");
        }
        for resource in &resources {
            let subresources = resource.subresources.iter().map(|sub| &sub.name);
            for part in std::iter::once(&resource.plural).chain(&resource.verbs).chain(subresources) {
                hash.update(part.as_bytes());
                hash.update(b" ");
            }
        }
        for definition in &definitions {
            hash.update(definition.uid().as_bytes());
            // Its status may change as it likes.
            hash.update(object::text_at(definition.kept(), "metadata.generation").as_bytes());
        }
        let hash = hash.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02X}");
            hex
        });
        Self {
            path,
            group: group.to_owned(),
            version: version.name.to_string(),
            resources,
            definitions,
            hash,
        }
    }

    /// Where it is; with the hash, so that it may be kept for ever.
    pub(super) fn url(&self) -> String {
        format!("/openapi/v3/{}?hash={}", self.path, self.hash)
    }
}
