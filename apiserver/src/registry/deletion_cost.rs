//! The annotation with the cost of a pod's deletion, by which owners choose the pods that go first.

use serde_json::Value;

use crate::field::FieldError;

const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates the annotation in the metadata of a pod or pod template. `path` is the path of the annotations.
pub(crate) fn validate(metadata: &Value, path: &str) -> Option<FieldError> {
    let value = invalid(metadata)?;
    Some(FieldError::invalid(format!("{path}[{ANNOTATION}]"), value, "must be a 32bit integer"))
}

/// As [`validate`], of an update: an invalid cost that was there before the server refused such costs is tolerated.
pub(crate) fn validate_update(metadata: &Value, old: &Value, path: &str) -> Option<FieldError> {
    invalid(old).is_none().then(|| validate(metadata, path)).flatten()
}

/// The annotation's value if it is invalid, as upstream's `GetDeletionCostFromPodAnnotations` decides it: a plus sign and
/// leading zeros are not allowed.
fn invalid(metadata: &Value) -> Option<&str> {
    let value = metadata["annotations"][ANNOTATION].as_str()?;
    let starts = value == "0" || value.starts_with(|first| first == '-' || ('1'..='9').contains(&first));
    (!starts || value.parse::<i32>().is_err()).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cost(value: &str) -> Value {
        json!({"annotations": {ANNOTATION: value}})
    }

    #[test]
    fn a_cost_is_a_plain_number_of_32_bits() {
        for value in ["0", "5", "-5", "-0", "2147483647", "-2147483648"] {
            assert_eq!(invalid(&cost(value)), None, "{value:?}");
        }
        for value in ["", "+5", "05", "2147483648", "five", "-", "1.0"] {
            assert_eq!(invalid(&cost(value)), Some(value));
        }
        assert_eq!(invalid(&json!({})), None);
    }

    #[test]
    fn an_invalid_cost_may_stay_and_may_not_come() {
        assert!(validate_update(&cost("x"), &cost("y"), "metadata.annotations").is_none());
        assert!(validate_update(&cost("x"), &cost("1"), "metadata.annotations").is_some());
        assert!(validate_update(&cost("x"), &json!({}), "metadata.annotations").is_some());
    }
}
