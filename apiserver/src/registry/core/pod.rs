//! Pods.

use serde_json::{Value, json};

use super::{ephemeral, resize};
use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_to, members, members_at};
use crate::refusal::Result;
use crate::registry::container::untrimmed_images;
use crate::registry::deletion_cost;
use crate::registry::fields::{address_fault, each};
use crate::registry::pod_spec::{default_spec, qos_class, validate_spec};
use crate::registry::priority;
use crate::registry::strategy::{Context, Strategy};

/// How long a pod bears a node that is gone, in seconds, if it does not say. From upstream's admission.
const TOLERATION_SECONDS: i64 = 300;

/// The rules of pods.
pub(crate) struct Pod;

impl Strategy for Pod {
    fn default(&self, pod: &mut Value) {
        let spec = members(pod).entry("spec").or_insert_with(|| json!({}));
        for list in ["containers", "initContainers"] {
            each(spec, list, |container| default_requests(members_at(container, "resources")));
        }
        default_spec(spec);
        default_to(members(spec), "enableServiceLinks", true);
        if object::is_true(spec, "hostNetwork") {
            for list in ["containers", "initContainers"] {
                each(spec, list, |container| {
                    each(container, "ports", |port| {
                        let number = port["containerPort"].clone();
                        default_to(members(port), "hostPort", number);
                    });
                });
            }
        }
    }

