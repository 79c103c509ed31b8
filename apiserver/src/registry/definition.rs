//! The definitions of custom resources.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::schema;

use super::resource::qualified;
use super::strategy::{Context, Strategy};
use super::usage::is_about_usage;
use crate::field::FieldError;
use crate::meta;
use crate::names;
use crate::object::{self, default_text, default_to, finalizers, members, members_at};
use crate::refusal::Result;

/// The table of the definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The finalizer that holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The condition of a definition that is going.
const TERMINATING: &str = "Terminating";

/// Says that a group of the community may be used.
const APPROVED: &str = "api-approved.kubernetes.io";

/// Whether a definition of that name would be of a resource that is there anyway.
pub(crate) fn is_built_in(name: &str) -> bool {
    let mut built_in = schema::table().group_versions().iter().flat_map(|version| &version.resources);
    built_in.any(|resource| qualified(resource.group, resource.plural) == name) || is_about_usage(name)
}

/// Whether a definition is going, and waits for its objects to be gone.
pub(crate) fn awaits_cleanup(definition: &Value) -> bool {
    is_going(definition) && finalizers(definition).any(|finalizer| finalizer == CLEANUP)
}

/// A definition whose last object is gone; none if it does not wait for that.
pub(crate) fn cleaned_up(definition: &Value, now: Timestamp) -> Option<Value> {
    if !awaits_cleanup(definition) {
        return None;
    }
    let mut cleaned = definition.clone();
    let rest: Vec<Value> =
        finalizers(definition).filter(|finalizer| *finalizer != CLEANUP).map(Value::from).collect();
    let metadata = object::metadata(&mut cleaned);
    if rest.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), rest.into());
    }
    let at = meta::stamp(now);
    object::set_condition(
        members_at(&mut cleaned, "status"),
        condition(TERMINATING, "False", "InstanceDeletionCompleted", "removed all instances", &at),
    );
    Some(cleaned)
}

fn is_going(definition: &Value) -> bool {
    object::at(definition, "metadata.deletionTimestamp").is_some_and(Value::is_string)
}

fn condition(name: &str, status: &str, reason: &str, message: &str, at: &str) -> Value {
    json!({"type": name, "status": status, "lastTransitionTime": at, "reason": reason, "message": message})
}

/// The rules of definitions.
pub(crate) struct Definition;

impl Strategy for Definition {
    fn default(&self, definition: &mut Value) {
        let names = members_at(definition, "spec.names");
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        default_text(names, "singular", &kind.to_lowercase());
        default_text(names, "listKind", &format!("{kind}List"));
        default_to(members_at(definition, "spec"), "conversion", json!({"strategy": "None"}));
    }

    /// Served at once, where upstream has controllers that come to it.
    fn prepare_for_create(&self, context: &Context<'_>, definition: &mut Value) -> Result<()> {
        let now = meta::stamp(context.now);
        let stored: Vec<Value> = stored_versions(definition).map(Value::from).collect();
        let status = json!({
            "conditions": [
                condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", &now),
                condition(
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                    &now,
                ),
            ],
            "acceptedNames": definition["spec"]["names"],
            "storedVersions": stored,
        });
        members(definition).insert("status".to_owned(), status);
        Ok(())
    }

    /// What upstream's controllers bring into the status is there at once.
    fn prepare_for_update(&self, _: &Context<'_>, definition: &mut Value, _: &Value) -> Result<()> {
        let names = definition["spec"]["names"].clone();
        let stored: Vec<Value> = stored_versions(definition).map(Value::from).collect();
        let status = members_at(definition, "status");
        status.insert("acceptedNames".to_owned(), names);
        let known = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Value::Array(known) = known {
            known.extend(stored.into_iter().filter(|version| !known.contains(version)).collect::<Vec<_>>());
        }
        Ok(())
    }

    fn validate(&self, _: &Context<'_>, definition: &Value) -> Vec<FieldError> {
        let mut errors = about_spec(definition);
        errors.extend(about_approval(definition));
        errors
    }

