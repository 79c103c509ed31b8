//! Events, of both groups that have them.

use serde_json::{Map, Value};

use crate::field::FieldError;
use crate::object;
use crate::registry::Resource;
use crate::registry::strategy::{Context, Strategy};

/// The rules of events. They are kept in the core group's form.
pub(crate) struct Event;

/// What the core group calls it, and what `events.k8s.io` does.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

impl Strategy for Event {
    fn validate(&self, context: &Context<'_>, event: &Value) -> Vec<FieldError> {
        let (involved, path) = if context.resource.group.is_empty() {
            (&event["involvedObject"], "involvedObject.namespace")
        } else {
            (&event["regarding"], "regarding.namespace")
        };
        let namespace = object::text_at(event, "metadata.namespace");
        let about = object::text_at(involved, "namespace");
        // Events about what has no namespace live in the default one.
        if about != namespace && !(about.is_empty() && namespace == "default") {
            let why = if context.resource.group.is_empty() {
                "does not match event.namespace"
            } else {
                "does not match event namespace"
            };
            return vec![FieldError::invalid(path, about, why)];
        }
        Vec::new()
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn field(&self, event: &Value, field: &str) -> String {
        match field {
            "source" => {
                let source = object::text_at(event, "source.component");
                if source.is_empty() { object::text_at(event, "reportingComponent") } else { source }
            }
            field => object::text_at(event, field),
        }
    }

    fn convert(&self, from: &Resource, to: &Resource, value: &Value) -> Value {
        if from.group == to.group {
            return value.clone();
        }
        let (Some(members), to_core) = (value.as_object(), to.group.is_empty()) else { return value.clone() };
        let renamed: Map<String, Value> = members
            .iter()
            .map(|(name, value)| {
                let pair = NAMES.iter().find(|(core, other)| *name == if to_core { *other } else { *core });
                let name = pair.map_or(name.as_str(), |(core, other)| if to_core { core } else { other });
                (name.to_owned(), value.clone())
            })
            .collect();
        let mut converted = Value::Object(renamed);
        converted["apiVersion"] = to.api_version.as_str().into();
        converted
    }
}
