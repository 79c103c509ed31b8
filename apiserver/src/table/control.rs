//! What steers the cluster itself: leases, classes, admission, flow control, devices, other API servers.

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, NAME, boolean, integer, text};
use super::core::NAME_AND_AGE;
use super::format;
use crate::object::{self, list_at, str_at};

/// The layouts of these groups.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "Lease" => &LEASE,
        "PriorityClass" => &PRIORITY_CLASS,
        "RuntimeClass" => &RUNTIME_CLASS,
        "APIService" => &API_SERVICE,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => &WEBHOOKS,
        "ValidatingAdmissionPolicy" => &VALIDATING_POLICY,
        "MutatingAdmissionPolicy" => &MUTATING_POLICY,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => &POLICY_BINDING,
        "FlowSchema" => &FLOW_SCHEMA,
        "PriorityLevelConfiguration" => &PRIORITY_LEVEL,
        "DeviceClass" | "ResourceClaimTemplate" => &NAME_AND_AGE,
        "ResourceClaim" => &RESOURCE_CLAIM,
        "ResourceSlice" => &RESOURCE_SLICE,
        _ => return None,
    })
}

static LEASE: BuiltIn = BuiltIn {
    columns: &[NAME, text("Holder"), AGE],
    cells: |lease, now| {
        vec![format::name(lease), format::text(lease, "spec.holderIdentity"), format::age(lease, now)]
    },
};

static PRIORITY_CLASS: BuiltIn = BuiltIn {
    columns: &[NAME, integer("Value"), boolean("Global-Default"), AGE, text("PreemptionPolicy")],
    cells: |class, now| {
        vec![
            format::name(class),
            format::count(class, "value"),
            format::switch(class, "globalDefault", false),
            format::age(class, now),
            format::text(class, "preemptionPolicy"),
        ]
    },
};

static RUNTIME_CLASS: BuiltIn = BuiltIn {
    columns: &[NAME, text("Handler"), AGE],
    cells: |class, now| vec![format::name(class), format::text(class, "handler"), format::age(class, now)],
};

static API_SERVICE: BuiltIn = BuiltIn {
    columns: &[NAME, text("Service"), text("Available"), AGE],
    cells: |service, now| {
        let by = object::at(service, "spec.service")
            .map(|by| format!("{}/{}", object::text_at(by, "namespace"), object::text_at(by, "name")));
        let conditions = list_at(service, "status.conditions");
        let available = conditions.iter().find(|condition| condition["type"] == "Available");
        let available = available.map(|condition| {
            let status = object::text_at(condition, "status");
            match str_at(condition, "reason") {
                Some(reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
                _ => status,
            }
        });
        vec![
            format::name(service),
            by.unwrap_or_else(|| "Local".to_owned()).into(),
            available.unwrap_or_else(|| "Unknown".to_owned()).into(),
            format::age(service, now),
        ]
    },
};

static WEBHOOKS: BuiltIn = BuiltIn {
    columns: &[NAME, integer("Webhooks"), AGE],
    cells: |webhooks, now| {
        vec![format::name(webhooks), format::length(webhooks, "webhooks"), format::age(webhooks, now)]
    },
};

static VALIDATING_POLICY: BuiltIn = BuiltIn {
    columns: &[NAME, integer("Validations"), text("ParamKind"), AGE],
    cells: |policy, now| {
        let rules = format::length(policy, "spec.validations");
        vec![format::name(policy), rules, param_kind(policy), format::age(policy, now)]
    },
};

static MUTATING_POLICY: BuiltIn = BuiltIn {
    columns: &[NAME, integer("Mutations"), text("ParamKind"), AGE],
    cells: |policy, now| {
        let rules = format::length(policy, "spec.mutations");
        vec![format::name(policy), rules, param_kind(policy), format::age(policy, now)]
    },
};

fn param_kind(policy: &Value) -> Value {
    let kind = object::at(policy, "spec.paramKind")
        .map(|kind| format!("{}/{}", object::text_at(kind, "apiVersion"), object::text_at(kind, "kind")));
    kind.unwrap_or_else(|| "<unset>".to_owned()).into()
}

static POLICY_BINDING: BuiltIn = BuiltIn {
    columns: &[NAME, text("PolicyName"), text("ParamRef"), AGE],
    cells: |binding, now| {
        vec![
            format::name(binding),
            format::text(binding, "spec.policyName"),
            param_ref(&binding["spec"]["paramRef"]).unwrap_or_else(|| "<unset>".to_owned()).into(),
            format::age(binding, now),
        ]
    },
};

/// By namespace and name, or by the selector in Go's notation.
fn param_ref(param: &Value) -> Option<String> {
    if let Some(name) = str_at(param, "name").filter(|name| !name.is_empty()) {
        let namespace = str_at(param, "namespace").filter(|namespace| !namespace.is_empty());
        return Some(format!("{}/{name}", namespace.unwrap_or("*")));
    }
    let selector = param.get("selector").filter(|selector| !selector.is_null())?;
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut labels: Vec<_> = labels.into_iter().flatten().collect();
    labels.sort_by_key(|(key, _)| *key);
    let labels: String =
        labels.iter().map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expression = |expression: &Value| {
        let values: Vec<&str> = list_at(expression, "values").iter().filter_map(Value::as_str).collect();
        let text = |name| object::text_at(expression, name);
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text("key"),
            text("operator"),
            values.join(" ")
        )
    };
    let expressions: String = list_at(selector, "matchExpressions").iter().map(expression).collect();
    Some(format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    ))
}

