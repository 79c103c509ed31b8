//! Kinds of the core group with a rule or two.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_api::Quantity;

use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::Result;
use crate::registry::fields::{NOT_AN_ADDRESS, address_fault, each, in_port_range, not_negative, supported};
use crate::registry::pod_spec::{default_template, validate_template};
use crate::registry::strategy::{Context, Strategy};

/// What a config map or a secret may hold, in bytes. From upstream.
const DATA_LIMIT: usize = 1024 * 1024;

/// The rules of secrets.
pub(crate) struct Secret;

impl Strategy for Secret {
    fn default(&self, secret: &mut Value) {
        default_text(members(secret), "type", "Opaque");
        // Written in plain, kept in base64.
        if let Some(Value::Object(plain)) = members(secret).remove("stringData") {
            let data = members_at(secret, "data");
            for (name, text) in plain {
                let text = text.as_str().unwrap_or_default();
                data.insert(name, STANDARD.encode(text).into());
            }
        }
    }

    fn validate(&self, _: &Context<'_>, secret: &Value) -> Vec<FieldError> {
        let mut errors = validate_keys(secret, &["data"]);
        let sizes = secret["data"].as_object().into_iter().flatten();
        // In base64, four letters stand for three bytes.
        let size: usize = sizes
            .map(|(_, data)| data.as_str().unwrap_or_default().trim_end_matches('=').len() * 3 / 4)
            .sum();
        if size > DATA_LIMIT {
            errors.push(FieldError::too_long("data", DATA_LIMIT));
        }
        let has = |key: &str| secret["data"].get(key).is_some();
        match object::text_at(secret, "type").as_str() {
            "kubernetes.io/service-account-token" => {
                let account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
                if account.as_str().unwrap_or_default().is_empty() {
                    let field = "metadata.annotations[kubernetes.io/service-account.name]";
                    errors.push(FieldError::required(field, ""));
                }
            }
            "kubernetes.io/tls" => {
                for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)) {
                    errors.push(FieldError::required(format!("data[{key}]"), ""));
                }
            }
            "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => {
                errors.push(FieldError::required("data[ssh-privatekey]", ""));
            }
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
                for key in ["username", "password"] {
                    errors.push(FieldError::required(format!("data[{key}]"), ""));
                }
            }
            "kubernetes.io/dockerconfigjson" => errors.extend(registries(secret, ".dockerconfigjson")),
            "kubernetes.io/dockercfg" => errors.extend(registries(secret, ".dockercfg")),
            _ => {}
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, secret: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, secret);
        if secret["type"] != old["type"] {
            errors.push(FieldError::immutable("type", &secret["type"]));
        }
        errors.extend(immutable_data(secret, old, &["data"]));
        errors
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["type"]
    }
}

/// The rules of config maps.
pub(crate) struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, _: &Context<'_>, map: &Value) -> Vec<FieldError> {
        let mut errors = validate_keys(map, &["data", "binaryData"]);
        let texts = map["data"].as_object().into_iter().flatten();
        let bytes = map["binaryData"].as_object().into_iter().flatten();
        let size: usize = texts.map(|(_, text)| text.as_str().unwrap_or_default().len()).sum::<usize>()
            + bytes.map(|(_, data)| data.as_str().unwrap_or_default().len() * 3 / 4).sum::<usize>();
        if size > DATA_LIMIT {
            errors.push(FieldError::too_long("[]", DATA_LIMIT));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, map: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = immutable_data(map, old, &["data", "binaryData"]);
        errors.extend(self.validate(context, map));
        errors
    }
}

/// What is wrong with the keys of data.
fn validate_keys(object: &Value, maps: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for map in maps {
        for key in object[*map].as_object().into_iter().flat_map(serde_json::Map::keys) {
            errors.extend(FieldError::each_invalid(&format!("{map}[{key}]"), key, names::data_key(key)));
        }
    }
    if let [first, second] = maps {
        let other = object[*second].as_object();
        for key in object[*first].as_object().into_iter().flat_map(serde_json::Map::keys) {
            if other.is_some_and(|other| other.contains_key(key)) {
                let why = format!("duplicate of key present in {second}");
                errors.push(FieldError::invalid(format!("{first}[{key}]"), key.as_str(), why));
            }
        }
    }
    errors
}

