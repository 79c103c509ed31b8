//! Kinds of `storage.k8s.io` with rules.

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self, default_text, members};

/// The rules of storage classes.
pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, class: &mut Value) {
        default_text(members(class), "reclaimPolicy", "Delete");
        default_text(members(class), "volumeBindingMode", "Immediate");
    }

    fn validate(&self, _: &Context<'_>, class: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if object::text_at(class, "provisioner").is_empty() {
            errors.push(FieldError::required("provisioner", ""));
        }
        let word = |name: &str, words: &[&str], errors: &mut Vec<FieldError>| {
            let value = object::text_at(class, name);
            if !value.is_empty() && !words.contains(&value.as_str()) {
                errors.push(FieldError::not_supported(name, value, words));
            }
        };
        word("reclaimPolicy", &["Delete", "Retain"], &mut errors);
        word("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &mut errors);
        errors
    }
}
