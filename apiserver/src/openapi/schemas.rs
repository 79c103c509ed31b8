//! Schemas of built-in kinds, from the schema table.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use steersman_api::schema::{self, Field, ListType, Message, Shape, Type};

/// The schemas of one document: of what was required, and of all that these refer to.
pub(super) struct Schemas {
    group: String,
    version: String,
    done: BTreeMap<String, Value>,
    /// Referred to, and yet to be described.
    todo: Vec<&'static Message>,
}

/// What the patches of all kinds are.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

impl Schemas {
    /// None yet.
    pub(super) fn of(group: &str, version: &str) -> Self {
        let mut done = BTreeMap::new();
        done.insert(PATCH.to_owned(), json!({"type": "object"}));
        Self { group: group.to_owned(), version: version.to_owned(), done, todo: Vec::new() }
    }

    /// Sees to it that a kind is described, and gives its name. `None` if there is no such kind.
    pub(super) fn require(&mut self, group: &str, version: &str, kind: &str) -> Option<String> {
        let message = schema::table().kind(group, version, kind)?.message;
        self.todo.push(message);
        Some(message.openapi_name())
    }

    /// All of them, by name.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(message) = self.todo.pop() {
            let name = message.openapi_name();
            if !self.done.contains_key(&name) {
                // Kinds refer to themselves now and then.
                self.done.insert(name.clone(), Value::Null);
                let schema = self.describe(message);
                self.done.insert(name, schema);
            }
        }
        self.done.into_iter().collect()
    }

    fn describe(&mut self, message: &'static Message) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        if message.has_type_meta() {
            for name in ["apiVersion", "kind"] {
                properties.insert(name.to_owned(), json!({"type": "string"}));
            }
        }
        self.add_fields(message, &mut properties, &mut required);
        let mut schema = json!({"type": "object"});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if !properties.is_empty() {
            schema["properties"] = Value::Object(properties);
        }
        if message.is_atomic() {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        let unions: Vec<Value> = message.unions().map(union).collect();
        if !unions.is_empty() {
            schema["x-kubernetes-unions"] = unions.into();
        }
        if let Some(api_version) = message.api_version() {
            schema["x-kubernetes-group-version-kind"] = self.kinds(api_version, message.short_name());
        }
        schema
    }

    /// Kinds of every group are listed under the core group and the document's own.
    fn kinds(&self, api_version: &str, kind: &str) -> Value {
        let (group, version) = match api_version {
            "*" => ("", "v1"),
            one => steersman_api::GroupVersion::split(one),
        };
        let mut kinds = vec![json!({"group": group, "version": version, "kind": kind})];
        let everywhere = matches!(kind, "DeleteOptions" | "WatchEvent");
        if everywhere && (self.group != group || self.version != version) {
            kinds.push(json!({"group": self.group, "version": self.version, "kind": kind}));
        }
        kinds.into()
    }

    fn add_fields(
        &mut self,
        message: &'static Message,
        properties: &mut Map<String, Value>,
        required: &mut Vec<&'static str>,
    ) {
        for field in message.fields() {
            if let Some(inlined) = field.inlined() {
                self.add_fields(inlined, properties, required);
                continue;
            }
            if field.required {
                required.push(field.name);
            }
            let property = self.property(field);
            properties.insert(field.name.to_owned(), property);
        }
    }

    fn property(&mut self, field: &'static Field) -> Value {
        let mut property = match field.shape {
            Shape::Single => {
                let mut value = self.value(field);
                if let Some(default) = field.default() {
                    value["default"] = default;
                }
                value
            }
            Shape::List => json!({"type": "array", "items": self.element(field)}),
            Shape::Map => json!({"type": "object", "additionalProperties": self.element(field)}),
        };
        match field.published_list_type() {
            Some(ListType::Atomic) => property["x-kubernetes-list-type"] = "atomic".into(),
            Some(ListType::Set) => property["x-kubernetes-list-type"] = "set".into(),
            Some(ListType::Map(keys)) => {
                property["x-kubernetes-list-type"] = "map".into();
                property["x-kubernetes-list-map-keys"] = keys.into();
            }
            None => {}
        }
        if let Some(map_type) = field.published_map_type() {
            property["x-kubernetes-map-type"] = map_type.into();
        }
        let strategy = field.patch_strategy();
        let strategies =
            [(strategy.merge, "merge"), (strategy.replace, "replace"), (strategy.retain_keys, "retainKeys")];
        let strategies: Vec<&str> = strategies.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        if !strategies.is_empty() {
            property["x-kubernetes-patch-strategy"] = strategies.join(",").into();
        }
        if !strategy.merge_key.is_empty() {
            property["x-kubernetes-patch-merge-key"] = strategy.merge_key.into();
        }
        property
    }

    /// What stands in a list or a map.
    fn element(&mut self, field: &'static Field) -> Value {
        let mut value = self.value(field);
        match field.ty {
            Type::Message(message) if !message.is_list() => value["default"] = json!({}),
            Type::String => value["default"] = "".into(),
            Type::Bool => value["default"] = false.into(),
            Type::Int32 | Type::Int64 | Type::Double => value["default"] = 0.into(),
            _ => {}
        }
        value
    }

    fn value(&mut self, field: &'static Field) -> Value {
        let mut value = match field.ty {
            Type::String => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Double => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Message(message) => match message.field("items").filter(|_| message.is_list()) {
                Some(items) => json!({"type": "array", "items": self.element(items)}),
                None => {
                    self.todo.push(message);
                    reference(&message.openapi_name())
                }
            },
            other => self.special(other),
        };
        let values = field.enumeration();
        if !values.is_empty() {
            value["enum"] = values.into();
        }
        value
    }

    /// Types with a JSON form of their own.
    fn special(&mut self, ty: Type) -> Value {
        const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
        const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
        let (package, name, schema) = match ty {
            Type::MicroTime => (META, "MicroTime", json!({"type": "string", "format": "date-time"})),
            Type::FieldsV1 => (META, "FieldsV1", json!({"type": "object"})),
            Type::Quantity => (
                "io.k8s.apimachinery.pkg.api.resource",
                "Quantity",
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            Type::IntOrString => (
                "io.k8s.apimachinery.pkg.util.intstr",
                "IntOrString",
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            Type::RawExtension => {
                ("io.k8s.apimachinery.pkg.runtime", "RawExtension", json!({"type": "object"}))
            }
            Type::Json => (EXTENSIONS, "JSON", json!({})),
            Type::SchemaOrArray => (EXTENSIONS, "JSONSchemaPropsOrArray", json!({})),
            Type::SchemaOrBool => (EXTENSIONS, "JSONSchemaPropsOrBool", json!({})),
            Type::SchemaOrStrings => (EXTENSIONS, "JSONSchemaPropsOrStringArray", json!({})),
            // Whatever else is no message is a moment.
            _ => (META, "Time", json!({"type": "string", "format": "date-time"})),
        };
        let name = format!("{package}.{name}");
        let reference = reference(&name);
        self.done.insert(name, schema);
        reference
    }
}

/// A reference that more can be said beside.
pub(super) fn reference(name: &str) -> Value {
    json!({"allOf": [{"$ref": address(name)}]})
}

/// Where a schema is within its document.
pub(super) fn address(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

fn union(union: schema::Union) -> Value {
    let fields: Map<String, Value> =
        union.fields().map(|(field, value)| (field.to_owned(), Value::from(value))).collect();
    if union.discriminator.is_empty() {
        json!({"fields-to-discriminateBy": fields})
    } else {
        json!({"discriminator": union.discriminator, "fields-to-discriminateBy": fields})
    }
}