/// Credentials of registries are JSON.
fn registries(secret: &Value, key: &str) -> Option<FieldError> {
    let field = format!("data[{key}]");
    let Some(data) = secret["data"][key].as_str() else { return Some(FieldError::required(field, "")) };
    let bytes = STANDARD.decode(data).unwrap_or_default();
    let parsed = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes);
    parsed.err().map(|error| FieldError::invalid(field, "<secret contents redacted>", error.to_string()))
}

fn immutable_data(new: &Value, old: &Value, members: &[&str]) -> Vec<FieldError> {
    if !object::is_true(old, "immutable") {
        return Vec::new();
    }
    let why = "field is immutable when `immutable` is set";
    let mut errors = Vec::new();
    if !object::is_true(new, "immutable") {
        errors.push(FieldError::forbidden("immutable", why));
    }
    for name in members {
        if !object::same(new.get(name), old.get(name)) {
            errors.push(FieldError::forbidden(*name, why));
        }
    }
    errors
}

/// The rules of endpoints.
pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn warning(&self, _: &Value) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn default(&self, endpoints: &mut Value) {
        each(endpoints, "subsets", |subset| {
            each(subset, "ports", |port| default_text(members(port), "protocol", "TCP"));
        });
    }

    fn validate(&self, _: &Context<'_>, endpoints: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (at, subset) in object::list_at(endpoints, "subsets").iter().enumerate() {
            let path = format!("subsets[{at}]");
            let addresses = ["addresses", "notReadyAddresses"];
            if addresses.iter().all(|name| object::list_at(subset, name).is_empty()) {
                let why = "must specify `addresses` or `notReadyAddresses`";
                errors.push(FieldError::required(path.as_str(), why));
            }
            for name in addresses {
                for (at, address) in object::list_at(subset, name).iter().enumerate() {
                    let ip = object::text_at(address, "ip");
                    let Some(why) = address_fault(&ip) else { continue };
                    let field = format!("{path}.{name}[{at}].ip");
                    errors.push(FieldError::invalid(field.as_str(), ip.as_str(), why));
                    if why == NOT_AN_ADDRESS {
                        // Upstream looks twice.
                        errors.push(FieldError::invalid(field, ip, "must be a valid IP address"));
                    }
                }
            }
            for (at, port) in object::list_at(subset, "ports").iter().enumerate() {
                let number = object::int_at(port, "port").unwrap_or(0);
                in_port_range(number, format!("{path}.ports[{at}].port"), &mut errors);
            }
        }
        errors
    }
}