    fn prepare_for_create(&self, context: &Context<'_>, pod: &mut Value) -> Result<()> {
        priority::set(context, pod)?;
        bear_lost_nodes(pod);
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(&pod["spec"])});
        if !object::list_at(pod, "spec.schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": crate::meta::stamp(context.now),
            }]);
        }
        members(pod).insert("status".to_owned(), status);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Context<'_>, pod: &mut Value, old: &Value) -> Result<()> {
        priority::keep(pod, old);
        bear_lost_nodes(pod);
        Ok(())
    }

    fn prepare_through(&self, context: &Context<'_>, pod: &mut Value, old: &Value) {
        let mut kept = old.clone();
        object::carry_over(&mut kept, pod, "metadata");
        match context.subresource {
            "status" => {
                object::carry_over(&mut kept, pod, "status");
                let qos = old["status"]["qosClass"].clone();
                default_to(members_at(&mut kept, "status"), "qosClass", qos);
                match_addresses(&mut kept["status"]);
                // Who a pod belongs to is not the node's to say.
                let owners = old["metadata"].get("ownerReferences");
                match owners {
                    Some(owners) => {
                        object::metadata(&mut kept).insert("ownerReferences".to_owned(), owners.clone());
                    }
                    None => {
                        object::metadata(&mut kept).remove("ownerReferences");
                    }
                }
            }
            "binding" => {
                object::carry_over(&mut kept, pod, "spec");
                object::carry_over(&mut kept, pod, "status");
            }
            "ephemeralcontainers" => kept = ephemeral::prepare(pod, old),
            "resize" => kept = resize::prepare(pod, old),
            _ => {}
        }
        *pod = kept;
        // A binding is the scheduler's word, not a change of what is wanted.
        if context.subresource != "binding" {
            crate::meta::count_generation(context.resource, pod, old);
        }
    }

    fn validate(&self, _: &Context<'_>, pod: &Value) -> Vec<FieldError> {
        let mut errors: Vec<_> =
            deletion_cost::validate(&pod["metadata"], "metadata.annotations").into_iter().collect();
        errors.extend(validate_spec(&pod["spec"], "spec"));
        errors.extend(untrimmed_images(&pod["spec"], "spec"));
        if !object::list_at(pod, "spec.ephemeralContainers").is_empty() {
            let why = "cannot be set on create";
            errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
        }
        errors
    }

    fn validate_update(&self, _: &Context<'_>, pod: &Value, old: &Value) -> Vec<FieldError> {
        let (metadata, before) = (&pod["metadata"], &old["metadata"]);
        let cost = deletion_cost::validate_update(metadata, before, "metadata.annotations");
        // Upstream validates the annotations of an updated pod twice, and reports both causes.
        let mut errors: Vec<_> = cost.into_iter().flat_map(|error| [error.clone(), error]).collect();
        errors.extend(validate_mirror(metadata, before));
        errors.extend(validate_spec(&pod["spec"], "spec"));
        errors.extend(untrimmed_images(&pod["spec"], "spec"));
        for list in ["containers", "initContainers"] {
            let count = |pod: &Value| object::list_at(&pod["spec"], list).len();
            if count(pod) != count(old) {
                let why = "pod updates may not add or remove containers";
                errors.push(FieldError::forbidden(format!("spec.{list}"), why));
                return errors;
            }
        }
        errors.extend(validate_deadline(pod, old));
        let (tolerations, before) =
            (object::list_at(pod, "spec.tolerations"), object::list_at(old, "spec.tolerations"));
        if !before.iter().all(|toleration| tolerations.iter().any(|one| is_same_toleration(one, toleration)))
        {
            let why = "existing toleration can not be modified except its tolerationSeconds";
            errors.push(FieldError::forbidden("spec.tolerations", why));
        }
        let gates = object::list_at(pod, "spec.schedulingGates");
        for (at, gate) in gates.iter().enumerate() {
            if !object::list_at(old, "spec.schedulingGates").contains(gate) {
                let name = object::text_at(gate, "name");
                let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
                errors.push(FieldError::forbidden(format!("spec.schedulingGates[{at}].name"), why));
            }
        }
        if !object::same(Some(&mutable_masked(pod, old)), Some(&old["spec"])) {
            let why = "pod updates may not change fields other than `spec.containers[*].image`,\
                `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                previously negative)";
            errors.push(FieldError::forbidden("spec", why));
        }
        errors
    }

    fn validate_through(&self, context: &Context<'_>, pod: &Value, old: &Value) -> Vec<FieldError> {
        match context.subresource {
            "ephemeralcontainers" => ephemeral::validate(pod, old),
            "resize" => resize::validate(pod, old),
            "status" => {
                let (metadata, before) = (&pod["metadata"], &old["metadata"]);
                let cost = deletion_cost::validate_update(metadata, before, "metadata.annotations");
                let mirror = validate_mirror(metadata, before);
                cost.into_iter().chain(mirror).chain(validate_status(pod, old)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn field(&self, pod: &Value, field: &str) -> String {
        match field {
            "spec.hostNetwork" => object::is_true(pod, "spec.hostNetwork").to_string(),
            "status.podIP" | "status.podIPs" => {
                let first = object::list_at(pod, "status.podIPs").first().map(|ip| object::text_at(ip, "ip"));
                first.unwrap_or_else(|| object::text_at(pod, "status.podIP"))
            }
            field => object::text_at(pod, field),
        }
    }

    fn grace(&self, pod: &Value, asked: Option<i64>) -> Option<i64> {
        let grace = asked.or_else(|| object::int_at(pod, "spec.terminationGracePeriodSeconds")).unwrap_or(0);
        let unscheduled = object::text_at(pod, "spec.nodeName").is_empty();
        let finished = matches!(object::text_at(pod, "status.phase").as_str(), "Failed" | "Succeeded");
        Some(match grace {
            _ if unscheduled || finished => 0,
            negative if negative < 0 => 1,
            grace => grace,
        })
    }
}

/// Whether two tolerations say the same, but for how long.
fn is_same_toleration(one: &Value, other: &Value) -> bool {
    let mut other = other.clone();
    object::carry_over(&mut other, one, "tolerationSeconds");
    *one == other
}

/// A deadline may be set, and brought forward.
fn validate_deadline(pod: &Value, old: &Value) -> Option<FieldError> {
    let field = "spec.activeDeadlineSeconds";
    let before = object::int_at(old, field)?;
    match object::int_at(pod, field) {
        None => {
            let why = "must not update from a positive integer to nil value";
            Some(FieldError::invalid(field, Value::Null, why))
        }
        Some(now) if now > before => {
            Some(FieldError::invalid(field, now, "must be less than or equal to previous value"))
        }
        Some(_) => None,
    }
}

/// The one address and the list of all of them say the same.
fn match_addresses(status: &mut Value) {
    let status = members(status);
    let one = status.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = status.get("podIPs").and_then(|all| all[0]["ip"].as_str()).unwrap_or_default().to_owned();
    if !one.is_empty() && first.is_empty() {
        status.insert("podIPs".to_owned(), json!([{"ip": one}]));
    } else if one.is_empty() && !first.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    }
}

/// A pod that does not say bears a lost node for a while, as upstream's admission has it.
fn bear_lost_nodes(pod: &mut Value) {
    let tolerations = members_at(pod, "spec").entry("tolerations").or_insert_with(|| json!([]));
    for condition in ["not-ready", "unreachable"] {
        let key = format!("node.kubernetes.io/{condition}");
        let bears = |toleration: &Value| {
            let (tolerated, effect) =
                (object::text_at(toleration, "key"), object::text_at(toleration, "effect"));
            (tolerated.is_empty() || tolerated == key) && (effect.is_empty() || effect == "NoExecute")
        };
        if let Value::Array(tolerations) = tolerations
            && !tolerations.iter().any(bears)
        {
            let seconds = TOLERATION_SECONDS;
            let effect = "NoExecute";
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": effect, "tolerationSeconds": seconds}),
            );
        }
    }
}

/// What is limited and not asked for is asked for as much as it is limited.
fn default_requests(resources: &mut serde_json::Map<String, Value>) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = members(resources.entry("requests").or_insert_with(|| json!({})));
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// A pod is the mirror of another one from the beginning, or never.
fn validate_mirror(metadata: &Value, before: &Value) -> Option<FieldError> {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let (now, before) = (metadata["annotations"].get(MIRROR), before["annotations"].get(MIRROR));
    let why = match before {
        _ if now == before => return None,
        Some(_) => "may not remove or update mirror pod annotation",
        None => "may not add mirror pod annotation",
    };
    Some(FieldError::forbidden(format!("metadata.annotations[{MIRROR}]"), why))
}

/// Validates a pod's status.
fn validate_status(pod: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let status = &pod["status"];
    let nominated = object::text_at(status, "nominatedNodeName");
    if !nominated.is_empty() && nominated != object::text_at(old, "status.nominatedNodeName") {
        let field = "status.nominatedNodeName";
        errors.extend(FieldError::each_invalid(field, &nominated, names::subdomain(&nominated)));
        if !object::text_at(old, "spec.nodeName").is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    for list in ["podIPs", "hostIPs"] {
        let before = object::list_at(&old["status"], list);
        let addresses = object::list_at(status, list).iter().enumerate();
        // As upstream, an address that is there already may stay.
        for (at, address) in addresses.filter(|(_, address)| !before.contains(address)) {
            let ip = object::text_at(address, "ip");
            if let Some(why) = address_fault(&ip) {
                errors.push(FieldError::invalid(format!("status.{list}[{at}]"), ip, why));
            }
        }
    }
    errors
}

/// The new spec with what may change put back to what it was.
fn mutable_masked(pod: &Value, old: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    let old = &old["spec"];
    for list in ["containers", "initContainers"] {
        let images: Vec<Value> =
            object::list_at(old, list).iter().map(|container| container["image"].clone()).collect();
        let mut images = images.into_iter();
        each(&mut spec, list, |container| {
            if let Some(image) = images.next() {
                members(container).insert("image".to_owned(), image);
            }
        });
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        object::carry_over(&mut spec, old, name);
    }
    if object::int_at(old, "terminationGracePeriodSeconds").is_some_and(|grace| grace < 0)
        && object::int_at(&spec, "terminationGracePeriodSeconds") == Some(1)
    {
        object::carry_over(&mut spec, old, "terminationGracePeriodSeconds");
    }
    if !object::list_at(old, "schedulingGates").is_empty() {
        for name in ["nodeSelector", "affinity"] {
            object::carry_over(&mut spec, old, name);
        }
    }
    spec
}
