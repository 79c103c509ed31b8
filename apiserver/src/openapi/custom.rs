//! Schemas of custom resources, from their definitions.

use serde_json::{Map, Value, json};

use super::index::Entry;
use super::schemas::{Schemas, address, reference};
use crate::object::{list_at, members_at, text_at};

/// The schemas of the custom resources of one group version, by kind.
pub(super) struct CustomSchemas {
    kinds: Vec<CustomKind>,
}

struct CustomKind {
    /// Of an object or of a list.
    kind: String,
    /// Such as `com.example.v1.Widget`.
    name: String,
    schema: Value,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

impl CustomSchemas {
    /// Of all definitions that serve this version.
    pub(super) fn of(entry: &Entry) -> Self {
        let mut kinds = Vec::new();
        for definition in &entry.definitions {
            let spec = &definition.kept()["spec"];
            let version = list_at(spec, "versions").iter().find(|version| version["name"] == *entry.version);
            let Some(version) = version.filter(|version| version["served"] == true) else { continue };
            let [kind, list_kind] = ["names.kind", "names.listKind"].map(|path| text_at(spec, path));
            let object = entry.object(&kind, &version["schema"]["openAPIV3Schema"]);
            let name = object.name.clone();
            kinds.push(object);
            kinds.push(entry.list(&list_kind, &name));
        }
        Self { kinds }
    }

    /// The name of a kind's schema.
    pub(super) fn name_of(&self, kind: &str) -> Option<String> {
        self.kinds.iter().find(|found| found.kind == kind).map(|found| found.name.clone())
    }

    /// All of them by name, with what they refer to.
    pub(super) fn into_schemas(self, schemas: &mut Schemas) -> Map<String, Value> {
        if !self.kinds.is_empty() {
            // It refers to both ListMeta and ObjectMeta.
            schemas.require("meta.k8s.io", "v1", "PartialObjectMetadataList");
        }
        self.kinds.into_iter().map(|kind| (kind.name, kind.schema)).collect()
    }
}

impl Entry {
    /// `example.com`, `v1`, `Widget`: `com.example.v1.Widget`.
    fn schema_name(&self, kind: &str) -> String {
        let labels: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", labels.join("."), self.version)
    }

    fn typed(&self, kind: &str, mut schema: Value) -> Value {
        let properties = members_at(&mut schema, "properties");
        for name in ["apiVersion", "kind"] {
            properties.insert(name.to_owned(), json!({"type": "string"}));
        }
        schema["type"] = "object".into();
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": self.group, "version": self.version, "kind": kind}]);
        schema
    }

    fn object(&self, kind: &str, schema: &Value) -> CustomKind {
        let mut schema = self.typed(kind, schema.clone());
        schema["properties"]["metadata"] = reference(&format!("{META}.ObjectMeta"));
        CustomKind { kind: kind.to_owned(), name: self.schema_name(kind), schema }
    }

    fn list(&self, kind: &str, item: &str) -> CustomKind {
        let list = json!({
            "required": ["items"],
            "properties": {
                "items": {"type": "array", "items": {"$ref": address(item)}},
                "metadata": reference(&format!("{META}.ListMeta")),
            },
        });
        CustomKind { kind: kind.to_owned(), name: self.schema_name(kind), schema: self.typed(kind, list) }
    }
}
