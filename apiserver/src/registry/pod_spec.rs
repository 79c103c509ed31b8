//! What pods and pod templates have in common.

use serde_json::{Map, Value, json};

use crate::field::FieldError;
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

/// Does something to every item of a list, if there is one.
pub(crate) fn each(object: &mut Value, list: &str, act: impl FnMut(&mut Value)) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.iter_mut().for_each(act);
    }
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
    let mut taken = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (at, container) in object::list_at(spec, list).iter().enumerate() {
            validate_container(container, &format!("{path}.{list}[{at}]"), &volumes, &mut taken, &mut errors);
        }
    }
    if object::list_at(spec, "containers").is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    supported(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], &mut errors);
    supported(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &mut errors,
    );
    for name in ["hostname", "subdomain"] {
        let text = object::text_at(spec, name);
        if let Some(why) = names::label(&text).filter(|_| !text.is_empty()) {
            errors.push(FieldError::invalid(format!("{path}.{name}"), text, why));
        }
    }
    for name in ["serviceAccountName", "nodeName"] {
        let text = object::text_at(spec, name);
        if let Some(why) = names::subdomain(&text).filter(|_| !text.is_empty()) {
            errors.push(FieldError::invalid(format!("{path}.{name}"), text, why));
        }
    }
    if let Some(deadline) = object::int_at(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{path}.activeDeadlineSeconds"), deadline, why));
    }
    errors
}

fn validate_volumes(spec: &Value, path: &str, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for (at, volume) in object::list_at(spec, "volumes").iter().enumerate() {
        let field = format!("{path}.volumes[{at}].name");
        let name = object::text_at(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(why) = names::label(&name) {
            errors.push(FieldError::invalid(field, name, why));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(field, name));
        } else {
            seen.push(name);
        }
    }
    seen
}

fn validate_container(
    container: &Value,
    path: &str,
    volumes: &[String],
    taken: &mut Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    let name = object::text_at(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else if let Some(why) = names::label(&name) {
        errors.push(FieldError::invalid(format!("{path}.name"), name, why));
    } else if taken.contains(&name) {
        errors.push(FieldError::duplicate(format!("{path}.name"), name));
    } else {
        taken.push(name);
    }
    let image = object::text_at(container, "image");
    if image.is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{path}.image"), image, why));
    }
    supported(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
    supported(container, path, "terminationMessagePolicy", &["FallbackToLogsOnError", "File"], errors);
    for (at, port) in object::list_at(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        match object::int_at(port, "containerPort") {
            None | Some(0) => errors.push(FieldError::required(format!("{path}.containerPort"), "")),
            Some(number) => in_port_range(number, format!("{path}.containerPort"), errors),
        }
        supported(port, &path, "protocol", &["SCTP", "TCP", "UDP"], errors);
    }
    for (at, env) in object::list_at(container, "env").iter().enumerate() {
        if object::text_at(env, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.env[{at}].name"), ""));
        }
    }
    for (at, mount) in object::list_at(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        let name = object::text_at(mount, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !volumes.contains(&name) {
            errors.push(FieldError::not_found(format!("{path}.name"), name));
        }
        if object::text_at(mount, "mountPath").is_empty() {
            errors.push(FieldError::required(format!("{path}.mountPath"), ""));
        }
    }
}

/// A port's number.
pub(crate) fn in_port_range(number: i64, field: String, errors: &mut Vec<FieldError>) {
    if !(1..=65_535).contains(&number) {
        errors.push(FieldError::invalid(field, number, "must be between 1 and 65535, inclusive"));
    }
}

/// One of a few words.
pub(crate) fn supported(
    object: &Value,
    path: &str,
    name: &str,
    values: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let value = object::text_at(object, name);
    if !value.is_empty() && !values.contains(&value.as_str()) {
        errors.push(FieldError::not_supported(format!("{path}.{name}"), value, values));
    }
}

/// A number that may not be negative.
pub(crate) fn not_negative(object: &Value, path: &str, name: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = object::int_at(object, name).filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(format!("{path}.{name}"), number, why));
    }
}

/// What is wrong with a pod template that stands at `path`.
pub(crate) fn validate_template(template: &Value, path: &str) -> Vec<FieldError> {
    validate_spec(&template["spec"], &format!("{path}.spec"))
}

/// Fills in a pod template.
pub(crate) fn default_template(template: &mut Value) {
    let template = members(template);
    default_to(template, "metadata", json!({}));
    default_spec(template.entry("spec").or_insert_with(|| json!({})));
}

/// `Guaranteed`, `Burstable` or `BestEffort`, by what the containers ask for.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let containers =
        || object::list_at(spec, "containers").iter().chain(object::list_at(spec, "initContainers"));
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
