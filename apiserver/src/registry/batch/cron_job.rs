//! Cron jobs.

use serde_json::{Value, json};

use super::job::{default_spec, validate_spec_without_selector};
use super::schedule::fault;
use crate::field::FieldError;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::registry::fields::{not_negative, supported};
use crate::registry::strategy::{Context, Strategy};

/// The longest name that leaves room for what its jobs are called. From upstream.
const LONGEST_NAME: usize = 52;

/// The rules of cron jobs.
pub(crate) struct CronJob;

impl Strategy for CronJob {
    fn default(&self, cron_job: &mut Value) {
        let spec = members_at(cron_job, "spec");
        default_text(spec, "concurrencyPolicy", "Allow");
        default_to(spec, "suspend", false);
        default_to(spec, "successfulJobsHistoryLimit", 3);
        default_to(spec, "failedJobsHistoryLimit", 1);
        let template = members(spec.entry("jobTemplate").or_insert_with(|| json!({})));
        default_to(template, "metadata", json!({}));
        default_spec(template.entry("spec").or_insert_with(|| json!({})));
    }

    fn validate(&self, _: &Context<'_>, cron_job: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &cron_job["spec"];
        let schedule = object::text_at(spec, "schedule");
        if schedule.is_empty() {
            errors.push(FieldError::required("spec.schedule", ""));
        } else if schedule.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid("spec.schedule", schedule, why));
        } else if let Some(why) = fault(&schedule) {
            errors.push(FieldError::invalid("spec.schedule", schedule, why));
        }
        supported(spec, "spec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &mut errors);
        for name in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            not_negative(spec, "spec", name, &mut errors);
        }
        errors.extend(validate_spec_without_selector(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"));
        let name = object::text_at(cron_job, "metadata.name");
        if name.len() > LONGEST_NAME {
            let why = format!("must be no more than {LONGEST_NAME} characters");
            errors.push(FieldError::invalid("metadata.name", name, why));
        }
        errors
    }
}