    fn validate_update(&self, _: &Context<'_>, definition: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = about_spec(definition);
        for fixed in ["spec.scope", "spec.names.kind", "spec.group", "spec.names.plural"] {
            let (now, before) = (object::text_at(definition, fixed), object::text_at(old, fixed));
            if now != before {
                errors.push(FieldError::immutable(fixed, &now.into()));
            }
        }
        let stored = object::list_at(definition, "status.storedVersions");
        let versions = object::list_at(definition, "spec.versions");
        for (at, gone) in stored.iter().enumerate() {
            if versions.iter().any(|version| version["name"] == *gone) {
                continue;
            }
            let name = gone.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("status.storedVersions[{at}]"), name, why));
        }
        // Who changes something else is not asked for an approval that nobody asked for before.
        let approval = about_approval(definition);
        if approval.as_ref().map(FieldError::reason) != about_approval(old).as_ref().map(FieldError::reason) {
            errors.extend(approval);
        }
        errors
    }

    /// The first delete adds the finalizer, so until then something holds it.
    fn holds(&self, definition: &Value) -> bool {
        !is_going(definition)
    }

    fn marked(&self, definition: &mut Value) {
        let terminating = |condition: &Value| condition["type"] == TERMINATING;
        if object::list_at(definition, "status.conditions").iter().any(terminating) {
            return;
        }
        let mut held: Vec<Value> = finalizers(definition).map(Value::from).collect();
        if !held.contains(&CLEANUP.into()) {
            held.push(CLEANUP.into());
        }
        let metadata = object::metadata(definition);
        metadata.insert("finalizers".to_owned(), held.into());
        // Of this kind nobody says how long.
        metadata.remove("deletionGracePeriodSeconds");
        let since = object::text_at(definition, "metadata.deletionTimestamp");
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let terminating = condition(TERMINATING, "True", "InstanceDeletionPending", message, &since);
        object::set_condition(members_at(definition, "status"), terminating);
    }
}

/// The versions that objects are kept in; one, in a definition that is valid.
fn stored_versions(definition: &Value) -> impl Iterator<Item = &str> {
    let versions = object::list_at(definition, "spec.versions").iter();
    versions
        .filter(|version| object::is_true(version, "storage"))
        .filter_map(|version| version.get("name")?.as_str())
}

/// What is wrong with what a definition says.
fn about_spec(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    let (group, plural) = (object::text_at(spec, "group"), object::text_at(spec, "names.plural"));
    let name = object::text_at(definition, "metadata.name");
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name.as_str(), why));
    }
    if is_built_in(&name) {
        let why = "must not be the name of a resource that is built in";
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(why) = names::subdomain(&group).pop() {
        errors.push(FieldError::invalid("spec.group", group.as_str(), why));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match object::text_at(spec, "scope").as_str() {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(FieldError::required("spec.scope", "")),
        other => {
            errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"]));
        }
    }
    errors.extend(about_versions(&spec["versions"]));
    for required in ["plural", "singular", "kind", "listKind"] {
        if object::text_at(&spec["names"], required).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{required}"), ""));
        }
    }
    errors.extend(about_names(&spec["names"]));
    errors
}

fn about_versions(versions: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    let mut stored = 0;
    for (at, version) in versions.as_array().into_iter().flatten().enumerate() {
        let name = object::text_at(version, "name");
        let whys = names::label_1035(&name);
        if !whys.is_empty() {
            let field = format!("spec.versions[{at}].name");
            errors.push(FieldError::invalid(field, name.as_str(), whys.join(",")));
        }
        seen.insert(name);
        stored += usize::from(object::is_true(version, "storage"));
    }
    if seen.len() != versions.as_array().map_or(0, Vec::len) {
        errors.push(FieldError::invalid(
            "spec.versions",
            versions.clone(),
            "must contain unique version names",
        ));
    }
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", versions.clone(), why));
    }
    errors
}

/// What is wrong with the names that are given at all.
fn about_names(names: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |field: String, value: &str, compared: &str, lead: &str| {
        let whys = names::label_1035(compared);
        if !value.is_empty() && !whys.is_empty() {
            let why = format!("{lead}{}", whys.join(","));
            errors.push(FieldError::invalid(format!("spec.names.{field}"), value, why));
        }
    };
    for exact in ["plural", "singular"] {
        let name = object::text_at(names, exact);
        check(exact.to_owned(), &name, &name, "");
    }
    for mixed in ["kind", "listKind"] {
        let name = object::text_at(names, mixed);
        check(
            mixed.to_owned(),
            &name,
            &name.to_lowercase(),
            "may have mixed case, but should otherwise match: ",
        );
    }
    for list in ["shortNames", "categories"] {
        for (at, name) in object::list_at(names, list).iter().filter_map(Value::as_str).enumerate() {
            check(format!("{list}[{at}]"), name, name, "");
        }
    }
    let list_kind = object::text_at(names, "listKind");
    if !list_kind.is_empty() && list_kind == object::text_at(names, "kind") {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", list_kind, why));
    }
    errors
}

/// The community's own groups need its word, or one that says that there is none.
fn about_approval(definition: &Value) -> Option<FieldError> {
    let group = object::text_at(definition, "spec.group");
    let of_community = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !of_community("k8s.io") && !of_community("kubernetes.io") {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let given =
        definition["metadata"]["annotations"].get(APPROVED).and_then(Value::as_str).unwrap_or_default();
    if given.is_empty() {
        let why = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        return Some(FieldError::required(field, why));
    }
    let has_host =
        |uri: &http::Uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty());
    if given.starts_with("unapproved") || given.parse().is_ok_and(|uri| has_host(&uri)) {
        return None;
    }
    let why = format!(
        "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \
         \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
    );
    Some(FieldError::invalid(field, given, why))
}
