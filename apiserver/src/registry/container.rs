//! What is wrong with containers.

use serde_json::Value;
use steersman_api::Quantity;

use super::fields::{in_port_range, not_negative, supported};
use crate::field::FieldError;
use crate::names;
use crate::object;

/// Fields of a pod that its environment can be made of.
const ENV_FIELDS: [&str; 8] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
];
/// What an action or a check can be done by.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Looks at one container after the other.
pub(super) struct Containers<'a> {
    /// The names of the pod's volumes.
    pub(super) volumes: &'a [String],
    /// The names of the containers that were looked at.
    pub(super) taken: Vec<String>,
    /// What was wrong with them.
    pub(super) errors: Vec<FieldError>,
}

impl Containers<'_> {
    /// The list of that name within a pod's spec.
    pub(super) fn list(&mut self, spec: &Value, path: &str, list: &str) {
        for (at, container) in object::list_at(spec, list).iter().enumerate() {
            self.container(container, &format!("{path}.{list}[{at}]"));
        }
    }

    fn container(&mut self, container: &Value, path: &str) {
        let name = object::text_at(container, "name");
        let at_name = format!("{path}.name");
        if name.is_empty() {
            self.errors.push(FieldError::required(at_name, ""));
        } else {
            let whys = names::label(&name);
            if whys.is_empty() && self.taken.contains(&name) {
                self.errors.push(FieldError::duplicate(at_name.as_str(), name.as_str()));
            }
            self.errors.extend(FieldError::each_invalid(&at_name, &name, whys));
            self.taken.push(name);
        }
        if object::text_at(container, "image").is_empty() {
            self.errors.push(FieldError::required(format!("{path}.image"), ""));
        }
        let errors = &mut self.errors;
        supported(container, path, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
        ports(container, path, errors);
        environment(container, path, errors);
        self.mounts(container, path);
        let errors = &mut self.errors;
        supported(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
        resources(&container["resources"], &format!("{path}.resources"), errors);
        hooks(container, path, errors);
        probes(container, path, errors);
    }

    fn mounts(&mut self, container: &Value, path: &str) {
        for (at, mount) in object::list_at(container, "volumeMounts").iter().enumerate() {
            let path = format!("{path}.volumeMounts[{at}]");
            let name = object::text_at(mount, "name");
            if name.is_empty() {
                self.errors.push(FieldError::required(format!("{path}.name"), ""));
            } else if !self.volumes.contains(&name) {
                self.errors.push(FieldError::not_found(format!("{path}.name"), name));
            }
            if object::text_at(mount, "mountPath").is_empty() {
                self.errors.push(FieldError::required(format!("{path}.mountPath"), ""));
            }
        }
    }
}

/// Of pods only: their images stand as they are meant.
pub(in crate::registry) fn untrimmed_images(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["containers", "initContainers"] {
        for (at, container) in object::list_at(spec, list).iter().enumerate() {
            let image = object::text_at(container, "image");
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                errors.push(FieldError::invalid(format!("{path}.{list}[{at}].image"), image, why));
            }
        }
    }
    errors
}

fn hooks(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if !handler.is_null() {
            validate_handler(handler, &format!("{path}.lifecycle.{hook}"), errors);
        }
    }
}

fn probes(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[name];
        if probe.is_null() {
            continue;
        }
        let path = format!("{path}.{name}");
        validate_handler(probe, &path, errors);
        for count in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            not_negative(probe, &path, count, errors);
        }
        if name != "readinessProbe"
            && let Some(count) = object::int_at(probe, "successThreshold").filter(|count| *count != 1)
        {
            errors.push(FieldError::invalid(format!("{path}.successThreshold"), count, "must be 1"));
        }
    }
}

