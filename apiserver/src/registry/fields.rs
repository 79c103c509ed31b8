//! Rules of single fields, which many kinds share.

use serde_json::Value;

use crate::field::FieldError;
use crate::object;

/// Does something to every item of a list, if there is one.
pub(crate) fn each(object: &mut Value, list: &str, act: impl FnMut(&mut Value)) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.iter_mut().for_each(act);
    }
}

/// A port's number.
pub(crate) fn in_port_range(number: i64, field: String, errors: &mut Vec<FieldError>) {
    if !(1..=65_535).contains(&number) {
        errors.push(FieldError::invalid(field, number, "must be between 1 and 65535, inclusive"));
    }
}

/// One of a few words.
pub(crate) fn supported(
    object: &Value,
    path: &str,
    name: &str,
    values: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let value = object::text_at(object, name);
    if !value.is_empty() && !values.contains(&value.as_str()) {
        errors.push(FieldError::not_supported(format!("{path}.{name}"), value, values));
    }
}

/// A number that may not be negative.
pub(crate) fn not_negative(object: &Value, path: &str, name: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = object::int_at(object, name).filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(format!("{path}.{name}"), number, why));
    }
}