/// The rules of persistent volumes.
pub(crate) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn default(&self, volume: &mut Value) {
        let spec = members_at(volume, "spec");
        default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        default_text(spec, "volumeMode", "Filesystem");
        if let Some(path) = spec.get_mut("hostPath").filter(|path| path.is_object()) {
            default_to(members(path), "type", "");
        }
        default_text(members_at(volume, "status"), "phase", "Pending");
    }

    fn validate(&self, _: &Context<'_>, volume: &Value) -> Vec<FieldError> {
        let spec = &volume["spec"];
        let mut errors = Vec::new();
        if object::list_at(spec, "accessModes").is_empty() {
            errors.push(FieldError::required("spec.accessModes", ""));
        }
        let capacity = spec["capacity"].as_object();
        if capacity.is_none_or(serde_json::Map::is_empty) {
            errors.push(FieldError::required("spec.capacity", ""));
        }
        if capacity.is_none_or(|capacity| capacity.len() != 1 || !capacity.contains_key("storage")) {
            errors.push(FieldError::not_supported("spec.capacity", spec["capacity"].clone(), &["storage"]));
        }
        let common = [
            "capacity",
            "accessModes",
            "claimRef",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "mountOptions",
            "volumeMode",
            "nodeAffinity",
            "volumeAttributesClassName",
        ];
        let is_source = |name: &String| !common.contains(&name.as_str());
        if !spec.as_object().is_some_and(|spec| spec.keys().any(is_source)) {
            errors.push(FieldError::required("spec", "must specify a volume type"));
        }
        let policies = ["Delete", "Recycle", "Retain"];
        supported(spec, "spec", "persistentVolumeReclaimPolicy", &policies, &mut errors);
        supported(spec, "spec", "volumeMode", &["Block", "Filesystem"], &mut errors);
        errors
    }

    fn prepare_for_create(&self, context: &Context<'_>, volume: &mut Value) -> Result<()> {
        protect(volume, "kubernetes.io/pv-protection");
        let now = crate::meta::stamp(context.now);
        members(volume)
            .insert("status".to_owned(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        Ok(())
    }
}

/// Nobody's storage goes while it is in use, as upstream's admission has it.
fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = object::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|found| found == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

/// Fills in a claim, wherever it stands.
pub(crate) fn default_claim(claim: &mut Value) {
    default_text(members_at(claim, "spec"), "volumeMode", "Filesystem");
    default_text(members_at(claim, "status"), "phase", "Pending");
}

/// The rules of claims.
pub(crate) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn default(&self, claim: &mut Value) {
        default_claim(claim);
    }

    fn prepare_for_create(&self, _: &Context<'_>, claim: &mut Value) -> Result<()> {
        protect(claim, "kubernetes.io/pvc-protection");
        members(claim).insert("status".to_owned(), json!({"phase": "Pending"}));
        Ok(())
    }

    fn validate(&self, _: &Context<'_>, claim: &Value) -> Vec<FieldError> {
        let spec = &claim["spec"];
        let mut errors = Vec::new();
        if object::list_at(spec, "accessModes").is_empty() {
            errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
        }
        if spec["resources"]["requests"]["storage"].is_null() {
            errors.push(FieldError::required("spec.resources[storage]", ""));
        }
        supported(spec, "spec", "volumeMode", &["Block", "Filesystem"], &mut errors);
        errors
    }

    fn validate_update(&self, context: &Context<'_>, claim: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, claim);
        let mut masked = claim["spec"].clone();
        // The binder names the volume; more may be asked for once it is there.
        if object::text_at(claim, "status.phase") == "Bound" {
            object::carry_over(&mut masked, &old["spec"], "volumeAttributesClassName");
            let size = old["spec"]["resources"]["requests"]["storage"].clone();
            if masked["resources"]["requests"].is_object() {
                masked["resources"]["requests"]["storage"] = size;
            }
        }
        if object::text_at(old, "spec.volumeName").is_empty() {
            object::carry_over(&mut masked, &old["spec"], "volumeName");
        }
        if may_get_class(claim, old, &mut errors) {
            object::carry_over(&mut masked, &old["spec"], "storageClassName");
        }
        attributes_stay(claim, old, &mut errors);
        if !object::same(Some(&masked), Some(&old["spec"])) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                bound claims";
            errors.push(FieldError::forbidden("spec", why));
        }
        let size =
            |value: &Value| value.as_str().and_then(|size| size.parse::<Quantity>().ok()).unwrap_or_default();
        let asked = |claim: &Value| size(&claim["spec"]["resources"]["requests"]["storage"]);
        let less = asked(claim) < asked(old) && asked(claim) <= size(&old["status"]["capacity"]["storage"]);
        if less {
            let why = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden("spec.resources.requests.storage", why));
        }
        errors
    }
}

/// Named the class of a claim before there was a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether a claim without a class gets one by an update that it may get: any, but where it has an annotation only the class
/// that this names. The annotation goes only as the field takes its place.
fn may_get_class(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) -> bool {
    let annotated =
        |claim: &Value| claim["metadata"]["annotations"][CLASS_ANNOTATION].as_str().map(str::to_owned);
    let named = |claim: &Value| object::str_at(claim, "spec.storageClassName").map(str::to_owned);
    let (annotation, before) = (annotated(claim), annotated(old));
    let gets = if named(old).is_none() { named(claim) } else { None };
    let gets_annotated = gets.is_some() && gets == before;
    if !(gets_annotated && annotation.is_none())
        && annotation.as_deref().unwrap_or_default() != before.as_deref().unwrap_or_default()
    {
        let field = format!("metadata.annotations.{CLASS_ANNOTATION}");
        errors.push(FieldError::immutable(field, &Value::from(annotation.unwrap_or_default())));
    }
    gets_annotated || (gets.is_some() && before.is_none())
}

