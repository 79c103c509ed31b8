//! Kinds of the apps group.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::core::small::default_claim;
use super::fields::not_negative;
use super::pod_spec::{default_template, validate_template};
use super::rollout;
use super::selector::{selector_of, validate_selector};
use super::strategy::{Context, Strategy, keep_through};
use crate::field::FieldError;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::Result;

/// Counts changes of a daemon set's template: a field of old that lives on as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The rules of deployments, replica sets, stateful sets and daemon sets.
pub(crate) enum Workload {
    /// `deployments`.
    Deployment,
    /// `replicasets`.
    ReplicaSet,
    /// `statefulsets`.
    StatefulSet,
    /// `daemonsets`.
    DaemonSet,
}

impl Strategy for Workload {
    fn prepare_through(&self, context: &Context<'_>, object: &mut Value, old: &Value) {
        keep_through(context, object, old);
        if matches!(self, Self::Deployment) {
            object::carry_over(&mut object["metadata"], &old["metadata"], "labels");
        }
    }

    fn default(&self, object: &mut Value) {
        let spec = members_at(object, "spec");
        default_template(spec.entry("template").or_insert_with(|| json!({})));
        if !matches!(self, Self::DaemonSet) {
            default_to(spec, "replicas", 1);
        }
        if !matches!(self, Self::ReplicaSet) {
            default_to(spec, "revisionHistoryLimit", 10);
        }
        match self {
            Self::Deployment => {
                default_to(spec, "progressDeadlineSeconds", 600);
                let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
                default_rollout(spec.entry("strategy").or_insert_with(|| json!({})), &rolling);
            }
            Self::DaemonSet => {
                let rolling = json!({"maxUnavailable": 1, "maxSurge": 0});
                default_rollout(spec.entry("updateStrategy").or_insert_with(|| json!({})), &rolling);
            }
            Self::StatefulSet => {
                default_text(spec, "podManagementPolicy", "OrderedReady");
                let rolling = json!({"partition": 0});
                default_rollout(spec.entry("updateStrategy").or_insert_with(|| json!({})), &rolling);
                let policy =
                    members(spec.entry("persistentVolumeClaimRetentionPolicy").or_insert_with(|| json!({})));
                default_text(policy, "whenDeleted", "Retain");
                default_text(policy, "whenScaled", "Retain");
                if let Some(Value::Array(claims)) = spec.get_mut("volumeClaimTemplates") {
                    for claim in claims {
                        default_claim(claim);
                    }
                }
            }
            Self::ReplicaSet => {}
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) -> Result<()> {
        if matches!(self, Self::DaemonSet) {
            set_template_generation(object, 1);
        }
        Ok(())
    }

    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Value, old: &Value) -> Result<()> {
        if matches!(self, Self::DaemonSet) {
            let count = old["metadata"]["annotations"][TEMPLATE_GENERATION]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or(1);
            let changed = !object::same(object["spec"].get("template"), old["spec"].get("template"));
            set_template_generation(object, count + i64::from(changed));
        }
        Ok(())
    }

    fn validate(&self, _: &Context<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &object["spec"];
        match self {
            Self::Deployment => {
                not_negative(spec, "spec", "replicas", &mut errors);
                errors.extend(self.validate_pods(spec));
                errors.extend(rollout::of_deployment(&spec["strategy"]));
                for name in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
                    not_negative(spec, "spec", name, &mut errors);
                }
                let ready = object::int_at(spec, "minReadySeconds").unwrap_or(0);
                if let Some(deadline) =
                    object::int_at(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready)
                {
                    let why = "must be greater than minReadySeconds";
                    errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline, why));
                }
            }
            Self::ReplicaSet => {
                for name in ["replicas", "minReadySeconds"] {
                    not_negative(spec, "spec", name, &mut errors);
                }
                errors.extend(self.validate_pods(spec));
            }
            Self::StatefulSet => {
                errors.extend(rollout::of_stateful_set(spec));
                for name in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
                    not_negative(spec, "spec", name, &mut errors);
                }
                errors.extend(self.validate_pods(spec));
            }
            Self::DaemonSet => {
                errors.extend(self.validate_pods(spec));
                not_negative(spec, "spec", "minReadySeconds", &mut errors);
                errors.extend(rollout::of_daemon_set(&spec["updateStrategy"]));
                not_negative(spec, "spec", "revisionHistoryLimit", &mut errors);
            }
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        let (new, before) = (&object["spec"], &old["spec"]);
        match self {
            Self::StatefulSet => {
                let mutable = [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                ];
                let mut masked = new.clone();
                for name in mutable {
                    object::carry_over(&mut masked, before, name);
                }
                if !object::same(Some(&masked), Some(before)) {
                    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                        'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                        'minReadySeconds' are forbidden";
                    errors.push(FieldError::forbidden("spec", why));
                }
            }
            _ if !object::same(new.get("selector"), before.get("selector")) => {
                errors.push(FieldError::immutable("spec.selector", &new["selector"]));
            }
            _ => {}
        }
        errors
    }

    fn validate_through(&self, _: &Context<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let status = &object["status"];
        let count = |name: &str| object::int_at(status, name).unwrap_or(0);
        let mut errors = Vec::new();
        for name in self.counts() {
            not_negative(status, "status", name, &mut errors);
        }
        if !matches!(self, Self::DaemonSet) {
            let of_all = [
                "fullyLabeledReplicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
            ];
            for name in of_all.into_iter().filter(|name| count(name) > count("replicas")) {
                let why = "cannot be greater than status.replicas";
                errors.push(FieldError::invalid(format!("status.{name}"), count(name), why));
            }
            if count("availableReplicas") > count("readyReplicas") {
                let why = match self {
                    Self::StatefulSet => "cannot be greater than status.readyReplicas",
                    _ => "cannot be greater than readyReplicas",
                };
                errors.push(FieldError::invalid("status.availableReplicas", count("availableReplicas"), why));
            }
        }
        let collisions = count("collisionCount");
        if collisions < object::int_at(old, "status.collisionCount").unwrap_or(0) {
            errors.push(FieldError::invalid("status.collisionCount", collisions, "cannot be decremented"));
        }
        errors
    }
}