static FLOW_SCHEMA: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("PriorityLevel"),
        text("MatchingPrecedence"),
        text("DistinguisherMethod"),
        AGE,
        text("MissingPL"),
    ],
    cells: |schema, now| {
        let conditions = list_at(schema, "status.conditions");
        let dangling = conditions.iter().find(|condition| condition["type"] == "Dangling");
        vec![
            format::name(schema),
            format::text(schema, "spec.priorityLevelConfiguration.name"),
            format::count(schema, "spec.matchingPrecedence"),
            str_at(schema, "spec.distinguisherMethod.type").unwrap_or("<none>").into(),
            format::age(schema, now),
            dangling.map_or_else(|| "?".into(), |dangling| format::text(dangling, "status")),
        ]
    },
};

static PRIORITY_LEVEL: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Type"),
        text("NominalConcurrencyShares"),
        text("Queues"),
        text("HandSize"),
        text("QueueLengthLimit"),
        AGE,
    ],
    cells: |level, now| {
        let limited = level["spec"].get("limited");
        let queuing = limited.and_then(|limited| limited["limitResponse"].get("queuing"));
        let number = |part: Option<&Value>, name| {
            part.map_or_else(|| "<none>".into(), |part| format::count(part, name))
        };
        vec![
            format::name(level),
            format::text(level, "spec.type"),
            number(limited, "nominalConcurrencyShares"),
            number(queuing, "queues"),
            number(queuing, "handSize"),
            number(queuing, "queueLengthLimit"),
            format::age(level, now),
        ]
    },
};

static RESOURCE_CLAIM: BuiltIn = BuiltIn {
    columns: &[NAME, text("State"), AGE],
    cells: |claim, now| {
        let allocated = object::at(claim, "status.allocation").is_some();
        let reserved = allocated && !list_at(claim, "status.reservedFor").is_empty();
        let deleted = format::is_deleting(claim);
        let states = [
            (deleted, "deleted"),
            (!allocated && !deleted, "pending"),
            (allocated, "allocated"),
            (reserved, "reserved"),
        ];
        let states = states.iter().filter(|(is, _)| *is).map(|(_, state)| *state);
        vec![format::name(claim), states.collect::<Vec<_>>().join(",").into(), format::age(claim, now)]
    },
};

static RESOURCE_SLICE: BuiltIn = BuiltIn {
    columns: &[NAME, text("Node"), text("Driver"), text("Pool"), AGE],
    cells: |slice, now| {
        vec![
            format::name(slice),
            format::text(slice, "spec.nodeName"),
            format::text(slice, "spec.driver"),
            format::text(slice, "spec.pool.name"),
            format::age(slice, now),
        ]
    },
};
