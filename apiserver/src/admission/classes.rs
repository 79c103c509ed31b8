//! Classes of storage and of ingresses (upstream's plugins `DefaultStorageClass`, `DefaultIngressClass` and
//! `PersistentVolumeClaimResize`). Pure.

use serde_json::Value;
use steersman_api::Quantity;

use crate::object::{at, is_true, members_at, str_at, text_at};

const DEFAULT_STORAGE: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const DEFAULT_INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
/// How classes were named before there were fields for them.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    at(object, "metadata.annotations")?.get(name)?.as_str()
}

/// The newest class that says it is the default.
fn default_of<'a>(classes: impl IntoIterator<Item = &'a Value>, annotations: &[&str]) -> Option<String> {
    let is_default = |class: &&Value| annotations.iter().any(|name| annotation(class, name) == Some("true"));
    let names = classes.into_iter().filter(is_default);
    let names =
        names.map(|class| (text_at(class, "metadata.creationTimestamp"), text_at(class, "metadata.name")));
    // Stamps are of one form: what is later sorts later.
    let newest = names.max_by(|(at, name), (other_at, other)| at.cmp(other_at).then_with(|| other.cmp(name)));
    newest.map(|(_, name)| name)
}

/// Gives a new claim that names no class the default one.
pub(super) fn default_storage<'a>(classes: impl IntoIterator<Item = &'a Value>, claim: &mut Value) {
    if annotation(claim, STORAGE_CLASS).is_some() || str_at(claim, "spec.storageClassName").is_some() {
        return;
    }
    if let Some(name) = default_of(classes, &DEFAULT_STORAGE) {
        members_at(claim, "spec").insert("storageClassName".to_owned(), name.into());
    }
}

/// Gives a new ingress that names no class the default one.
pub(super) fn default_ingress<'a>(classes: impl IntoIterator<Item = &'a Value>, ingress: &mut Value) {
    if annotation(ingress, INGRESS_CLASS).is_some() || str_at(ingress, "spec.ingressClassName").is_some() {
        return;
    }
    if let Some(name) = default_of(classes, &DEFAULT_INGRESS) {
        members_at(ingress, "spec").insert("ingressClassName".to_owned(), name.into());
    }
}

/// The class that a claim names; empty for none.
pub(super) fn storage_of(claim: &Value) -> String {
    match annotation(claim, STORAGE_CLASS) {
        Some(name) => name.to_owned(),
        None => text_at(claim, "spec.storageClassName"),
    }
}

/// Why a claim may not ask for more than before; `class` is the one that it names, if that is there.
pub(super) fn check_growth(claim: &Value, old: &Value, class: Option<&Value>) -> Result<(), String> {
    let size = |claim: &Value| -> Quantity {
        let size = at(claim, "spec.resources.requests.storage").and_then(Value::as_str);
        size.and_then(|size| size.parse().ok()).unwrap_or_default()
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if text_at(old, "status.phase") != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".to_owned());
    }
    let same = storage_of(claim) == storage_of(old);
    if same && class.is_some_and(|class| is_true(class, "allowVolumeExpansion")) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(why.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, made: &str, annotation: &str, says: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": made, "annotations": {annotation: says}}})
    }

    #[test]
    fn the_newest_default_class_is_for_those_who_name_none() {
        let [of_now, of_then] = DEFAULT_STORAGE;
        let classes = [
            class("b", "2026-01-02T00:00:00Z", of_now, "true"),
            class("a", "2026-01-02T00:00:00Z", of_then, "true"),
            class("c", "2026-01-01T00:00:00Z", of_now, "true"),
            class("d", "2026-01-03T00:00:00Z", of_now, "false"),
        ];
        for (claim, expected) in [
            (json!({}), json!("a")),
            (json!({"spec": {"storageClassName": "z"}}), json!("z")),
            (json!({"spec": {"storageClassName": ""}}), json!("")),
            (json!({"metadata": {"annotations": {STORAGE_CLASS: "y"}}}), Value::Null),
        ] {
            let mut defaulted = claim.clone();
            default_storage(&classes, &mut defaulted);
            assert_eq!(defaulted["spec"]["storageClassName"], expected, "{claim}");
        }
        let mut ingress = json!({});
        default_ingress(&classes, &mut ingress);
        assert_eq!(ingress, json!({}), "classes of storage are none of ingresses");
        default_ingress(&[class("i", "2026-01-01T00:00:00Z", DEFAULT_INGRESS[0], "true")], &mut ingress);
        assert_eq!(ingress, json!({"spec": {"ingressClassName": "i"}}));
    }

    #[test]
    fn a_claim_grows_where_it_is_bound_and_its_class_lets_it() {
        let claim = |size: &str, phase: &str, class: &str| {
            json!({
                "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
                "status": {"phase": phase},
            })
        };
        let growing = json!({"allowVolumeExpansion": true});
        let unbound = "Only bound persistent volume claims can be expanded";
        let fixed = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        for (new, old, class, why) in [
            (claim("1Gi", "Pending", "a"), claim("1Gi", "Pending", "a"), None, ""),
            (claim("2Gi", "Pending", "a"), claim("1Gi", "Pending", "a"), Some(&growing), unbound),
            (claim("2Gi", "Bound", "a"), claim("1Gi", "Bound", "a"), Some(&growing), ""),
            (claim("2Gi", "Bound", "a"), claim("1Gi", "Bound", "b"), Some(&growing), fixed),
            (claim("2Gi", "Bound", "a"), claim("1Gi", "Bound", "a"), Some(&json!({})), fixed),
            (claim("2Gi", "Bound", ""), claim("1Gi", "Bound", ""), None, fixed),
        ] {
            assert_eq!(check_growth(&new, &old, class).err().unwrap_or_default(), why, "{new} {old}");
        }
    }
}
