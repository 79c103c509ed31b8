//! Jobs.

use serde_json::{Value, json};

use super::job_status;
use super::policies::{validate_failure_policy, validate_success_policy};
use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::Result;
use crate::registry::fields::{each, not_negative, supported};
use crate::registry::pod_spec::{default_template, validate_template};
use crate::registry::selector::selector_of;
use crate::registry::strategy::{Context, Strategy};

/// Labels of a job's pods that name the job, and that hold its uid: the older spelling, then today's.
const JOB_NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
/// An indexed job may not run more pods at once.
const MOST_PARALLEL: i64 = 100_000;

/// The rules of jobs.
pub(crate) struct Job;

/// Fills in a job's spec, also within a cron job.
pub(super) fn default_spec(spec: &mut Value) {
    default_template(members(spec).entry("template").or_insert_with(|| json!({})));
}

impl Strategy for Job {
    fn default(&self, job: &mut Value) {
        let spec = members(job).entry("spec").or_insert_with(|| json!({}));
        default_spec(spec);
        let spec = members(spec);
        if spec.get("completions").is_none_or(Value::is_null)
            && spec.get("parallelism").is_none_or(Value::is_null)
        {
            spec.insert("completions".to_owned(), 1.into());
        }
        default_to(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        default_to(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
        default_text(spec, "completionMode", "NonIndexed");
        default_to(spec, "suspend", false);
        let replacement =
            if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        default_text(spec, "podReplacementPolicy", replacement);
        default_to(spec, "manualSelector", false);
        if let Some(policy) = spec.get_mut("podFailurePolicy") {
            each(policy, "rules", |rule| {
                each(rule, "onPodConditions", |pattern| default_text(members(pattern), "status", "True"));
            });
        }
        let labels = object::at(job, "spec.template.metadata.labels").cloned();
        if let Some(labels) = labels
            && object::at(job, "metadata.labels")
                .and_then(Value::as_object)
                .is_none_or(|labels| labels.is_empty())
        {
            object::metadata(job).insert("labels".to_owned(), labels);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, job: &mut Value) -> Result<()> {
        if object::is_true(job, "spec.manualSelector") {
            return Ok(());
        }
        let name = object::text_at(job, "metadata.name");
        let uid = object::text_at(job, "metadata.uid");
        let follows = object::same(
            object::at(job, "metadata.labels"),
            object::at(job, "spec.template.metadata.labels"),
        );
        let labels = members_at(job, "spec.template.metadata.labels");
        for (labels_of, value) in [(JOB_NAME, &name), (CONTROLLER_UID, &uid)] {
            for label in labels_of {
                labels.entry(label).or_insert_with(|| value.as_str().into());
            }
        }
        // A job without labels of its own has those of its pods, the generated ones too.
        if follows {
            let labels = labels.clone();
            object::metadata(job).insert("labels".to_owned(), Value::Object(labels));
        }
        let selector = members_at(job, "spec.selector.matchLabels");
        selector.entry(CONTROLLER_UID[1]).or_insert_with(|| uid.into());
        Ok(())
    }

    fn validate(&self, _: &Context<'_>, job: &Value) -> Vec<FieldError> {
        let mut errors = generated_labels(job);
        errors.extend(validate_spec(&job["spec"], "spec"));
        let name = object::text_at(job, "metadata.name");
        if job_status::is_indexed(job)
            && let Some(completions) = object::int_at(job, "spec.completions").filter(|count| *count > 0)
        {
            let host = format!("{name}-{}", completions - 1);
            if !names::label(&host).is_empty() {
                let why = format!("will not able to create pod with invalid DNS label: {host}");
                errors.push(FieldError::invalid("metadata.name", name, why));
            }
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, job: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, job);
        let (new_spec, old_spec) = (&job["spec"], &old["spec"]);
        let (completions, before) = (&new_spec["completions"], &old_spec["completions"]);
        if completions != before {
            if !job_status::is_indexed(job) {
                errors.push(FieldError::immutable("spec.completions", completions));
            } else if !completions.is_null() && *completions != new_spec["parallelism"] {
                let why = "can only be modified in tandem with spec.parallelism";
                errors.push(FieldError::invalid("spec.completions", completions.clone(), why));
            }
        }
        for name in [
            "selector",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ] {
            if !object::same(new_spec.get(name), old_spec.get(name)) {
                errors.push(FieldError::immutable(format!("spec.{name}"), &new_spec[name]));
            }
        }
        if !object::same(Some(&template_masked(job, old)), Some(&old_spec["template"])) {
            errors.push(FieldError::immutable("spec.template", &new_spec["template"]));
        }
        errors
    }

    fn validate_through(&self, _: &Context<'_>, job: &Value, old: &Value) -> Vec<FieldError> {
        job_status::validate(job, old)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn field(&self, job: &Value, _: &str) -> String {
        object::int_at(job, "status.succeeded").unwrap_or(0).to_string()
    }
}

/// Labels that are generated may be given by hand only as they would be generated.
fn generated_labels(job: &Value) -> Vec<FieldError> {
    if object::is_true(job, "spec.manualSelector") {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    let uid = object::text_at(job, "metadata.uid");
    let name = object::text_at(job, "metadata.name");
    let expected =
        [(CONTROLLER_UID[0], &uid), (JOB_NAME[0], &name), (CONTROLLER_UID[1], &uid), (JOB_NAME[1], &name)];
    for (label, wanted) in expected {
        let field = format!("spec.template.metadata.labels[{label}]");
        match labels[label].as_str() {
            None => errors.push(FieldError::required(field, format!("must be '{wanted}'"))),
            Some(found) if found != wanted => {
                errors.push(FieldError::invalid(field, labels.clone(), format!("must be '{wanted}'")));
            }
            Some(_) => {}
        }
    }
    let generated =
        |key: &str| expected.iter().find(|(label, _)| *label == key).map(|(_, value)| value.as_str());
    if selector_of(&job["spec"]["selector"]).is_some_and(|selector| !selector.matches_with(generated)) {
        let selector = job["spec"]["selector"].clone();
        errors.push(FieldError::invalid("spec.selector", selector, "`selector` not auto-generated"));
    }
    errors
}

/// What is wrong with a job's spec, also within a cron job (which has no selector).
pub(super) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = validate_spec_without_selector(spec, path);
    match selector_of(&spec["selector"]) {
        None => errors.push(FieldError::required(format!("{path}.selector"), "")),
        Some(selector) => {
            let labels = &spec["template"]["metadata"]["labels"];
            if !selector.matches_with(|key| labels[key].as_str()) {
                let field = format!("{path}.template.metadata.labels");
                let why = "`selector` does not match template `labels`";
                errors.push(FieldError::invalid(field, labels.clone(), why));
            }
        }
    }
    errors
}

/// As [`validate_spec`], where the selector is yet to be generated.
pub(super) fn validate_spec_without_selector(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(spec, path, name, &mut errors);
    }
    supported(spec, path, "completionMode", &["NonIndexed", "Indexed"], &mut errors);
    let manager = object::text_at(spec, "managedBy");
    let field = format!("{path}.managedBy");
    if !manager.is_empty() && !manager.contains('/') {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(field, manager, why));
    } else if let Some((domain, _)) = manager.split_once('/') {
        errors.extend(FieldError::each_invalid(&field, domain, names::subdomain(domain)));
    }
    let indexed = spec["completionMode"] == "Indexed";
    if indexed && spec["completions"].is_null() {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{path}.completions"), why));
    }
    if indexed && spec["parallelism"].as_i64().is_some_and(|count| count > MOST_PARALLEL) {
        let why = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
        errors.push(FieldError::invalid(format!("{path}.parallelism"), spec["parallelism"].clone(), why));
    }
    for name in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
        if !indexed && !spec[name].is_null() {
            let why = "requires indexed completion mode";
            errors.push(FieldError::invalid(format!("{path}.{name}"), spec[name].clone(), why));
        }
    }
    supported(spec, path, "podReplacementPolicy", &["Failed", "TerminatingOrFailed"], &mut errors);
    let has_failure_policy = !spec["podFailurePolicy"].is_null();
    if has_failure_policy && spec["podReplacementPolicy"] == "TerminatingOrFailed" {
        let value = spec["podReplacementPolicy"].clone();
        errors.push(FieldError::not_supported(format!("{path}.podReplacementPolicy"), value, &["Failed"]));
    }
    if has_failure_policy {
        errors.extend(validate_failure_policy(spec, &format!("{path}.podFailurePolicy")));
    }
    if let Some(completions) =
        spec["completions"].as_i64().filter(|_| indexed && !spec["successPolicy"].is_null())
    {
        let field = format!("{path}.successPolicy");
        errors.extend(validate_success_policy(&spec["successPolicy"], completions, &field));
    }
    errors.extend(validate_template(&spec["template"], &format!("{path}.template")));
    let field = format!("{path}.template.spec.restartPolicy");
    match object::str_at(spec, "template.spec.restartPolicy").unwrap_or_default() {
        "" | "Always" => {
            errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if has_failure_policy => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(field, "OnFailure", why));
        }
        _ => {}
    }
    errors
}

