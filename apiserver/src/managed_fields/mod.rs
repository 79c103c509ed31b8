//! Who manages which fields of an object, and server-side apply.
//!
//! Every write notes in `metadata.managedFields` which fields it changed. Who applies a configuration gets the fields it
//! names: another manager's field with another value is a conflict, and what the next configuration no longer names goes,
//! unless somebody else has it too. Upstream's models are `structured-merge-diff` and the `managedfields` package of
//! apimachinery.
//!
//! All is pure: `update` and `apply` get states in their JSON form and a [`Subject`] that says what they are. Sets of
//! fields ([`FieldSet`]) are trees of path elements; types ([`Type`]) come from the schema table or from the definition of
//! a custom resource; `compare`, `walk` and `merge` go through states by their type; [`Managers`] is the list of entries.
//!
//! The server keeps the fields of an entry as text, in `fieldsV1` of the object's JSON form: `compact` and `expand` go
//! between this and the form that clients know, and encodings unfold it. They are only read where a write changes
//! something.

mod apply;
mod compare;
mod element;
mod fault;
mod last_applied;
mod managers;
mod merge;
mod reset;
mod scale;
mod set;
mod text;
mod types;
mod updater;
mod value;
mod walk;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use compare::Comparison;
use element::Element;
use managers::{ManagerId, Managers};
use set::FieldSet;

pub(crate) use apply::{apply, shown_name};
pub(crate) use managers::{compact, expand};
pub(crate) use reset::Reset;
pub(crate) use scale::{of_parent, of_scale};
pub(crate) use types::Type;

/// Fields of metadata and type that have no manager. From upstream.
const NOBODYS: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// What is written, as far as it matters who manages what.
pub(crate) struct Subject<'s> {
    /// The version in which it is written, such as `apps/v1`.
    pub(crate) api_version: &'s str,
    /// Such as `Deployment`.
    pub(crate) kind: &'s str,
    /// The subresource it is written through, or empty.
    pub(crate) subresource: &'s str,
    /// The type of its states.
    pub(crate) ty: Type<'s>,
    /// A state of the kind in which nothing is set.
    pub(crate) empty: &'s Value,
    /// What such a write never changes.
    pub(crate) reset: Reset,
    /// The time of the write, as entries have it.
    pub(crate) now: String,
    /// States as other versions of the kind show them.
    pub(crate) others: &'s dyn Views,
}

/// States as other versions of a kind show them.
pub(crate) trait Views {
    /// A state as that version shows it; `None` if the version is not served.
    fn view<'v>(&'v self, version: &str, state: &Value) -> Option<View<'v>>;
}

/// A state in some version.
pub(crate) struct View<'v> {
    /// Its type there.
    pub(crate) ty: Type<'v>,
    /// What it looks like there.
    pub(crate) value: Cow<'v, Value>,
}

/// Why a write can't be accounted for, or an apply not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Others have fields that the configuration sets to other values.
    #[error("{}", message(.0))]
    Conflicts(Vec<Conflict>),
    /// An item of a list can't be told from others.
    #[error("{0}")]
    Item(String),
    /// The configuration is not one of this kind.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit its type.
    #[error("{0}")]
    Untyped(String),
}

/// A field that another manager has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    manager: ManagerId,
    path: Vec<Element>,
}

impl Conflict {
    /// The field, such as `.spec.replicas`.
    pub(crate) fn field(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }

    /// Who has it.
    pub(crate) fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", one.message(), one.field());
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field()));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

impl Subject<'_> {
    /// A state as that version shows it, which may be the subject's own.
    fn view<'v>(&'v self, version: &str, state: &'v Value) -> Option<View<'v>> {
        let shown = state.get("apiVersion").and_then(Value::as_str).unwrap_or(self.api_version);
        if version == self.api_version && shown == self.api_version {
            return Some(View { ty: self.ty, value: Cow::Borrowed(state) });
        }
        self.others.view(version, state)
    }

    /// What a change did, as far as it may.
    fn change(&self, ty: Type<'_>, old: &Value, new: &Value) -> Result<Comparison, Error> {
        let mut change = Comparison::of(ty, old, new)?;
        self.reset.keep(&mut change.removed);
        self.reset.keep(&mut change.set);
        Ok(change)
    }
}

