//! Columns of built-in kinds.

use serde_json::{Value, json};

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its head; clients show it in capitals.
    pub(crate) name: &'static str,
    /// As OpenAPI calls types. Cells need not be of it: upstream's often are not.
    pub(crate) kind: &'static str,
    /// `name` for the column by which objects are known.
    pub(crate) format: &'static str,
    /// Zero for what is always shown, one for `-o wide`.
    pub(crate) priority: u8,
}

/// The name of the object.
pub(super) const NAME: Column = Column { name: "Name", kind: "string", format: "name", priority: 0 };
/// How long ago it was made.
pub(super) const AGE: Column = text("Age");
/// The names of a template's containers.
pub(super) const CONTAINERS: Column = wide("Containers");
/// Their images.
pub(super) const IMAGES: Column = wide("Images");
/// Which pods belong to the object.
pub(super) const SELECTOR: Column = wide("Selector");

/// A column of texts.
pub(super) const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0 }
}

/// A column of whole numbers.
pub(super) const fn integer(name: &'static str) -> Column {
    Column { name, kind: "integer", format: "", priority: 0 }
}

/// A column of truth values.
pub(super) const fn boolean(name: &'static str) -> Column {
    Column { name, kind: "boolean", format: "", priority: 0 }
}

/// A column of texts for who asks for more.
pub(super) const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 1 }
}

impl Column {
    /// As `columnDefinitions` has it.
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        })
    }
}
