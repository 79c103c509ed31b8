//! What a job's status may become: upstream holds job controllers to it.

use serde_json::Value;

use crate::field::FieldError;
use crate::object;

/// Whether the status has that condition, and it is true.
pub(super) fn has_condition(job: &Value, name: &str) -> bool {
    object::list_at(job, "status.conditions")
        .iter()
        .any(|condition| condition["type"] == name && condition["status"] == "True")
}

fn count(job: &Value, name: &str) -> i64 {
    job["status"][name].as_i64().unwrap_or(0)
}

/// What is wrong with a job's new status.
pub(super) fn validate(job: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        crate::registry::fields::not_negative(&job["status"], "status", name, &mut errors);
    }
    uncounted(job, &mut errors);
    if has_condition(job, "Complete") && has_condition(job, "Failed") {
        let why = "cannot set Complete=True and Failed=true conditions";
        errors.push(FieldError::invalid_without_value("status.conditions", why));
    }
    times(job, old, &mut errors);
    conditions(job, old, &mut errors);
    finished(job, &mut errors);
    counters(job, old, &mut errors);
    indexes(job, &mut errors);
    errors
}

fn uncounted(job: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for list in ["succeeded", "failed"] {
        for (at, uid) in object::list_at(&job["status"]["uncountedTerminatedPods"], list).iter().enumerate() {
            let field = format!("status.uncountedTerminatedPods.{list}[{at}]");
            if uid == "" {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(FieldError::duplicate(field, uid.clone()));
            } else {
                seen.push(uid);
            }
        }
    }
}

fn conditions(job: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (complete, failed) = (has_condition(job, "Complete"), has_condition(job, "Failed"));
    let (success, failure) = (has_condition(job, "SuccessCriteriaMet"), has_condition(job, "FailureTarget"));
    let mut refuse = |why: String| errors.push(FieldError::invalid_without_value("status.conditions", why));
    let pairs = [
        (complete && failure, "cannot set Complete=True and FailureTarget=true conditions"),
        (failed && !failure, "cannot set Failed=True condition without the FailureTarget=true condition"),
        (
            complete && !success,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (success && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (success && failure, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
    ];
    for (_, why) in pairs.iter().filter(|(wrong, _)| *wrong) {
        refuse((*why).to_owned());
    }
    for name in ["Failed", "Complete", "FailureTarget"] {
        if has_condition(old, name) && !has_condition(job, name) {
            refuse(format!("cannot disable the terminal {name}=True condition"));
        }
    }
    if has_condition(old, "SuccessCriteriaMet") && !success {
        refuse("cannot disable the SuccessCriteriaMet=True condition".to_owned());
    }
    if has_condition(old, "Complete") && !has_condition(old, "SuccessCriteriaMet") && success {
        refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions".to_owned());
    }
}

fn times(job: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let complete = has_condition(job, "Complete");
    let completed = &job["status"]["completionTime"];
    let started = &job["status"]["startTime"];
    let field = "status.completionTime";
    let mut refuse = |field: &str, value: &Value, why: &str| {
        errors.push(FieldError::invalid(field, value.clone(), why));
    };
    if !completed.is_null() && !complete {
        refuse(field, completed, "cannot set completionTime when there is no Complete=True condition");
    }
    // Stamps of whole seconds compare as their texts do.
    if let (Some(completed_at), Some(started_at)) = (completed.as_str(), started.as_str())
        && completed_at < started_at
    {
        refuse(field, completed, "must be equal to or after `startTime`");
    }
    let before = &old["status"]["completionTime"];
    if !completed.is_null() && !before.is_null() && completed != before {
        refuse(field, completed, "field is immutable");
    }
    let before = &old["status"]["startTime"];
    if !before.is_null() && before != started && !object::is_true(job, "spec.suspend") {
        refuse("status.startTime", started, "field is immutable for unsuspended job once set");
    }
    if completed.is_null() && complete {
        errors.push(FieldError::required(field, "completionTime is required for Complete jobs"));
    }
}

fn finished(job: &Value, errors: &mut Vec<FieldError>) {
    if !has_condition(job, "Complete") && !has_condition(job, "Failed") {
        return;
    }
    for (name, why) in [
        ("active", "active>0 is invalid for finished job"),
        ("terminating", "terminating>0 is invalid for finished job"),
    ] {
        if count(job, name) > 0 {
            errors.push(FieldError::invalid(format!("status.{name}"), count(job, name), why));
        }
    }
    if job["status"]["startTime"].is_null() {
        errors.push(FieldError::required("status.startTime", "startTime is required for finished job"));
    }
    let uncounted = &job["status"]["uncountedTerminatedPods"];
    if ["succeeded", "failed"].iter().any(|list| !object::list_at(uncounted, list).is_empty()) {
        let why = "must be empty for finished job";
        errors.push(FieldError::invalid("status.uncountedTerminatedPods", uncounted.clone(), why));
    }
}

fn counters(job: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if count(job, "failed") < count(old, "failed") {
        let why = "cannot decrease the failed counter";
        errors.push(FieldError::invalid("status.failed", count(job, "failed"), why));
    }
    // Elastic indexed jobs lose completions when they are scaled down.
    let elastic = is_indexed(job) && job["spec"]["completions"] == job["spec"]["parallelism"];
    if !elastic && count(job, "succeeded") < count(old, "succeeded") {
        let why = "cannot decrease the succeeded counter";
        errors.push(FieldError::invalid("status.succeeded", count(job, "succeeded"), why));
    }
    if count(job, "ready") > count(job, "active") {
        let why = "cannot set more ready pods than active";
        errors.push(FieldError::invalid("status.ready", count(job, "ready"), why));
    }
}

fn indexes(job: &Value, errors: &mut Vec<FieldError>) {
    let completed = object::text_at(job, "status.completedIndexes");
    if let Some(completions) = object::int_at(job, "spec.completions")
        && let Err(why) = check_indexes(&completed, completions)
    {
        let why = format!("error parsing completedIndexes: {why}");
        errors.push(FieldError::invalid("status.completedIndexes", completed.as_str(), why));
    }
    if !completed.is_empty() && !is_indexed(job) {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(FieldError::invalid("status.completedIndexes", completed, why));
    }
    let failed = &job["status"]["failedIndexes"];
    if !failed.is_null() && job["spec"]["backoffLimitPerIndex"].is_null() {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(FieldError::invalid("status.failedIndexes", failed.clone(), why));
    }
}

/// Ascending numbers and ranges below `completions`: `1,3-5,7`.
fn check_indexes(text: &str, completions: i64) -> Result<(), String> {
    let mut last = -1;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))
        };
        let (first, end) = (number(first)?, number(end)?);
        if part.contains('-') && first >= end {
            return Err(format!("non-increasing order, previous: {first}, current: {end}"));
        }
        if end >= completions {
            return Err(format!("too large index: \"{end}\""));
        }
        if first <= last {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        last = end;
    }
    Ok(())
}

/// Whether each completion has an index.
pub(super) fn is_indexed(job: &Value) -> bool {
    object::str_at(job, "spec.completionMode") == Some("Indexed")
}
