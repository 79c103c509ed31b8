//! Label selectors within objects.

use serde_json::Value;
use steersman_api::LabelSelector;

use crate::field::FieldError;
use crate::meta::validate_labels;
use crate::names;
use crate::object;

/// What is wrong with a `metav1.LabelSelector` that stands at `path`.
pub(super) fn validate_selector(selector: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = validate_labels(&selector["matchLabels"], &format!("{path}.matchLabels"));
    for (at, expression) in object::list_at(selector, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let operator = object::text_at(expression, "operator");
        let values = object::list_at(expression, "values");
        let field = format!("{path}.values");
        match operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(field.as_str(), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(field.as_str(), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{path}.operator"), operator, why));
            }
        }
        let key = object::text_at(expression, "key");
        errors.extend(FieldError::each_invalid(&format!("{path}.key"), &key, names::qualified_name(&key)));
        for (at, value) in values.iter().filter_map(Value::as_str).enumerate() {
            errors.extend(FieldError::each_invalid(
                &format!("{field}[{at}]"),
                value,
                names::label_value(value),
            ));
        }
    }
    errors
}

/// The requirements of a `metav1.LabelSelector`; `None` if there is none or it makes no sense.
pub(crate) fn selector_of(selector: &Value) -> Option<LabelSelector> {
    let selector = selector.as_object()?;
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels =
        labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    let mut parsed = LabelSelector::from_labels(labels);
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let values = object::list_at(expression, "values").iter().filter_map(Value::as_str);
        parsed.require(expression["key"].as_str()?, expression["operator"].as_str()?, values).ok()?;
    }
    Some(parsed)
}
