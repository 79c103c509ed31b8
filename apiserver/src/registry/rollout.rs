//! How many at a time: rollouts of workloads, disruption budgets.

use serde_json::Value;

use crate::field::FieldError;
use crate::object;

/// What is wrong with a number or a percentage that may not be negative.
pub(super) fn validate_count(count: &Value, field: &str) -> Option<FieldError> {
    match count {
        Value::String(text) if percentage(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                regex used for validation is '[0-9]+%')";
            Some(FieldError::invalid(field, text.as_str(), why))
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            Some(FieldError::invalid(field, count.clone(), "must be greater than or equal to 0"))
        }
        _ => None,
    }
}

/// More than all is too many.
pub(super) fn at_most_all(count: &Value, field: &str) -> Option<FieldError> {
    let percent = count.as_str().and_then(percentage)?;
    (percent > 100).then(|| FieldError::invalid(field, count.clone(), "must not be greater than 100%"))
}

fn percentage(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
}

/// The number before a percent sign counts as it stands, as upstream.
fn number(count: &Value) -> u64 {
    count.as_u64().or_else(|| count.as_str().and_then(percentage)).unwrap_or(0)
}

/// What is wrong with `spec.strategy` of a deployment.
pub(super) fn of_deployment(strategy: &Value) -> Vec<FieldError> {
    let path = "spec.strategy";
    let rolling = &strategy["rollingUpdate"];
    match object::text_at(strategy, "type").as_str() {
        "Recreate" if !rolling.is_null() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            vec![FieldError::forbidden(format!("{path}.rollingUpdate"), why)]
        }
        "Recreate" => Vec::new(),
        "RollingUpdate" => {
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|name| &rolling[name]);
            let [at_unavailable, at_surge] =
                ["maxUnavailable", "maxSurge"].map(|name| format!("{path}.rollingUpdate.{name}"));
            let mut errors: Vec<FieldError> = [(unavailable, &at_unavailable), (surge, &at_surge)]
                .into_iter()
                .filter_map(|(count, field)| validate_count(count, field))
                .collect();
            if number(unavailable) == 0 && number(surge) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(at_unavailable.as_str(), unavailable.clone(), why));
            }
            errors.extend(at_most_all(unavailable, &at_unavailable));
            errors
        }
        _ => vec![FieldError::not_supported(path, strategy.clone(), &["Recreate", "RollingUpdate"])],
    }
}

/// What is wrong with `spec.updateStrategy` of a daemon set.
pub(super) fn of_daemon_set(strategy: &Value) -> Vec<FieldError> {
    let path = "spec.updateStrategy";
    let rolling = &strategy["rollingUpdate"];
    match object::text_at(strategy, "type").as_str() {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|name| &rolling[name]);
            let [at_unavailable, at_surge] =
                ["maxUnavailable", "maxSurge"].map(|name| format!("{path}.rollingUpdate.{name}"));
            let both = [(unavailable, &at_unavailable), (surge, &at_surge)];
            let counts = both.into_iter().filter_map(|(count, field)| validate_count(count, field));
            let most = both.into_iter().filter_map(|(count, field)| at_most_all(count, field));
            let mut errors: Vec<FieldError> = counts.chain(most).collect();
            match (number(unavailable), number(surge)) {
                (0, 0) => {
                    let why = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(at_unavailable.as_str(), why));
                }
                (_, 0) | (0, _) => {}
                _ => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(at_surge.as_str(), surge.clone(), why));
                }
            }
            errors
        }
        _ => vec![FieldError::not_supported(path, strategy.clone(), &["RollingUpdate", "OnDelete"])],
    }
}

/// What is wrong with `spec.updateStrategy` and `spec.podManagementPolicy` of a stateful set.
pub(super) fn of_stateful_set(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy = object::text_at(spec, "podManagementPolicy");
    if !matches!(policy.as_str(), "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", policy, why));
    }
    let path = "spec.updateStrategy";
    let strategy = &spec["updateStrategy"];
    let rolling = &strategy["rollingUpdate"];
    match object::text_at(strategy, "type").as_str() {
        "OnDelete" if !rolling.is_null() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid(format!("{path}.rollingUpdate"), rolling.clone(), why));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let field = |name: &str| format!("{path}.rollingUpdate.{name}");
            errors.extend(validate_count(&rolling["partition"], &field("partition")));
            let unavailable = &rolling["maxUnavailable"];
            errors.extend(validate_count(unavailable, &field("maxUnavailable")));
            if !unavailable.is_null() && number(unavailable) == 0 {
                errors.push(FieldError::invalid(field("maxUnavailable"), unavailable.clone(), "cannot be 0"));
            }
            errors.extend(at_most_all(unavailable, &field("maxUnavailable")));
        }
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid(path, strategy.clone(), why));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_count_is_a_number_or_a_percentage() {
        for (count, good) in [
            (json!(0), true),
            (json!(5), true),
            (json!(-1), false),
            (json!("5%"), true),
            (json!("5"), false),
            (json!("%"), false),
            (json!("-5%"), false),
            (json!("99999999999999999999999%"), true),
        ] {
            assert_eq!(validate_count(&count, "f").is_none(), good, "{count}");
        }
        assert!(at_most_all(&json!("99999999999999999999999%"), "f").is_some());
        assert!(at_most_all(&json!("100%"), "f").is_none());
    }
}
