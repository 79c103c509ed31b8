//! What sets how many pods there are, or how few there may be.

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, Column, NAME, integer, text};
use super::format;
use crate::object::{self, list_at, str_at};

/// The layouts of the groups `autoscaling` and `policy`.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "HorizontalPodAutoscaler" => &HORIZONTAL_POD_AUTOSCALER,
        "Scale" => &SCALE,
        "PodDisruptionBudget" => &POD_DISRUPTION_BUDGET,
        _ => return None,
    })
}

static SCALE: BuiltIn = BuiltIn {
    columns: &[Column { format: "", ..NAME }, integer("Desired"), integer("Available"), AGE],
    cells: |scale, now| {
        vec![
            format::name(scale),
            format::count(scale, "spec.replicas"),
            format::count(scale, "status.replicas"),
            format::age(scale, now),
        ]
    },
};

static POD_DISRUPTION_BUDGET: BuiltIn = BuiltIn {
    columns: &[NAME, text("Min Available"), text("Max Unavailable"), integer("Allowed Disruptions"), AGE],
    cells: |budget, now| {
        let bound = |path| match object::text_at(budget, path) {
            text if text.is_empty() => "N/A".into(),
            text => Value::from(text),
        };
        vec![
            format::name(budget),
            bound("spec.minAvailable"),
            bound("spec.maxUnavailable"),
            format::count(budget, "status.disruptionsAllowed"),
            format::age(budget, now),
        ]
    },
};

static HORIZONTAL_POD_AUTOSCALER: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Reference"),
        text("Targets"),
        text("MinPods"),
        text("MaxPods"),
        text("Replicas"),
        AGE,
    ],
    cells: |autoscaler, now| {
        let target = &autoscaler["spec"]["scaleTargetRef"];
        let text = |name| str_at(target, name).unwrap_or_default();
        let least = object::int_at(autoscaler, "spec.minReplicas");
        vec![
            format::name(autoscaler),
            format!("{}/{}", text("kind"), text("name")).into(),
            targets(autoscaler).into(),
            least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
            format::count(autoscaler, "spec.maxReplicas"),
            format::count(autoscaler, "status.currentReplicas"),
            format::age(autoscaler, now),
        ]
    },
};

/// The first two metrics, each as what is and what should be.
fn targets(autoscaler: &Value) -> String {
    const SHOWN: usize = 2;
    let specs = list_at(autoscaler, "spec.metrics");
    let present = list_at(autoscaler, "status.currentMetrics");
    let all: Vec<String> = specs.iter().enumerate().map(|(at, spec)| target(spec, present.get(at))).collect();
    match all.len() {
        0 => "<none>".to_owned(),
        1..=SHOWN => all.join(", "),
        count => format!("{} + {} more...", all[..SHOWN].join(", "), count - SHOWN),
    }
}

/// What a metric is, where the status has one of the same source, and what it should be.
fn target(spec: &Value, present: Option<&Value>) -> String {
    let source = match str_at(spec, "type").unwrap_or_default() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = &spec[source]["target"];
    let now = present.and_then(|present| present.get(source)).map(|metric| &metric["current"]);
    let unknown = || "<unknown>".to_owned();
    // As Go shows what is not there.
    let or_nil = |value: Option<&Value>| value.map_or_else(|| "<nil>".to_owned(), format::amount);
    let amount = |name| now.map_or_else(unknown, |now| or_nil(now.get(name)));
    let optional = |name| now.and_then(|now| now.get(name)).map_or_else(unknown, format::amount);
    let percent = |value: Option<i64>, otherwise: &str| {
        value.map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
    };
    match (source, wanted.get("averageValue")) {
        ("pods", average) => {
            format!("{}/{}", amount("averageValue"), or_nil(average))
        }
        ("external" | "object", Some(average)) => {
            format!("{}/{} (avg)", optional("averageValue"), format::amount(average))
        }
        ("external" | "object", None) => {
            format!("{}/{}", amount("value"), or_nil(wanted.get("value")))
        }
        (_, average) => {
            let name = str_at(&spec[source], "name").unwrap_or_default();
            match average {
                Some(average) => format!("{name}: {}/{}", amount("averageValue"), format::amount(average)),
                None => {
                    let utilization = |value: &Value| object::int_at(value, "averageUtilization");
                    let present = percent(now.and_then(utilization), "<unknown>");
                    format!("{name}: {present}/{}", percent(utilization(wanted), "<auto>"))
                }
            }
        }
    }
}