/// Once a class of attributes is applied, a claim has one.
fn attributes_stay(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    const NAME: &str = "spec.volumeAttributesClassName";
    let (new, before) = (object::str_at(claim, NAME), object::str_at(old, NAME));
    let is_applied = object::str_at(old, "status.currentVolumeAttributesClassName").is_some();
    let to = match new {
        _ if !is_applied || new == before => return,
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden(NAME, why));
}

/// The rules of pod templates.
pub(crate) struct PodTemplate;

impl Strategy for PodTemplate {
    fn default(&self, template: &mut Value) {
        default_template(members(template).entry("template").or_insert_with(|| json!({})));
    }
}

/// The rules of replication controllers.
pub(crate) struct ReplicationController;

impl Strategy for ReplicationController {
    fn default(&self, controller: &mut Value) {
        let template = members_at(controller, "spec").entry("template").or_insert_with(|| json!({}));
        default_template(template);
        let labels = object::at(template, "metadata.labels").cloned();
        let spec = members_at(controller, "spec");
        default_to(spec, "replicas", 1);
        if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|l| !l.is_empty())) {
            default_to(spec, "selector", labels.clone());
            default_to(object::metadata(controller), "labels", labels);
        }
    }

    fn validate(&self, _: &Context<'_>, controller: &Value) -> Vec<FieldError> {
        let spec = &controller["spec"];
        let mut errors = Vec::new();
        for name in ["minReadySeconds", "replicas"] {
            not_negative(spec, "spec", name, &mut errors);
        }
        let selector = spec["selector"].as_object();
        if selector.is_none_or(serde_json::Map::is_empty) {
            errors.push(FieldError::required("spec.selector", ""));
        }
        if spec["template"].is_null() {
            errors.push(FieldError::required("spec.template", ""));
            return errors;
        }
        let labels = &spec["template"]["metadata"]["labels"];
        if selector.is_some_and(|selector| selector.iter().any(|(key, value)| labels[key] != *value)) {
            let why = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid("spec.template.metadata.labels", labels.clone(), why));
        }
        errors.extend(validate_template(&spec["template"], "spec.template"));
        errors
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn field(&self, controller: &Value, field: &str) -> String {
        object::int_at(controller, field).unwrap_or(0).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: Option<&str>, annotation: Option<&str>) -> Value {
        json!({"metadata": {"annotations": {CLASS_ANNOTATION: annotation}}, "spec": {"storageClassName": class}})
    }

    #[test]
    fn a_claim_without_a_class_may_get_one_later() {
        for (old, new, gets, faults) in [
            ((None, None), (Some("a"), None), true, 0),
            ((None, None), (None, None), false, 0),
            ((Some("a"), None), (Some("b"), None), false, 0),
            ((Some("a"), None), (None, None), false, 0),
            ((None, Some("a")), (Some("a"), Some("a")), true, 0),
            ((None, Some("a")), (Some("a"), None), true, 0),
            ((None, Some("a")), (Some("b"), Some("a")), false, 0),
            ((None, Some("a")), (None, None), false, 1),
            ((None, None), (Some("a"), Some("a")), true, 1),
        ] {
            let mut errors = Vec::new();
            let found = may_get_class(&claim(new.0, new.1), &claim(old.0, old.1), &mut errors);
            assert_eq!((found, errors.len()), (gets, faults), "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_class_of_attributes_that_is_applied_is_not_taken_away() {
        let claim = |class: Option<&str>, applied: Option<&str>| {
            let status = json!({"currentVolumeAttributesClassName": applied});
            json!({"spec": {"volumeAttributesClassName": class}, "status": status})
        };
        for (old, new, faults) in [
            (claim(Some("a"), Some("a")), claim(None, None), 1),
            (claim(Some("a"), Some("a")), claim(Some(""), None), 1),
            (claim(Some("a"), Some("a")), claim(Some("b"), None), 0),
            (claim(Some("a"), None), claim(None, None), 0),
        ] {
            let mut errors = Vec::new();
            attributes_stay(&new, &old, &mut errors);
            assert_eq!(errors.len(), faults, "{old} {new}");
        }
    }
}