/// The pod template as pods will have it: with a volume for each claim template, in place of a volume of that name.
fn template_with_claims(spec: &Value) -> Cow<'_, Value> {
    let template = &spec["template"];
    let claims = object::list_at(spec, "volumeClaimTemplates");
    if claims.is_empty() || !template["spec"].is_object() {
        return Cow::Borrowed(template);
    }
    let names: Vec<_> = claims.iter().map(|claim| object::text_at(claim, "metadata.name")).collect();
    let of_claims =
        names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let others = object::list_at(template, "spec.volumes").iter();
    let others = others.filter(|volume| !names.contains(&object::text_at(volume, "name"))).cloned();
    let volumes: Vec<Value> = of_claims.chain(others).collect();
    let mut template = template.clone();
    template["spec"]["volumes"] = Value::Array(volumes);
    Cow::Owned(template)
}

impl Workload {
    /// What a status counts, in the order in which upstream looks at it.
    fn counts(&self) -> &'static [&'static str] {
        match self {
            Self::Deployment => &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            Self::ReplicaSet => &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ],
            Self::StatefulSet => &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            Self::DaemonSet => &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
        }
    }

    /// What is wrong with the selector and the template.
    fn validate_pods(&self, spec: &Value) -> Vec<FieldError> {
        let selector = &spec["selector"];
        let empty = |name: &str| selector[name].as_object().is_none_or(serde_json::Map::is_empty);
        let nothing = empty("matchLabels") && object::list_at(selector, "matchExpressions").is_empty();
        let mut errors = validate_selector(selector, "spec.selector");
        if selector.is_null() && !matches!(self, Self::DaemonSet) {
            errors.push(FieldError::required("spec.selector", ""));
        } else if !selector.is_null() && nothing {
            let why = format!("empty selector is invalid for {}", self.kind());
            errors.push(FieldError::invalid("spec.selector", selector.clone(), why));
        }
        let labels = &spec["template"]["metadata"]["labels"];
        match selector_of(selector) {
            None if !selector.is_null() => {
                errors.push(FieldError::invalid("spec.selector", selector.clone(), "invalid label selector"));
                return errors;
            }
            Some(selector) if selector.matches_with(|key| labels[key].as_str()) => {}
            // No selector selects nothing.
            None | Some(_) => {
                let why = "`selector` does not match template `labels`";
                errors.push(FieldError::invalid("spec.template.metadata.labels", labels.clone(), why));
            }
        }
        errors.extend(validate_template(&template_with_claims(spec), "spec.template"));
        let pod = &spec["template"]["spec"];
        let policy = object::text_at(pod, "restartPolicy");
        if policy != "Always" && !policy.is_empty() {
            let field = "spec.template.spec.restartPolicy";
            errors.push(FieldError::not_supported(field, policy, &["Always"]));
        }
        if !pod["activeDeadlineSeconds"].is_null() {
            let kind = match self {
                Self::Deployment | Self::ReplicaSet => "ReplicaSet",
                Self::StatefulSet => "StatefulSet",
                Self::DaemonSet => "DaemonSet",
            };
            let why = format!("activeDeadlineSeconds in {kind} is not Supported");
            errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", why));
        }
        errors
    }
}

/// The rules of revisions.
pub(crate) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, _: &Context<'_>, revision: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(number) = object::int_at(revision, "revision").filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("revision", number, why));
        }
        match &revision["data"] {
            Value::Null => errors.push(FieldError::required("data", "data is mandatory")),
            Value::Object(_) => {}
            _ => errors.push(FieldError::required("data", "data must be a valid JSON object")),
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, revision: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, revision);
        if revision["data"] != old["data"] {
            errors.push(FieldError::immutable("data", &revision["data"]));
        }
        errors
    }
}

fn set_template_generation(object: &mut Value, count: i64) {
    let annotations = members_at(object, "metadata.annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), count.to_string().into());
}

/// `RollingUpdate` with its numbers, unless another way is chosen.
fn default_rollout(strategy: &mut Value, rolling: &Value) {
    let strategy = members(strategy);
    default_text(strategy, "type", "RollingUpdate");
    if strategy.get("type").is_some_and(|kind| kind == "RollingUpdate") {
        let numbers = members(strategy.entry("rollingUpdate").or_insert_with(|| json!({})));
        for (name, number) in rolling.as_object().into_iter().flatten() {
            default_to(numbers, name, number.clone());
        }
    }
}
