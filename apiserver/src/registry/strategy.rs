//! What is particular to a kind.

use jiff::Timestamp;
use serde_json::Value;

use super::Resource;
use crate::field::FieldError;
use crate::names::NameRule;
use crate::object;
use crate::refusal::Result;
use crate::store::Store;

/// Facts about a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// What its names may look like.
    pub(crate) names: NameRule,
    /// `metadata.generation` counts changes of everything but metadata and status.
    pub(crate) generation: bool,
    /// An update without a version overwrites whatever is there.
    pub(crate) unconditional_update: bool,
    /// A PUT to a name that is free creates.
    pub(crate) create_on_update: bool,
    /// A delete answers with the object's last state instead of a Status.
    pub(crate) returns_deleted: bool,
    /// A new object may bring its status along, though status is written apart later.
    pub(crate) status_on_create: bool,
    /// What becomes of dependents when the client does not say.
    pub(crate) collection: Collection,
}

/// What garbage collection does with an object's dependents by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collection {
    /// They go too.
    Delete,
    /// They stay.
    Orphan,
    /// Deletion never waits for the collector, whatever the client says.
    Unsupported,
}

impl Traits {
    /// What most kinds are like.
    pub(crate) const USUAL: Self = Self {
        names: NameRule::Subdomain,
        generation: false,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        status_on_create: false,
        collection: Collection::Delete,
    };

    /// As [`USUAL`](Self::USUAL), with a generation.
    pub(crate) const COUNTED: Self = Self { generation: true, ..Self::USUAL };
}

/// What a strategy may look at besides the object.
pub(crate) struct Context<'a> {
    /// What the wall clock says.
    pub(crate) now: Timestamp,
    /// For rules that involve other objects (priority classes, service addresses).
    pub(crate) store: &'a Store,
    /// What is written.
    pub(crate) resource: &'a Resource,
    /// The subresource it is written through, or empty.
    pub(crate) subresource: &'a str,
}

/// The rules of a kind.
///
/// Objects are in their JSON form, and fit the schema of the kind. The order is upstream's: `default` on every object
/// that comes in, then `prepare_*`, then `validate_*` on what `prepare` left.
pub(crate) trait Strategy: Send + Sync {
    /// Fills in what was not said.
    fn default(&self, _object: &mut Value) {}

    /// Drops what the client may not set and adds what the server decides. Generation and status are seen to already.
    ///
    /// # Errors
    /// What can't be created whatever the validation says (an address range that is exhausted).
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Puts back what an update may not touch. Generation and status are seen to already.
    ///
    /// # Errors
    /// As [`prepare_for_create`](Self::prepare_for_create).
    fn prepare_for_update(&self, _context: &Context<'_>, _object: &mut Value, _old: &Value) -> Result<()> {
        Ok(())
    }

    /// What is wrong with a new object.
    fn validate(&self, _context: &Context<'_>, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with an update; by default what is wrong with the new state.
    fn validate_update(&self, context: &Context<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(context, object)
    }

    /// Keeps of a write through a subresource (see the context) only what that may change: by default metadata and the
    /// member of the subresource's name.
    fn prepare_through(&self, context: &Context<'_>, object: &mut Value, old: &Value) {
        keep_through(context, object, old);
    }

    /// What is wrong with a write through a subresource.
    fn validate_through(&self, _context: &Context<'_>, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What everybody is told who writes that object.
    fn warning(&self, _object: &Value) -> Option<&'static str> {
        None
    }

    /// The fields that objects can be selected by, besides `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether objects can be selected by that field in that version of the resource.
    fn selects_by(&self, _resource: &Resource, field: &str) -> bool {
        self.selectable_fields().contains(&field)
    }

    /// The value of a selectable field: the text at that path unless the kind says otherwise.
    fn field(&self, object: &Value, field: &str) -> String {
        object::text_at(object, field)
    }

    /// How long the object is given after a delete, when `asked` is what the client said (in seconds).
    /// `None`: the kind knows no grace, the object goes at once.
    fn grace(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether something besides `metadata.finalizers` holds an object that shall go.
    fn holds(&self, _object: &Value) -> bool {
        false
    }

    /// Notes on the object that it was marked as going.
    fn marked(&self, _object: &mut Value) {}

    /// An object that is stored as `from`, in the form of `to`.
    fn convert(&self, _from: &Resource, _to: &Resource, value: &Value) -> Value {
        value.clone()
    }
}

/// A kind without rules of its own.
pub(crate) struct Plain;

impl Strategy for Plain {}

/// Keeps of a write through a subresource metadata and the member of the subresource's name.
pub(crate) fn keep_through(context: &Context<'_>, object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    for name in ["metadata", context.subresource] {
        object::carry_over(&mut kept, object, name);
    }
    *object = kept;
}
