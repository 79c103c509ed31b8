//! Kinds of the apps group.

use serde_json::{Value, json};

use super::batch::job::selector_of;
use super::pod_spec::{default_template, not_negative, validate_template};
use super::strategy::{Context, Strategy};
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
        let mut kept = old.clone();
        for name in ["metadata", context.subresource] {
            object::carry_over(&mut kept, object, name);
        }
        if matches!(self, Self::Deployment) {
            object::carry_over(&mut kept["metadata"], &old["metadata"], "labels");
        }
        *object = kept;
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
                let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
                default_to(spec, "persistentVolumeClaimRetentionPolicy", retain);
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
        for name in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
            not_negative(spec, "spec", name, &mut errors);
        }
        let labels = &spec["template"]["metadata"]["labels"];
        match selector_of(&spec["selector"]) {
            None => errors.push(FieldError::required("spec.selector", "")),
            Some(selector) if selector.is_empty() => {
                let why = match self {
                    Self::Deployment => "empty selector is invalid for deployment",
                    Self::ReplicaSet => "empty selector is invalid for replicaset",
                    Self::StatefulSet => "empty selector is invalid for statefulset",
                    Self::DaemonSet => "empty selector is invalid for daemonset",
                };
                errors.push(FieldError::invalid("spec.selector", spec["selector"].clone(), why));
            }
            Some(selector) if !selector.matches_with(|key| labels[key].as_str()) => {
                let why = "`selector` does not match template `labels`";
                errors.push(FieldError::invalid("spec.template.metadata.labels", labels.clone(), why));
            }
            Some(_) => {}
        }
        errors.extend(validate_template(&spec["template"], "spec.template"));
        let policy = object::text_at(spec, "template.spec.restartPolicy");
        if policy != "Always" && !policy.is_empty() {
            let field = "spec.template.spec.restartPolicy";
            errors.push(FieldError::not_supported(field, policy, &["Always"]));
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

    fn selectable_fields(&self) -> &'static [&'static str] {
        match self {
            Self::ReplicaSet => &["status.replicas"],
            _ => &[],
        }
    }

    fn field(&self, object: &Value, field: &str) -> String {
        object::int_at(object, field).unwrap_or(0).to_string()
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
