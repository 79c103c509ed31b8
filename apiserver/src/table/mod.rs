//! Objects as rows of a table: what `kubectl get` shows.
//!
//! A kind has a [`Layout`]: its columns, and a pure function from an object in its JSON form (and the time) to the cells
//! of its row. Columns, their order and what stands in them are upstream's, cell by cell; the descriptions of the columns,
//! which nobody is shown, are left out. [`Tabulator`] writes rows as one request wants them.

mod access;
mod batch;
mod column;
mod control;
mod core;
mod custom;
mod format;
mod json_path;
mod network;
mod options;
mod pod;
mod scale;
mod storage;
mod tabulator;
mod usage;
mod workload;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use column::Column;
pub(crate) use custom::CustomColumns;
pub(crate) use options::{Include, MetaVersion, TableShape};
pub(crate) use tabulator::{Heads, Tabulator};

/// How objects of a kind are shown.
pub(crate) enum Layout {
    /// A built-in kind.
    BuiltIn(&'static BuiltIn),
    /// A custom resource: the columns that its definition has for this version.
    Custom(CustomColumns),
}

/// The layout of a built-in kind.
pub(crate) struct BuiltIn {
    /// As many as every row has cells.
    pub(crate) columns: &'static [Column],
    /// The cells of an object, which is in the form that it is stored in.
    pub(crate) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// Name and time of creation: kinds without a layout of their own.
static PLAIN: BuiltIn = BuiltIn {
    columns: &[column::NAME, Column { name: "Created At", kind: "date", format: "", priority: 0 }],
    cells: |object, _| vec![format::name(object), format::text(object, "metadata.creationTimestamp")],
};

impl Layout {
    /// Of a built-in kind.
    pub(crate) fn of(group: &str, kind: &str) -> Self {
        let built_in = match group {
            "" | "events.k8s.io" => core::layout(kind).or_else(|| network::layout(kind)),
            "apps" => workload::layout(kind),
            "batch" => batch::layout(kind),
            "autoscaling" | "policy" => scale::layout(kind),
            "networking.k8s.io" | "discovery.k8s.io" => network::layout(kind),
            "storage.k8s.io" => storage::layout(kind),
            "metrics.k8s.io" => usage::layout(kind),
            "rbac.authorization.k8s.io" | "certificates.k8s.io" => access::layout(kind),
            _ => control::layout(kind),
        };
        Self::BuiltIn(built_in.unwrap_or(&PLAIN))
    }

    /// The cells of an object, which is in the form that it is stored in.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::BuiltIn(built_in) => (built_in.cells)(object, now),
            Self::Custom(columns) => columns.cells(object, now),
        }
    }

    /// The columns, as `columnDefinitions` has them.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        match self {
            Self::BuiltIn(built_in) => built_in.columns.iter().map(Column::definition).collect(),
            Self::Custom(columns) => columns.definitions(),
        }
    }
}

/// What a subresource `scale` is shown as.
pub(crate) fn scale() -> Layout {
    Layout::of("autoscaling", "Scale")
}

/// What clients are told of a row besides its cells: a pod that is over.
fn conditions(kind: &str, object: &Value) -> Option<Value> {
    (kind == "Pod").then(|| pod::conditions(object)).flatten()
}
