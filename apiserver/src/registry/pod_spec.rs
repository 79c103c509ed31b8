//! What pods and pod templates have in common.

use serde_json::{Map, Value, json};

use super::container::Containers;
use super::deletion_cost;
use super::fields::{each, supported};
use crate::field::FieldError;
use crate::meta::validate_labels;
use crate::names;
use crate::object::{self, default_text, default_to, members};

/// Where `defaultMode` is not said: rw-r--r--.
const DEFAULT_MODE: i64 = 0o644;

/// Fills in a pod's spec, wherever it stands.
pub(crate) fn default_spec(spec: &mut Value) {
    let fields = members(spec);
    default_text(fields, "dnsPolicy", "ClusterFirst");
    default_text(fields, "restartPolicy", "Always");
    default_text(fields, "schedulerName", "default-scheduler");
    default_to(fields, "securityContext", json!({}));
    default_to(fields, "terminationGracePeriodSeconds", 30);
    // Two names of one thing.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(name) = fields.get(from).and_then(Value::as_str).map(str::to_owned) {
            default_text(fields, to, &name);
        }
    }
    for name in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, name, default_container);
    }
    each(spec, "volumes", default_volume);
    each(spec, "topologySpreadConstraints", |constraint| {
        default_text(members(constraint), "whenUnsatisfiable", "DoNotSchedule");
    });
}

fn default_container(container: &mut Value) {
    let policy =
        if is_latest(container["image"].as_str().unwrap_or_default()) { "Always" } else { "IfNotPresent" };
    let fields = members(container);
    default_text(fields, "imagePullPolicy", policy);
    default_text(fields, "terminationMessagePath", "/dev/termination-log");
    default_text(fields, "terminationMessagePolicy", "File");
    default_to(fields, "resources", json!({}));
    each(container, "ports", |port| default_text(members(port), "protocol", "TCP"));
    each(container, "env", |env| {
        if let Some(field) = env.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef")) {
            default_text(members(field), "apiVersion", "v1");
        }
    });
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).filter(|probe| probe.is_object()) {
            default_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)) {
            default_http_get(hook);
        }
    }
}

/// Whether an image has the tag `latest`, said or not. A digest is another matter.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn default_probe(probe: &mut Value) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        let fields = members(probe);
        if fields.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
            fields.insert(name.to_owned(), value.into());
        }
    }
    default_http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        default_to(members(grpc), "service", "");
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        default_text(members(get), "path", "/");
        default_text(members(get), "scheme", "HTTP");
    }
}

fn default_volume(volume: &mut Value) {
    if members(volume).keys().all(|name| name == "name") {
        members(volume).insert("emptyDir".to_owned(), json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(name).filter(|source| source.is_object()) {
            default_to(members(source), "defaultMode", DEFAULT_MODE);
        }
    }
    let field_refs = |items: &mut Value| {
        each(items, "items", |item| {
            if let Some(field) = item.get_mut("fieldRef") {
                default_text(members(field), "apiVersion", "v1");
            }
        });
    };
    if let Some(downward) = volume.get_mut("downwardAPI") {
        field_refs(downward);
    }
    if let Some(projected) = volume.get_mut("projected") {
        each(projected, "sources", |source| {
            if let Some(token) = source.get_mut("serviceAccountToken") {
                default_to(members(token), "expirationSeconds", 3600);
            }
            if let Some(downward) = source.get_mut("downwardAPI") {
                field_refs(downward);
            }
        });
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        default_to(members(path), "type", "");
    }
}

/// What is wrong with a pod's spec that stands at `path`.
pub(crate) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let volumes = validate_volumes(spec, path, &mut errors);
    let mut containers = Containers { volumes: &volumes, taken: Vec::new(), errors };
    if object::list_at(spec, "containers").is_empty() {
        containers.errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        containers.list(spec, path, list);
    }
    let mut errors = containers.errors;
    supported(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], &mut errors);
    supported(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &mut errors,
    );
    errors.extend(validate_labels(&spec["nodeSelector"], &format!("{path}.nodeSelector")));
    for name in ["serviceAccountName", "nodeName"] {
        let text = object::text_at(spec, name);
        if !text.is_empty() {
            errors.extend(FieldError::each_invalid(
                &format!("{path}.{name}"),
                &text,
                names::subdomain(&text),
            ));
        }
    }
    validate_affinity(&spec["affinity"], &format!("{path}.affinity"), &mut errors);
    for name in ["hostname", "subdomain"] {
        let text = object::text_at(spec, name);
        if !text.is_empty() {
            errors.extend(FieldError::each_invalid(&format!("{path}.{name}"), &text, names::label(&text)));
        }
    }
    validate_tolerations(spec, path, &mut errors);
    if let Some(deadline) = object::int_at(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{path}.activeDeadlineSeconds"), deadline, why));
    }
    errors
}

