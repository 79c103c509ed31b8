//! Kinds of the core group with a rule or two.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::field::FieldError;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::Result;
use crate::registry::pod_spec::{default_template, each};
use crate::registry::strategy::{Context, Strategy};

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

    fn validate_update(&self, _: &Context<'_>, secret: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
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
    fn validate_update(&self, _: &Context<'_>, map: &Value, old: &Value) -> Vec<FieldError> {
        immutable_data(map, old, &["data", "binaryData"])
    }
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
                    if ip.parse::<std::net::IpAddr>().is_err() {
                        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                        errors.push(FieldError::invalid(format!("{path}.{name}[{at}].ip"), ip, why));
                    }
                }
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
        default_text(members_at(volume, "status"), "phase", "Pending");
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

/// The rules of claims.
pub(crate) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn default(&self, claim: &mut Value) {
        default_text(members_at(claim, "spec"), "volumeMode", "Filesystem");
        default_text(members_at(claim, "status"), "phase", "Pending");
    }

    fn prepare_for_create(&self, _: &Context<'_>, claim: &mut Value) -> Result<()> {
        protect(claim, "kubernetes.io/pvc-protection");
        members(claim).insert("status".to_owned(), json!({"phase": "Pending"}));
        Ok(())
    }
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

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn field(&self, controller: &Value, field: &str) -> String {
        object::int_at(controller, field).unwrap_or(0).to_string()
    }
}
