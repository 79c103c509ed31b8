//! One document.

use serde_json::{Map, Value, json};
use steersman_api::schema;

use super::custom::CustomSchemas;
use super::index::Entry;
use super::paths::Paths;
use super::schemas::Schemas;

/// The document of a group version.
pub(super) fn of(entry: &Entry) -> Value {
    let version = schema::table().kubernetes_version().trim_start_matches('v');
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let mut schemas = Schemas::of(&entry.group, &entry.version);
    let custom = CustomSchemas::of(entry);
    let mut paths = Paths::of(&entry.group, &entry.version);
    for resource in &entry.resources {
        paths.add(resource, |kind_group, kind_version, kind| {
            custom.name_of(kind).or_else(|| schemas.require(kind_group, kind_version, kind))
        });
    }
    let paths = paths.finish();
    let mut all: Map<String, Value> = custom.into_schemas(&mut schemas);
    all.extend(schemas.finish());
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": minor},
        "paths": paths,
        "components": {
            "schemas": all,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
    })
}