/// Notes in `new` who manages what after a create, an update or a patch by `manager`.
///
/// `old` is the present state; of a create the subject's [`empty`](Subject::empty) one.
pub(crate) fn update(subject: &Subject<'_>, old: &Value, new: &mut Value, manager: &str) {
    let present = list_of(old);
    let mut sent = take(new);
    if let Some(sent) = &mut sent {
        compact(sent);
    }
    let managed = noted(subject, (old, present), (new, sent.as_ref()), manager);
    put(new, managed);
}

fn noted(
    subject: &Subject<'_>,
    (old, present): (&Value, Option<&Value>),
    (new, sent): (&Value, Option<&Value>),
    manager: &str,
) -> Option<Value> {
    // Clients that don't know the list leave it out, and others send it as they got it; subresources can't set it.
    let sent = sent.filter(|sent| subject.subresource.is_empty() && Some(*sent) != present);
    if sent.is_some_and(is_reset) {
        return begin(subject, (old, new), Managers::default(), manager);
    }
    if let Some(managers) = sent.and_then(Managers::read).filter(|managers| !managers.is_empty()) {
        return begin(subject, (old, new), managers, manager);
    }
    let old = without_list(old);
    let change = subject.change(subject.ty, &old, new).ok()?;
    if change.is_empty() {
        return present.cloned();
    }
    let managers = present.and_then(Managers::read).unwrap_or_default();
    finish(subject, (&old, new), change, managers, manager)
}

fn begin(
    subject: &Subject<'_>,
    (old, new): (&Value, &Value),
    managers: Managers,
    manager: &str,
) -> Option<Value> {
    let old = without_list(old);
    let change = subject.change(subject.ty, &old, new).ok()?;
    finish(subject, (&old, new), change, managers, manager)
}

fn finish(
    subject: &Subject<'_>,
    states: (&Value, &Value),
    change: Comparison,
    mut managers: Managers,
    manager: &str,
) -> Option<Value> {
    // Somebody does not want to know who manages what: it stays so until the first apply.
    if managers.is_empty() && exists(states.0) {
        return None;
    }
    updater::update(subject, states, change, &mut managers, manager).ok()?;
    managers.write()
}

/// The set without the fields that have no manager.
fn stripped(mut set: FieldSet) -> FieldSet {
    static SET: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&NOBODYS));
    set.remove(&SET);
    set
}

/// Whether a state is that of an object, and not the empty one.
fn exists(state: &Value) -> bool {
    state["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// Whether a client wants the list to be emptied.
fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(|value| value.is_null() || *value == ""),
        _ => false,
    }
}

fn list_of(state: &Value) -> Option<&Value> {
    state.get("metadata")?.get("managedFields")
}

/// The state without the list, which manages itself.
fn without_list(state: &Value) -> Cow<'_, Value> {
    match list_of(state) {
        None => Cow::Borrowed(state),
        Some(_) => {
            let mut state = state.clone();
            take(&mut state);
            Cow::Owned(state)
        }
    }
}

/// Does something to a state that takes no notice of which fields entries have: it would only take time.
pub(crate) fn without_fields<E>(
    mut state: Value,
    change: impl FnOnce(&Value) -> Result<Value, E>,
) -> Result<Value, E> {
    let mut kept = Vec::new();
    if let Some(list) = state.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")) {
        compact(list);
        for entry in list.as_array_mut().into_iter().flatten() {
            let fields = entry.get_mut("fieldsV1").filter(|fields| fields.is_string());
            kept.push(fields.map(Value::take));
        }
    }
    let mut changed = change(&state)?;
    if let Some(list) = changed.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")) {
        for (entry, fields) in list.as_array_mut().into_iter().flatten().zip(kept) {
            if let Some(fields) = fields {
                entry["fieldsV1"] = fields;
            }
        }
    }
    Ok(changed)
}

/// Takes the list out of a state.
pub(crate) fn take(state: &mut Value) -> Option<Value> {
    state.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Puts the list into a state that has none.
pub(crate) fn put(state: &mut Value, list: Option<Value>) {
    if let Some(list) = list {
        crate::object::metadata(state).insert("managedFields".to_owned(), list);
    }
}

/// Whether two lists differ in nothing but times.
pub(crate) fn same_but_times(a: Option<&Value>, b: Option<&Value>) -> bool {
    let (Some(a), Some(b)) = (a.and_then(Value::as_array), b.and_then(Value::as_array)) else {
        return a == b;
    };
    let timeless = |entry: &Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|members| members.remove("time"));
        entry
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || timeless(a) == timeless(b))
}
