//! Kinds of `policy`.

use serde_json::Value;

use super::fields::supported;
use super::rollout::{at_most_all, validate_count};
use super::strategy::{Context, Strategy};
use crate::field::FieldError;

/// The rules of disruption budgets.
pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn validate(&self, _: &Context<'_>, budget: &Value) -> Vec<FieldError> {
        let spec = &budget["spec"];
        let mut errors = Vec::new();
        if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.push(FieldError::invalid("spec", spec.clone(), why));
        }
        for name in ["minAvailable", "maxUnavailable"] {
            errors.extend(validate_count(&spec[name], &format!("spec.{name}")));
            errors.extend(at_most_all(&spec[name], &format!("spec.{name}")));
        }
        supported(
            spec,
            "spec",
            "unhealthyPodEvictionPolicy",
            &["AlwaysAllow", "IfHealthyBudget"],
            &mut errors,
        );
        errors
    }
}
