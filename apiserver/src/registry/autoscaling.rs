//! Autoscalers, which have two forms: that of today (`autoscaling/v2`, in which they are kept), and an older one.
//!
//! What the older form has no fields for it keeps in annotations, as upstream: metrics other than the use of processors,
//! what they are at present, conditions and behaviour.

use serde_json::{Map, Value, json};

use super::Resource;
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self, default_to, list_at, members, members_at};

/// The rules of autoscalers.
pub(crate) struct HorizontalPodAutoscaler;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What the older form uses when it is told nothing, in percent.
const DEFAULT_UTILIZATION: i64 = 80;

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, autoscaler: &mut Value) {
        let is_older = autoscaler["apiVersion"] == "autoscaling/v1";
        let spec = members_at(autoscaler, "spec");
        default_to(spec, "minReplicas", 1);
        if is_older {
            return;
        }
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let target = processor_target(&DEFAULT_UTILIZATION.into());
            spec.insert("metrics".to_owned(), json!([target]));
        }
        if let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) {
            default_behavior(behavior);
        }
    }

    fn validate(&self, _: &Context<'_>, autoscaler: &Value) -> Vec<FieldError> {
        let spec = &autoscaler["spec"];
        let mut errors = Vec::new();
        let least = object::int_at(spec, "minReplicas").unwrap_or(1);
        let most = object::int_at(spec, "maxReplicas").unwrap_or(0);
        if least < 1 {
            errors.push(FieldError::invalid("spec.minReplicas", least, "must be greater than or equal to 1"));
        }
        if most < 1 {
            errors.push(FieldError::invalid("spec.maxReplicas", most, "must be greater than 0"));
        }
        if most < least {
            let why = "must be greater than or equal to `minReplicas`";
            errors.push(FieldError::invalid("spec.maxReplicas", most, why));
        }
        let target = &spec["scaleTargetRef"];
        for name in ["kind", "name"] {
            if object::text_at(target, name).is_empty() {
                errors.push(FieldError::required(format!("spec.scaleTargetRef.{name}"), ""));
            }
        }
        let version = object::text_at(target, "apiVersion");
        // Only replication controllers have no group.
        let in_core = version == "v1" && target["kind"] == "ReplicationController";
        if !in_core && !version.contains('/') {
            let why = "apiVersion must specify API group";
            errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", version, why));
        }
        errors
    }

    fn convert(&self, from: &Resource, to: &Resource, value: &Value) -> Value {
        let mut converted = match (from.version.as_str(), to.version.as_str()) {
            ("v2", "v1") => to_v1(value),
            ("v1", "v2") => to_v2(value),
            _ => value.clone(),
        };
        converted["apiVersion"] = to.api_version.as_str().into();
        converted
    }
}

fn default_behavior(behavior: &mut Value) {
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    let (pods, all) = (policy("Pods", 4), policy("Percent", 100));
    for (direction, policies) in [("scaleUp", json!([pods, all])), ("scaleDown", json!([all]))] {
        let rules = members_at(behavior, direction);
        if direction == "scaleUp" {
            default_to(rules, "stabilizationWindowSeconds", 0);
        }
        default_to(rules, "selectPolicy", "Max");
        default_to(rules, "policies", policies);
    }
}

/// The metrics of one source: what is its own in each form.
struct Source {
    /// As `type` says it.
    kind: &'static str,
    member: &'static str,
    /// Paths in the older form, and in today's; the same in spec and status.
    same: &'static [(&'static str, &'static str)],
    /// What should be, likewise.
    target: &'static [(&'static str, &'static str)],
    /// What is, likewise.
    current: &'static [(&'static str, &'static str)],
}

const RESOURCE_TARGET: &[(&str, &str)] = &[
    ("targetAverageUtilization", "target.averageUtilization"),
    ("targetAverageValue", "target.averageValue"),
];
const RESOURCE_CURRENT: &[(&str, &str)] = &[
    ("currentAverageUtilization", "current.averageUtilization"),
    ("currentAverageValue", "current.averageValue"),
];

const SOURCES: [Source; 5] = [
    Source {
        kind: "Resource",
        member: "resource",
        same: &[("name", "name")],
        target: RESOURCE_TARGET,
        current: RESOURCE_CURRENT,
    },
    Source {
        kind: "ContainerResource",
        member: "containerResource",
        same: &[("name", "name"), ("container", "container")],
        target: RESOURCE_TARGET,
        current: RESOURCE_CURRENT,
    },
    Source {
        kind: "Pods",
        member: "pods",
        same: &[("metricName", "metric.name"), ("selector", "metric.selector")],
        target: &[("targetAverageValue", "target.averageValue")],
        current: &[("currentAverageValue", "current.averageValue")],
    },
    Source {
        kind: "Object",
        member: "object",
        same: &[
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("target", "describedObject"),
        ],
        target: &[("targetValue", "target.value"), ("averageValue", "target.averageValue")],
        current: &[("currentValue", "current.value"), ("averageValue", "current.averageValue")],
    },
    Source {
        kind: "External",
        member: "external",
        same: &[("metricName", "metric.name"), ("metricSelector", "metric.selector")],
        target: &[("targetValue", "target.value"), ("targetAverageValue", "target.averageValue")],
        current: &[("currentValue", "current.value"), ("currentAverageValue", "current.averageValue")],
    },
];

