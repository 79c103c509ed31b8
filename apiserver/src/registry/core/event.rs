//! Events, of both groups that have them.

use serde_json::{Map, Value};

use crate::field::FieldError;
use crate::names;
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
        let in_core = context.resource.group.is_empty();
        let mut errors = validate_as_ever(event, in_core);
        if in_core {
            return errors;
        }
        // The newer group takes events of the newer kind only.
        if event["eventTime"].is_null() {
            errors.push(FieldError::required("eventTime", ""));
        }
        let kind = object::text_at(event, "type");
        if !matches!(kind.as_str(), "Normal" | "Warning") {
            errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
        }
        for (name, field) in [
            ("deprecatedFirstTimestamp", "firstTimestamp"),
            ("deprecatedLastTimestamp", "lastTimestamp"),
            ("deprecatedCount", "count"),
            ("deprecatedSource", "source"),
        ] {
            if !object::same(event.get(name), None) && event[name] != 0 {
                errors.push(FieldError::invalid(field, "", "needs to be unset"));
            }
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, event: &Value, old: &Value) -> Vec<FieldError> {
        let in_core = context.resource.group.is_empty();
        let mut errors = validate_as_ever(event, in_core);
        if in_core {
            return errors;
        }
        for (name, field) in [
            ("regarding", "involvedObject"),
            ("reason", "reason"),
            ("note", "message"),
            ("deprecatedSource", "source"),
            ("deprecatedFirstTimestamp", "firstTimestamp"),
            ("deprecatedLastTimestamp", "lastTimestamp"),
            ("deprecatedCount", "count"),
            ("type", "type"),
            ("eventTime", "eventTime"),
            ("action", "action"),
            ("related", "related"),
            ("reportingController", "reportingController"),
            ("reportingInstance", "reportingInstance"),
        ] {
            if !object::same(event.get(name), old.get(name)) {
                errors.push(FieldError::immutable(field, &event[name]));
            }
        }
        errors
    }

    fn selects_by(&self, resource: &Resource, field: &str) -> bool {
        let in_core = match field.strip_prefix("regarding.") {
            _ if resource.group.is_empty() => field.to_owned(),
            Some(rest) => format!("involvedObject.{rest}"),
            None if field == "reportingController" => "reportingComponent".to_owned(),
            None if matches!(field, "reason" | "type") => field.to_owned(),
            None => return false,
        };
        self.selectable_fields().contains(&in_core.as_str())
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
            "reportingController" => object::text_at(event, "reportingComponent"),
            field if field.starts_with("regarding.") => {
                object::text_at(event, &field.replacen("regarding", "involvedObject", 1))
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

/// What has always been asked of events, with and without a time of their own.
fn validate_as_ever(event: &Value, in_core: bool) -> Vec<FieldError> {
    let (involved, controller, message) = if in_core {
        ("involvedObject", "reportingComponent", "message")
    } else {
        ("regarding", "reportingController", "note")
    };
    let namespace = object::text_at(event, "metadata.namespace");
    let about = object::text_at(&event[involved], "namespace");
    let mut errors = Vec::new();
    let mut misplaced = |about: &str| {
        let why = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", about, why));
    };
    if event["eventTime"].is_null() {
        // Events about what has no namespace live in the default one.
        if about != namespace && !(about.is_empty() && namespace == "default") {
            misplaced(&about);
        }
        return errors;
    }
    if about.is_empty() && !matches!(namespace.as_str(), "default" | "kube-system") {
        misplaced(&about);
    }
    let reporter = object::text_at(event, controller);
    if reporter.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    errors.extend(FieldError::each_invalid(controller, &reporter, names::qualified_name(&reporter)));
    for (name, field, limit) in [
        ("reportingInstance", "reportingInstance", 128),
        ("action", "action", 128),
        ("reason", "reason", 128),
        (message, "message", 1024),
    ] {
        let text = object::text_at(event, name);
        if text.is_empty() && field != "message" {
            errors.push(FieldError::required(field, ""));
        }
        if text.len() > limit {
            errors.push(FieldError::invalid(field, "", format!("can have at most {limit} characters")));
        }
    }
    errors
}
