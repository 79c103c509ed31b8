//! Kinds of `coordination.k8s.io`.

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self};

/// The rules of leases.
pub(crate) struct Lease;

impl Strategy for Lease {
    fn validate(&self, _: &Context<'_>, lease: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(seconds) =
            object::int_at(lease, "spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0)
        {
            errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = object::int_at(lease, "spec.leaseTransitions").filter(|count| *count < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.leaseTransitions", count, why));
        }
        errors
    }
}