/// Which part of a metric: what should be, or what is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Target,
    Current,
}

impl Source {
    fn of(metric: &Value) -> Option<&'static Self> {
        SOURCES.iter().find(|source| metric["type"] == source.kind)
    }

    fn paths(&self, part: Part) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let own = if part == Part::Target { self.target } else { self.current };
        self.same.iter().chain(own)
    }

    fn older(&self, metric: &Value, part: Part) -> Value {
        let from = &metric[self.member];
        let mut to = Map::new();
        for (older, newer) in self.paths(part) {
            if let Some(value) = object::at(from, newer) {
                to.insert((*older).to_owned(), value.clone());
            }
        }
        // Amounts that the older form can't leave out.
        let always = match (self.kind, part) {
            ("Object", Part::Target) => Some("targetValue"),
            ("Pods", Part::Target) => Some("targetAverageValue"),
            ("Object" | "External", Part::Current) => Some("currentValue"),
            (_, Part::Current) => Some("currentAverageValue"),
            _ => None,
        };
        if let Some(amount) = always {
            default_to(&mut to, amount, "0");
        }
        json!({"type": self.kind, self.member: to})
    }

    fn newer(&self, metric: &Value, part: Part) -> Value {
        let from = &metric[self.member];
        let mut to = json!({});
        for (older, newer) in self.paths(part) {
            let Some(value) = from.get(older) else { continue };
            let (parent, name) = newer.rsplit_once('.').unwrap_or(("", newer));
            let parent = if parent.is_empty() { members(&mut to) } else { members_at(&mut to, parent) };
            parent.insert(name.to_owned(), value.clone());
        }
        if part == Part::Target {
            self.complete_target(members_at(&mut to, "target"));
        }
        json!({"type": self.kind, self.member: to})
    }

    /// The older form does not say of what type a target is: it follows from what is there.
    fn complete_target(&self, target: &mut Map<String, Value>) {
        let has = |name: &str| target.contains_key(name);
        let kind = match self.kind {
            "Object" if has("averageValue") => {
                if target.get("value").is_some_and(|value| value == "0") {
                    target.remove("value");
                }
                "AverageValue"
            }
            "Object" => "Value",
            "External" if has("value") => "Value",
            "Resource" | "ContainerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        target.insert("type".to_owned(), kind.into());
    }
}

/// Whether the older form has a field for this metric.
fn is_processor_use(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && object::int_at(metric, "resource.target.averageUtilization").is_some()
}

fn processor_target(percent: &Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

fn to_v1(value: &Value) -> Value {
    let mut older = value.clone();
    drop_annotations(&mut older);
    let (processors, others): (Vec<&Value>, Vec<&Value>) =
        list_at(value, "spec.metrics").iter().partition(|metric| is_processor_use(metric));
    let spec = members_at(&mut older, "spec");
    spec.remove("metrics");
    let behavior = spec.remove("behavior");
    if let Some(percent) =
        processors.first().map(|metric| &metric["resource"]["target"]["averageUtilization"])
    {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
    }
    let convert = |metrics: Vec<&Value>, part| -> Vec<Value> {
        metrics.into_iter().filter_map(|metric| Some(Source::of(metric)?.older(metric, part))).collect()
    };
    annotate(&mut older, METRICS, convert(others, Part::Target).into());
    let present: Vec<&Value> = list_at(value, "status.currentMetrics").iter().collect();
    let of_processors = present.iter().rev().find_map(|metric| {
        let is = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        is.then(|| object::int_at(metric, "resource.current.averageUtilization")).flatten()
    });
    annotate(&mut older, CURRENT_METRICS, convert(present, Part::Current).into());
    annotate(&mut older, CONDITIONS, list_at(value, "status.conditions").into());
    annotate(&mut older, BEHAVIOR, behavior.map(|behavior| in_go(&behavior)).unwrap_or_default());
    if let Some(status) = older.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentMetrics");
        status.remove("conditions");
        if let Some(percent) = of_processors {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent.into());
        }
    }
    older
}