fn validate_handler(handler: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kinds = HANDLERS.into_iter().filter(|kind| !handler[*kind].is_null());
    let mut found = false;
    for kind in kinds {
        let (at, action) = (format!("{path}.{kind}"), &handler[kind]);
        if found {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match kind {
            "exec" if object::list_at(action, "command").is_empty() => {
                errors.push(FieldError::required(format!("{at}.command"), ""));
            }
            "httpGet" => {
                if object::text_at(action, "path").is_empty() {
                    errors.push(FieldError::required(format!("{at}.path"), ""));
                }
                validate_port(&action["port"], &format!("{at}.port"), errors);
                supported(action, &at, "scheme", &["HTTP", "HTTPS"], errors);
            }
            "tcpSocket" | "grpc" => validate_port(&action["port"], &format!("{at}.port"), errors),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

/// A port by number or name.
pub(in crate::registry) fn validate_port(port: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match port {
        Value::String(name) => errors.extend(FieldError::each_invalid(field, name, names::port_name(name))),
        port => in_port_range(port.as_i64().unwrap_or(0), field.to_owned(), errors),
    }
}

fn ports(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut taken = Vec::new();
    for (at, port) in object::list_at(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        let name = object::text_at(port, "name");
        if !name.is_empty() {
            let whys = names::port_name(&name);
            if whys.is_empty() && taken.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name.as_str()));
            }
            errors.extend(FieldError::each_invalid(&format!("{path}.name"), &name, whys));
            taken.push(name);
        }
        match object::int_at(port, "containerPort") {
            None | Some(0) => errors.push(FieldError::required(format!("{path}.containerPort"), "")),
            Some(number) => in_port_range(number, format!("{path}.containerPort"), errors),
        }
        if let Some(number) = object::int_at(port, "hostPort").filter(|number| *number != 0) {
            in_port_range(number, format!("{path}.hostPort"), errors);
        }
        supported(port, &path, "protocol", &["SCTP", "TCP", "UDP"], errors);
    }
}

fn environment(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (at, env) in object::list_at(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{at}]");
        let name = object::text_at(env, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if name.contains('=') || !name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(FieldError::invalid(format!("{path}.name"), name, why));
        }
        let Value::Object(from) = &env["valueFrom"] else { continue };
        let path = format!("{path}.valueFrom");
        if from.is_empty() {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                `fileKeyRef`";
            errors.push(FieldError::invalid(path.as_str(), "", why));
        } else if !object::text_at(env, "value").is_empty() {
            let why = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(path.as_str(), "", why));
        } else if from.len() > 1 {
            errors.push(FieldError::invalid(
                path.as_str(),
                "",
                "may not have more than one field specified at a time",
            ));
        }
        for name in ["configMapKeyRef", "secretKeyRef"] {
            if let Some(reference) = from.get(name)
                && object::text_at(reference, "key").is_empty()
            {
                errors.push(FieldError::required(format!("{path}.{name}.key"), ""));
            }
        }
        let Some(field) = from.get("fieldRef") else { continue };
        let (path, field) = (format!("{path}.fieldRef.fieldPath"), object::text_at(field, "fieldPath"));
        let of_metadata = field.starts_with("metadata.labels[") || field.starts_with("metadata.annotations[");
        if field.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !of_metadata && !ENV_FIELDS.contains(&field.as_str()) && field != "status.hostIPs" {
            let why = format!("error converting fieldPath: field label not supported: {field}");
            errors.push(FieldError::invalid(path, field, why));
        }
    }
}

fn resources(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let amounts = |kind: &str| resources[kind].as_object().into_iter().flatten();
    let quantity = |amount: &Value| amount.as_str().and_then(|text| text.parse::<Quantity>().ok());
    for (kind, name, amount) in amounts("limits")
        .map(|(name, amount)| ("limits", name, amount))
        .chain(amounts("requests").map(|(name, amount)| ("requests", name, amount)))
    {
        let limit = resources["limits"].get(name).and_then(quantity);
        if let ("requests", Some(requested), Some(limit)) = (kind, quantity(amount), limit)
            && requested > limit
        {
            let shown = resources["limits"][name].as_str().unwrap_or_default();
            let why = format!("must be less than or equal to {name} limit of {shown}");
            errors.push(FieldError::invalid(format!("{path}.requests"), amount.clone(), why));
        }
        let field = format!("{path}.{kind}[{name}]");
        if name.contains('/') && quantity(amount).is_some_and(|amount| amount.milli_value() % 1000 != 0) {
            errors.push(FieldError::invalid(field.as_str(), amount.clone(), "must be an integer"));
        }
        if !name.contains('/') && !is_standard(name) {
            for why in [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for containers",
            ] {
                errors.push(FieldError::invalid(field.as_str(), name.as_str(), why));
            }
        }
        if quantity(amount).is_some_and(|amount| amount < Quantity::default()) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(field.as_str(), amount.clone(), why));
        }
    }
}

/// Resources that every node has.
fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}
