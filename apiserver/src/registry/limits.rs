//! Limit ranges and quotas.

use serde_json::{Map, Value};
use steersman_api::Quantity;

use super::fields::each;
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::names;
use crate::object::{self, members};

/// What a quota may count without a name of its own group.
const COUNTED: [&str; 17] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
];
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// The rules of limit ranges.
pub(crate) struct LimitRange;

impl Strategy for LimitRange {
    /// What a container gets that does not say follows from its bounds.
    fn default(&self, range: &mut Value) {
        let Some(spec) = range.get_mut("spec") else { return };
        each(spec, "limits", |limit| {
            if limit["type"] != "Container" {
                return;
            }
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                let Some(Value::Object(amounts)) = limit.get(from).cloned() else { continue };
                let filled = members(members(limit).entry(to).or_insert_with(|| Map::new().into()));
                for (name, amount) in amounts {
                    filled.entry(name).or_insert(amount);
                }
            }
        });
    }

    fn validate(&self, _: &Context<'_>, range: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (at, limit) in object::list_at(range, "spec.limits").iter().enumerate() {
            let path = format!("spec.limits[{at}]");
            let amount = |kind: &str, name: &str| {
                limit[kind][name]
                    .as_str()
                    .and_then(|text| Some((text.to_owned(), text.parse::<Quantity>().ok()?)))
            };
            let mut names: Vec<&String> = ["max", "min", "default", "defaultRequest"]
                .iter()
                .flat_map(|kind| limit[*kind].as_object().into_iter().flat_map(Map::keys))
                .collect();
            names.sort();
            names.dedup();
            for name in names {
                // The greater one should be the lesser one; what the error is about, and what both are called.
                for (lesser, greater, (about, shown), (first, second)) in [
                    ("min", "max", ("min", "min"), ("min", "max")),
                    (
                        "min",
                        "defaultRequest",
                        ("defaultRequest", "defaultRequest"),
                        ("min", "default request"),
                    ),
                    (
                        "defaultRequest",
                        "max",
                        ("defaultRequest", "defaultRequest"),
                        ("default request", "max"),
                    ),
                    (
                        "defaultRequest",
                        "default",
                        ("defaultRequest", "defaultRequest"),
                        ("default request", "default limit"),
                    ),
                    ("min", "default", ("default", "min"), ("min", "default")),
                    ("default", "max", ("default", "max"), ("default", "max")),
                ] {
                    let (Some(low), Some(high)) = (amount(lesser, name), amount(greater, name)) else {
                        continue;
                    };
                    if low.1 > high.1 {
                        let why =
                            format!("{first} value {} is greater than {second} value {}", low.0, high.0);
                        let value = limit[shown][name.as_str()].clone();
                        errors.push(FieldError::invalid(format!("{path}.{about}[{name}]"), value, why));
                    }
                }
            }
        }
        errors
    }
}

/// The rules of quotas.
pub(crate) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn validate(&self, _: &Context<'_>, quota: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (name, amount) in object::at(quota, "spec.hard").and_then(Value::as_object).into_iter().flatten()
        {
            let field = format!("spec.hard[{name}]");
            errors.extend(FieldError::each_invalid(&field, name, names::qualified_name(name)));
            let known = COUNTED.contains(&name.as_str()) || name.starts_with("services.");
            if !name.contains('/') && !known && !name.contains("hugepages-") {
                for why in [
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for quota",
                ] {
                    errors.push(FieldError::invalid(field.as_str(), name.as_str(), why));
                }
            }
            let parsed = amount.as_str().and_then(|text| text.parse::<Quantity>().ok());
            if parsed.is_some_and(|amount| amount < Quantity::default()) {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(field, amount.clone(), why));
            }
        }
        let scopes = object::list_at(quota, "spec.scopes");
        for scope in scopes {
            if !SCOPES.contains(&scope.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid("spec.scopes", scopes.to_vec(), "unsupported scope"));
            }
        }
        errors
    }
}