fn validate_affinity(affinity: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let node = &affinity["nodeAffinity"][required];
    if !node.is_null() && object::list_at(node, "nodeSelectorTerms").is_empty() {
        let field = format!("{path}.nodeAffinity.{required}.nodeSelectorTerms");
        errors.push(FieldError::required(field, "must have at least one node selector term"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (at, term) in object::list_at(&affinity[kind], required).iter().enumerate() {
            if object::text_at(term, "topologyKey").is_empty() {
                let field = format!("{path}.{kind}.{required}[{at}].topologyKey");
                errors.push(FieldError::required(field, "can not be empty"));
            }
        }
    }
}

fn validate_tolerations(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (at, toleration) in object::list_at(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{at}]");
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|name| object::text_at(toleration, name));
        if !key.is_empty() {
            errors.extend(FieldError::each_invalid(
                &format!("{path}.key"),
                &key,
                names::qualified_name(&key),
            ));
        }
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{path}.operator"), operator.as_str(), why));
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(format!("{path}.effect"), effect.as_str(), why));
        }
        match operator.as_str() {
            "" | "Equal" => {
                let whys = names::label_value(&value);
                errors.extend(FieldError::each_invalid(&format!("{path}.operator"), &value, whys));
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(format!("{path}.operator"), value, why));
            }
            _ => supported(toleration, &path, "operator", &["Equal", "Exists"], errors),
        }
        supported(toleration, &path, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
    }
}

fn validate_volumes(spec: &Value, path: &str, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for (at, volume) in object::list_at(spec, "volumes").iter().enumerate() {
        let field = format!("{path}.volumes[{at}].name");
        let name = object::text_at(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(why) = names::label(&name).pop() {
            errors.push(FieldError::invalid(field, name, why));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(field, name));
        } else {
            seen.push(name);
        }
        validate_volume(volume, &format!("{path}.volumes[{at}]"), errors);
    }
    seen
}

fn validate_volume(volume: &Value, path: &str, errors: &mut Vec<FieldError>) {
    // In the order in which upstream looks at them: what comes after the first is one too many.
    let mut sources = Vec::new();
    for name in [
        "emptyDir",
        "hostPath",
        "nfs",
        "secret",
        "persistentVolumeClaim",
        "configMap",
        "downwardAPI",
        "projected",
    ] {
        let source = &volume[name];
        if source.is_null() {
            continue;
        }
        if !sources.is_empty() {
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{path}.{name}"), why));
            continue;
        }
        sources.push(name);
        let required = match name {
            "hostPath" => "path",
            "secret" => "secretName",
            "configMap" => "name",
            "persistentVolumeClaim" => "claimName",
            _ => continue,
        };
        if object::text_at(source, required).is_empty() {
            errors.push(FieldError::required(format!("{path}.{name}.{required}"), ""));
        }
    }
}

/// Validates a pod template. `path` is the template's path in the object.
pub(crate) fn validate_template(template: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = validate_labels(&template["metadata"]["labels"], &format!("{path}.labels"));
    errors.extend(deletion_cost::validate(&template["metadata"], &format!("{path}.annotations")));
    errors.extend(validate_spec(&template["spec"], &format!("{path}.spec")));
    errors
}

/// Fills in a pod template.
pub(crate) fn default_template(template: &mut Value) {
    let template = members(template);
    default_to(template, "metadata", json!({}));
    default_spec(template.entry("spec").or_insert_with(|| json!({})));
}

/// `Guaranteed`, `Burstable` or `BestEffort`, by what the pod asks for as a whole, where it says so, else by what its containers
/// ask for.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let whole = Some(spec).filter(|spec| spec["resources"].is_object());
    let of = |list| object::list_at(spec, list).iter().filter(|_| whole.is_none());
    let containers = || whole.into_iter().chain(of("containers")).chain(of("initContainers"));
    let amounts = |container: &Value, kind: &str| -> Map<String, Value> {
        let all = container["resources"][kind].as_object().cloned().unwrap_or_default();
        let counts = |(name, amount): &(String, Value)| {
            (name == "cpu" || name == "memory") && amount.as_str().is_some_and(|amount| amount != "0")
        };
        all.into_iter().filter(counts).collect()
    };
    let asks = |container: &Value| {
        !amounts(container, "requests").is_empty() || !amounts(container, "limits").is_empty()
    };
    if !containers().any(asks) {
        return "BestEffort";
    }
    let guaranteed = containers().all(|container| {
        let limits = amounts(container, "limits");
        let requests = amounts(container, "requests");
        limits.len() == 2 && (requests.is_empty() || requests == limits)
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
