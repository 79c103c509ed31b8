//! What is wrong with a job's policies for failed pods and for success.

use serde_json::Value;

use crate::field::FieldError;
use crate::names;
use crate::object;
use crate::registry::fields::supported;

/// The rules of `podFailurePolicy`, which stands at `path`.
pub(super) fn validate_failure_policy(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let containers: Vec<String> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| object::list_at(&spec["template"]["spec"], list))
        .map(|container| object::text_at(container, "name"))
        .collect();
    for (at, rule) in object::list_at(&spec["podFailurePolicy"], "rules").iter().enumerate() {
        let path = format!("{path}.rules[{at}]");
        let action = object::text_at(rule, "action");
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        if action.is_empty() {
            errors.push(FieldError::required(format!("{path}.action"), format!("valid values: {actions:?}")));
        } else if action == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            let why = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid(format!("{path}.action"), action, why));
        } else {
            supported(rule, &path, "action", &actions, &mut errors);
        }
        let codes = &rule["onExitCodes"];
        if !codes.is_null() {
            validate_exit_codes(codes, &format!("{path}.onExitCodes"), &containers, &mut errors);
        }
        let conditions = object::list_at(rule, "onPodConditions");
        for (at, condition) in conditions.iter().enumerate() {
            let path = format!("{path}.onPodConditions[{at}]");
            let kind = object::text_at(condition, "type");
            errors.extend(FieldError::each_invalid(
                &format!("{path}.type"),
                &kind,
                names::qualified_name(&kind),
            ));
            supported(condition, &path, "status", &["False", "True", "Unknown"], &mut errors);
        }
        match (codes.is_null(), conditions.is_empty()) {
            (false, false) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.push(FieldError::invalid_without_value(path, why));
            }
            (true, true) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.push(FieldError::invalid_without_value(path, why));
            }
            _ => {}
        }
    }
    errors
}

fn validate_exit_codes(codes: &Value, path: &str, containers: &[String], errors: &mut Vec<FieldError>) {
    let operators = ["In", "NotIn"];
    if object::text_at(codes, "operator").is_empty() {
        let why = format!("valid values: {operators:?}");
        errors.push(FieldError::required(format!("{path}.operator"), why));
    }
    supported(codes, path, "operator", &operators, errors);
    let container = object::text_at(codes, "containerName");
    if !codes["containerName"].is_null() && !containers.contains(&container) {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(format!("{path}.containerName"), container, why));
    }
    let path = format!("{path}.values");
    let values: Vec<i64> = object::list_at(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.push(FieldError::invalid(path.as_str(), values.as_slice(), "at least one value is required"));
    }
    for (at, value) in values.iter().enumerate() {
        let field = format!("{path}[{at}]");
        if *value == 0 && codes["operator"] == "In" {
            errors.push(FieldError::invalid(field.as_str(), 0, "must not be 0 for the In operator"));
        }
        if values[..at].contains(value) {
            errors.push(FieldError::duplicate(field, *value));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(path, values, "must be ordered"));
    }
}

/// The rules of `successPolicy`, which stands at `path`, of a job with so many completions.
pub(super) fn validate_success_policy(policy: &Value, completions: i64, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rules = object::list_at(policy, "rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(format!("{path}.rules"), why));
    }
    for (at, rule) in rules.iter().enumerate() {
        let path = format!("{path}.rules[{at}]");
        let indexes = rule["succeededIndexes"].as_str();
        let count = object::int_at(rule, "succeededCount");
        if indexes.is_none() && count.is_none() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(FieldError::required(path.as_str(), why));
        }
        let total = indexes.map(|indexes| count_indexes(indexes, completions));
        if let (Some(indexes), Some(Err(why))) = (indexes, &total) {
            let why = format!("error parsing succeededIndexes: {why}");
            errors.push(FieldError::invalid(format!("{path}.succeededIndexes"), indexes, why));
        }
        let Some(count) = count else { continue };
        let field = format!("{path}.succeededCount");
        if count < 0 {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(field.as_str(), count, why));
        }
        let mut at_most = |most: i64, what: &str| {
            if count > most {
                let why = format!("must be less than or equal to {most} (the number of {what})");
                errors.push(FieldError::invalid(field.as_str(), count, why));
            }
        };
        at_most(completions, "specified completions");
        if let Some(total) = total {
            at_most(total.unwrap_or(0), "indexes in the specified succeededIndexes field");
        }
    }
    errors
}

/// How many indexes a text such as `1,3-5` names.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    if text.is_empty() {
        return Ok(0);
    }
    for interval in text.split(',') {
        let ends: Vec<&str> = interval.split('-').collect();
        let mut numbers = Vec::new();
        for end in &ends {
            let number: i64 =
                end.parse().map_err(|_| format!("cannot convert string to integer for index: {end:?}"))?;
            if number >= completions {
                return Err(format!("too large index: {end:?}"));
            }
            numbers.push(number);
        }
        let (start, end) = match numbers[..] {
            [one] => (one, one),
            [start, end] if start < end => (start, end),
            [_, _] => {
                return Err(format!(
                    "non-increasing order, previous: {}, current: {}",
                    numbers[0], numbers[1]
                ));
            }
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= start) {
            return Err(format!("non-increasing order, previous: {last}, current: {start}"));
        }
        last = Some(end);
        total += end - start + 1;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_and_judged() {
        for (text, expected) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("0-2,4", Ok(4)),
            ("5-3", Err("too large index: \"5\"".to_owned())),
            ("3-1", Err("non-increasing order, previous: 3, current: 1".to_owned())),
            ("1,1", Err("non-increasing order, previous: 1, current: 1".to_owned())),
            ("x", Err("cannot convert string to integer for index: \"x\"".to_owned())),
        ] {
            assert_eq!(count_indexes(text, 5), expected, "{text}");
        }
    }
}
