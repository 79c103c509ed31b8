//! Kinds of `node.k8s.io`.

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::names;
use crate::object::{self};

/// The rules of runtime classes.
pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn validate(&self, _: &Context<'_>, class: &Value) -> Vec<FieldError> {
        let handler = object::text_at(class, "handler");
        FieldError::each_invalid("handler", &handler, names::label(&handler)).collect()
    }

    fn validate_update(&self, _: &Context<'_>, class: &Value, old: &Value) -> Vec<FieldError> {
        let changed = class["handler"] != old["handler"];
        changed.then(|| FieldError::immutable("handler", &class["handler"])).into_iter().collect()
    }
}
