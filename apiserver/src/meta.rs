//! Rules for metadata that hold for every kind.

use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_api::Time;

use crate::field::FieldError;
use crate::names;
use crate::object::{self, finalizers};
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;

/// All annotations of an object together, in bytes. From upstream.
pub(crate) const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Whether a pod is what a node shows of one of its own, a static pod.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    object::at(pod, "metadata.annotations")
        .is_some_and(|all| all.get("kubernetes.io/config.mirror").is_some())
}

/// A moment as metadata has it.
pub(crate) fn stamp(now: Timestamp) -> String {
    Time::from(now).to_string()
}

/// Puts the object into the namespace of the request.
pub(crate) fn place(resource: &Resource, namespace: &str, object: &mut Value) -> Result<()> {
    if !resource.namespaced() {
        // As upstream, which drops it without a word.
        object::metadata(object).remove("namespace");
        return Ok(());
    }
    check_namespace(namespace, object)?;
    object::metadata(object).insert("namespace".to_owned(), namespace.into());
    Ok(())
}

/// Refuses an object that names another namespace than the request does.
pub(crate) fn check_namespace(namespace: &str, object: &Value) -> Result<()> {
    let own = object::text_at(object, "metadata.namespace");
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    Err(Refusal::bad_request(why))
}

/// Takes out of a new object what the server decides, whatever the client says of it.
pub(crate) fn drop_system_fields(new: &mut Value) {
    let metadata = object::metadata(new);
    for system in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(system);
    }
}

/// Puts back what no update changes.
pub(crate) fn keep_system_fields(new: &mut Value, old: &Value) {
    let empty = Map::new();
    let old = old["metadata"].as_object().unwrap_or(&empty);
    let metadata = object::metadata(new);
    let system = [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ];
    for name in system {
        match old.get(name) {
            Some(value) => metadata.insert(name.to_owned(), value.clone()),
            None => metadata.remove(name),
        };
    }
}

/// Counts the update if anything but metadata and status changed.
pub(crate) fn count_generation(resource: &Resource, new: &mut Value, old: &Value) {
    if !resource.traits.generation {
        return;
    }
    let counts = |name: &&String| match name.as_str() {
        "apiVersion" | "kind" | "metadata" => false,
        "status" => !resource.has_status(),
        _ => true,
    };
    let changed = {
        let names =
            |object: &Value| object.as_object().into_iter().flat_map(Map::keys).cloned().collect::<Vec<_>>();
        let names: Vec<String> = names(new).into_iter().chain(names(old)).collect();
        names.iter().filter(counts).any(|name| !object::same(new.get(name), old.get(name)))
            || counted_metadata(resource)
                .is_some_and(|path| !object::same(object::at(new, path), object::at(old, path)))
    };
    if changed {
        let generation = object::int_at(old, "metadata.generation").unwrap_or(0) + 1;
        object::metadata(new).insert("generation".to_owned(), generation.into());
    }
}

/// What the generation counts of metadata: annotations that tell about revisions, labels that tell which service.
fn counted_metadata(resource: &Resource) -> Option<&'static str> {
    match resource.kind.as_str() {
        "Deployment" => Some("metadata.annotations"),
        "EndpointSlice" => Some("metadata.labels"),
        _ => None,
    }
}

/// Whether two states differ in nothing but their version and who manages what.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let empty = Map::new();
    let rest = |object: &Value| object.as_object().unwrap_or(&empty).clone();
    a.len() == b.len()
        && a.iter().all(|(name, value)| match (name.as_str(), b.get(name)) {
            ("metadata", Some(other)) => {
                let (mut value, mut other) = (rest(value), rest(other));
                for ignored in ["resourceVersion", "managedFields"] {
                    value.remove(ignored);
                    other.remove(ignored);
                }
                value == other
            }
            (_, Some(other)) => value == other,
            (_, None) => false,
        })
}