/// The new template with what may change put back to what it was: nothing while the job runs; where pods go, and what
/// they ask for, while it is suspended and has no pods.
fn template_masked(job: &Value, old: &Value) -> Value {
    let mut template = job["spec"]["template"].clone();
    let before = &old["spec"]["template"];
    let has_suspended_condition = job_status::has_condition(old, "Suspended");
    let never_started = object::at(old, "status.startTime").is_none();
    let mutable = object::is_true(old, "spec.suspend")
        && (never_started || has_suspended_condition)
        && object::int_at(old, "status.active").unwrap_or(0) == 0;
    if !mutable {
        return template;
    }
    for name in ["labels", "annotations"] {
        object::carry_over(&mut template["metadata"], &before["metadata"], name);
    }
    let spec = &mut template["spec"];
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        object::carry_over(spec, &before["spec"], name);
    }
    match before["spec"]["affinity"].get("nodeAffinity") {
        Some(affinity) => {
            members_at(spec, "affinity").insert("nodeAffinity".to_owned(), affinity.clone());
        }
        None => {
            if let Some(affinity) = spec.get_mut("affinity") {
                members(affinity).remove("nodeAffinity");
            }
        }
    }
    for list in ["containers", "initContainers"] {
        let resources: Vec<Value> = object::list_at(&before["spec"], list)
            .iter()
            .map(|container| container["resources"].clone())
            .collect();
        let mut resources = resources.into_iter();
        each(spec, list, |container| {
            if let Some(resources) = resources.next() {
                members(container).insert("resources".to_owned(), resources);
            }
        });
    }
    template
}
