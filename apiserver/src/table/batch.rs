//! Jobs and what makes them.

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, boolean, integer, text};
use super::format;
use crate::object;

/// The layouts of the group `batch`.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "Job" => &JOB,
        "CronJob" => &CRON_JOB,
        _ => return None,
    })
}

static JOB: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Status"),
        text("Completions"),
        text("Duration"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |job, now| {
        let started = format::moment(job, "status.startTime");
        let ended = format::moment(job, "status.completionTime").unwrap_or(now);
        let duration = started.map(|started| format::human(ended.duration_since(started)));
        let [names, images] = format::containers(job, "spec.template.spec.containers");
        vec![
            format::name(job),
            status(job).into(),
            completions(job).into(),
            duration.unwrap_or_default().into(),
            format::age(job, now),
            names,
            images,
            format::selector(job, "spec.selector"),
        ]
    },
};

/// The condition that matters most.
fn status(job: &Value) -> &'static str {
    let has = |condition| format::has_condition(job, condition);
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if format::is_deleting(job) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = format::int(job, "status.succeeded");
    match (object::int_at(job, "spec.completions"), format::int(job, "spec.parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

static CRON_JOB: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Schedule"),
        text("Timezone"),
        boolean("Suspend"),
        integer("Active"),
        text("Last Schedule"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |cron_job, now| {
        let suspend = match object::at(cron_job, "spec.suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let last = match object::at(cron_job, "status.lastScheduleTime") {
            Some(_) => format::since(cron_job, "status.lastScheduleTime", now),
            None => "<none>".to_owned(),
        };
        let [names, images] = format::containers(cron_job, "spec.jobTemplate.spec.template.spec.containers");
        vec![
            format::name(cron_job),
            format::text(cron_job, "spec.schedule"),
            object::str_at(cron_job, "spec.timeZone").unwrap_or("<none>").into(),
            suspend.into(),
            format::length(cron_job, "status.active"),
            last.into(),
            format::age(cron_job, now),
            names,
            images,
            format::selector(cron_job, "spec.jobTemplate.spec.selector"),
        ]
    },
};