/// Whether deletion was asked for and nothing holds the object any more.
pub(crate) fn is_finished(resource: &Resource, object: &Value) -> bool {
    object::at(object, "metadata.deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
        && finalizers(object).next().is_none()
        && !resource.strategy.holds(object)
        && object::int_at(object, "metadata.deletionGracePeriodSeconds").unwrap_or(0) == 0
}

/// What is wrong with an object's metadata.
pub(crate) fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = resource.traits.names;
    let base = object::text_at(object, "metadata.generateName");
    if !base.is_empty() {
        // Whatever is generated ends well.
        let ended = base.strip_suffix('-').filter(|rest| !rest.is_empty()).map(|rest| format!("{rest}a"));
        let whys = rule.check(ended.as_deref().unwrap_or(&base));
        errors.extend(FieldError::each_invalid("metadata.generateName", &base, whys));
    }
    let name = object::text_at(object, "metadata.name");
    errors.extend(FieldError::each_invalid("metadata.name", &name, rule.check(&name)));
    if let Some(generation) = object::int_at(object, "metadata.generation").filter(|count| *count < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", generation, why));
    }
    errors.extend(validate_labels(&object["metadata"]["labels"], "metadata.labels"));
    let mut annotations = 0;
    for (key, value) in pairs(&object["metadata"]["annotations"]) {
        let whys = names::qualified_name(&key.to_lowercase());
        errors.extend(FieldError::each_invalid("metadata.annotations", key, whys));
        annotations += key.len() + value.len();
    }
    if annotations > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    owners(object, &mut errors);
    for finalizer in finalizers(object) {
        let whys = names::qualified_name(finalizer);
        errors.extend(FieldError::each_invalid("metadata.finalizers", finalizer, whys));
    }
    if finalizers(object).any(|f| f == "orphan") && finalizers(object).any(|f| f == "foregroundDeletion") {
        let list = object::at(object, "metadata.finalizers").cloned().unwrap_or_default();
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", list, why));
    }
    for (at, finalizer) in finalizers(object).enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{at}]"), finalizer, why));
        }
    }
    errors
}

/// What is wrong with labels, wherever they stand.
pub(crate) fn validate_labels(labels: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in pairs(labels) {
        errors.extend(FieldError::each_invalid(path, key, names::qualified_name(key)));
        errors.extend(FieldError::each_invalid(path, value, names::label_value(value)));
    }
    errors
}

/// Leaves each owner only once, as upstream, and says of whom there was more than one.
pub(crate) fn dedupe_owners(object: &mut Value) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    let (mut kept, mut twice): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for owner in std::mem::take(owners) {
        if !kept.contains(&owner) {
            kept.push(owner);
            continue;
        }
        let uid = object::text_at(&owner, "uid");
        if !twice.contains(&uid) {
            twice.push(uid);
        }
    }
    *owners = kept;
    let warning = || {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    };
    (!twice.is_empty()).then(warning)
}

fn owners(object: &Value, errors: &mut Vec<FieldError>) {
    let mut controllers = Vec::new();
    for owner in object::list_at(object, "metadata.ownerReferences") {
        for (member, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if object::text_at(owner, member).is_empty() {
                errors.push(FieldError::invalid(format!("metadata.ownerReferences.{member}"), "", why));
            }
        }
        let (version, kind) = (object::text_at(owner, "apiVersion"), object::text_at(owner, "kind"));
        if version.matches('/').count() > 1 {
            let why = "version must not be empty";
            errors.push(FieldError::invalid("metadata.ownerReferences.apiVersion", version.as_str(), why));
        }
        if version == "v1" && kind == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid("metadata.ownerReferences", owner.clone(), why));
        }
        if object::is_true(owner, "controller") {
            controllers.push(format!(
                "{}/{}",
                object::text_at(owner, "kind"),
                object::text_at(owner, "name")
            ));
        }
    }
    if let [first, second, ..] = &controllers[..] {
        let list = object::at(object, "metadata.ownerReferences").cloned().unwrap_or_default();
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(FieldError::invalid("metadata.ownerReferences", list, why));
    }
}

/// What is wrong with how a client would change metadata that are the server's: times of deletion may be left out, but
/// not be others.
pub(crate) fn validate_system_fields(new: &Value, old: &Value) -> Vec<FieldError> {
    let changed = |name: &&str| {
        let new = new["metadata"].get(*name).filter(|value| !value.is_null());
        new.is_some_and(|new| old["metadata"].get(*name) != Some(new))
    };
    let fields = ["deletionTimestamp", "deletionGracePeriodSeconds"].into_iter().filter(changed);
    fields.map(|name| FieldError::immutable(format!("metadata.{name}"), &new["metadata"][name])).collect()
}

/// What is wrong with how metadata changed.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object::at(old, "metadata.deletionTimestamp").is_some() {
        let added: Vec<&str> =
            finalizers(new).filter(|finalizer| !finalizers(old).any(|known| known == *finalizer)).collect();
        if !added.is_empty() {
            let added: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", why));
        }
    }
    errors
}

fn pairs(map: &Value) -> impl Iterator<Item = (&String, &str)> {
    map.as_object().into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}