fn to_v2(value: &Value) -> Value {
    let kept = |key: &str| -> Option<Value> {
        let text = value["metadata"].get("annotations")?.get(key)?.as_str()?;
        serde_json::from_str(text).ok()
    };
    let metrics = |list: Option<Value>, part| -> Vec<Value> {
        let list = list.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(|metric| Some(Source::of(metric)?.newer(metric, part))).collect()
    };
    let mut newer = value.clone();
    let spec = members_at(&mut newer, "spec");
    let mut targets = metrics(kept(METRICS), Part::Target);
    targets.extend(spec.remove("targetCPUUtilizationPercentage").as_ref().map(processor_target));
    if targets.is_empty() {
        targets.push(processor_target(&DEFAULT_UTILIZATION.into()));
    }
    spec.insert("metrics".to_owned(), targets.into());
    if let Some(behavior) = kept(BEHAVIOR) {
        spec.insert("behavior".to_owned(), renamed(&behavior, lowered));
    }
    if newer.get("status").is_some_and(Value::is_object) {
        let status = members_at(&mut newer, "status");
        let percent = status.remove("currentCPUUtilizationPercentage");
        let mut present = metrics(kept(CURRENT_METRICS), Part::Current);
        if present.is_empty() {
            present.extend(percent.map(|percent| {
                json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})
            }));
        }
        for (name, list) in
            [("currentMetrics", Value::from(present)), ("conditions", kept(CONDITIONS).unwrap_or_default())]
        {
            if list.as_array().is_some_and(|list| !list.is_empty()) {
                status.insert(name.to_owned(), list);
            }
        }
    }
    drop_annotations(&mut newer);
    newer
}

/// Notes something of which there is anything.
fn annotate(autoscaler: &mut Value, key: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if !empty {
        members_at(autoscaler, "metadata.annotations").insert(key.to_owned(), value.to_string().into());
    }
}

fn drop_annotations(autoscaler: &mut Value) {
    let metadata = object::metadata(autoscaler);
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations
            .retain(|key, _| ![METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].contains(&key.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Behaviour as it is annotated: as Go's own type, with what is not set as well.
fn in_go(behavior: &Value) -> Value {
    let mut behavior = renamed(behavior, capitalised);
    for rules in members(&mut behavior).values_mut() {
        for name in ["StabilizationWindowSeconds", "Tolerance"] {
            members(rules).entry(name).or_insert(Value::Null);
        }
    }
    behavior
}

/// The same with all members under other names, and without those that are not set.
fn renamed(value: &Value, rename: fn(&str) -> String) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            members.map(|(name, value)| (rename(name), renamed(value, rename))).collect()
        }
        Value::Array(items) => items.iter().map(|item| renamed(item, rename)).collect(),
        other => other.clone(),
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn lowered(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2() -> Value {
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        json!({
            "metadata": {"name": "web", "annotations": {"mine": "yes"}},
            "spec": {
                "scaleTargetRef": reference,
                "minReplicas": 1,
                "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {
                        "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {
                        "metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "3"}}},
                    {"type": "Object", "object": {
                        "describedObject": reference, "metric": {"name": "o"},
                        "target": {"type": "Value", "value": "7"}}},
                    {"type": "Object", "object": {
                        "describedObject": reference, "metric": {"name": "o"},
                        "target": {"type": "AverageValue", "averageValue": "7"}}},
                    {"type": "External", "external": {
                        "metric": {"name": "e"}, "target": {"type": "Value", "value": "9"}}},
                    {"type": "ContainerResource", "containerResource": {
                        "name": "cpu", "container": "c",
                        "target": {"type": "Utilization", "averageUtilization": 60}}},
                    {"type": "Resource", "resource": {
                        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5, "policies": [
                    {"type": "Pods", "value": 1, "periodSeconds": 15}]}},
            },
            "status": {
                "currentReplicas": 2,
                "desiredReplicas": 3,
                "currentMetrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 30, "averageValue": "100m"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True"}],
            },
        })
    }

    #[test]
    fn the_older_form_keeps_what_it_has_no_fields_for_in_annotations() {
        let older = to_v1(&v2());
        assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(older["status"]["currentCPUUtilizationPercentage"], 30);
        assert_eq!((older["spec"].get("metrics"), older["status"].get("conditions")), (None, None));
        let annotations = &older["metadata"]["annotations"];
        let metrics: Value = serde_json::from_str(annotations[METRICS].as_str().unwrap()).unwrap();
        assert_eq!(metrics.as_array().unwrap().len(), 6);
        assert_eq!(
            metrics[0],
            json!({"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}})
        );
        let behavior: Value = serde_json::from_str(annotations[BEHAVIOR].as_str().unwrap()).unwrap();
        assert_eq!(behavior["ScaleDown"]["Policies"][0]["PeriodSeconds"], 15);
        assert_eq!(annotations["mine"], "yes");
    }

    #[test]
    fn nothing_is_lost_on_the_way_to_the_older_form_and_back() {
        assert_eq!(to_v2(&to_v1(&v2())), v2());
    }

    #[test]
    fn without_a_target_the_older_form_means_four_fifths_of_the_processors() {
        let newer = to_v2(&json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 3}}));
        assert_eq!(newer["spec"]["metrics"], json!([processor_target(&80.into())]));
        let newer =
            to_v2(&json!({"metadata": {}, "spec": {"targetCPUUtilizationPercentage": 20}, "status": {
            "currentCPUUtilizationPercentage": 10}}));
        assert_eq!(newer["spec"]["metrics"], json!([processor_target(&20.into())]));
        assert_eq!(newer["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 10);
    }
}
