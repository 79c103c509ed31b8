//! Tables as bytes.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Include, Layout, TableShape, conditions};
use crate::codec;
use crate::registry::Resource;
use crate::store::{Object, View};

/// Writes the rows that one request gets.
pub(crate) struct Tabulator {
    /// As what the objects are shown.
    pub(crate) resource: Arc<Resource>,
    /// In whose form rows are made; the same resource but for versions that upstream converts as well.
    pub(crate) storage: Arc<Resource>,
    /// What the client asked for.
    pub(crate) shape: TableShape,
}

/// Whether a table says what its columns are. Of a watch, only the first one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heads {
    /// It does.
    Shown,
    /// It does not.
    Left,
}

impl Tabulator {
    /// What comes before the rows.
    pub(crate) fn begin(&self, layout: &Layout, meta: &Map<String, Value>, heads: Heads, out: &mut BytesMut) {
        out.put_slice(b"{\"kind\":\"Table\",\"apiVersion\":");
        out.put_slice(&codec::json(&self.shape.version.api_version()));
        out.put_slice(b",\"metadata\":");
        out.put_slice(&codec::json(meta));
        out.put_slice(b",\"columnDefinitions\":");
        match heads {
            Heads::Shown => out.put_slice(&codec::json(&layout.definitions())),
            Heads::Left => out.put_slice(b"null"),
        }
        out.put_slice(b",\"rows\":[");
    }

    /// What comes after them.
    pub(crate) const END: &'static [u8] = b"]}";

    /// The row of an object. `served`: the object as the resource shows it.
    pub(crate) fn row(&self, served: &Object, now: Timestamp, out: &mut BytesMut) {
        let layout = &self.resource.layout;
        let mut value = served.parsed();
        if !Arc::ptr_eq(&self.storage, &served.resource) {
            value = Arc::new(self.storage.convert_from(&served.resource, &value));
        }
        begin_row(&layout.cells(&value, now), conditions(&self.resource.kind, &value).as_ref(), out);
        match self.shape.include {
            Include::None => out.put_slice(b"null"),
            Include::Metadata => {
                out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":");
                out.put_slice(&codec::json(&self.shape.version.api_version()));
                served.json_tail(View::Metadata).iter().for_each(|part| out.put_slice(part));
            }
            Include::Object => {
                out.put_slice(&self.resource.json_head(View::Whole));
                served.json_tail(View::Whole).iter().for_each(|part| out.put_slice(part));
            }
        }
        out.put_slice(b"}");
    }

    /// The row of an object that no store has: a scale, a bookmark. `shown`: what comes with it.
    pub(crate) fn value_row(&self, layout: &Layout, value: &Value, now: Timestamp, out: &mut BytesMut) {
        begin_row(&layout.cells(value, now), None, out);
        match self.shape.include {
            Include::None => out.put_slice(b"null"),
            Include::Metadata => {
                out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":");
                out.put_slice(&codec::json(&self.shape.version.api_version()));
                out.put_slice(b",\"metadata\":");
                out.put_slice(&codec::json(&value["metadata"]));
                out.put_slice(b"}");
            }
            Include::Object => out.put_slice(&codec::json(value)),
        }
        out.put_slice(b"}");
    }

    /// A table of one object, as an answer or an event has it.
    pub(crate) fn single(&self, served: &Object, now: Timestamp, heads: Heads) -> BytesMut {
        let mut out = BytesMut::new();
        let version = served.version_told().map(Value::from);
        self.begin(&self.resource.layout, &version_only(version), heads, &mut out);
        self.row(served, now, &mut out);
        out.put_slice(Self::END);
        out
    }

    /// A table of something that no store has.
    pub(crate) fn single_value(
        &self,
        layout: &Layout,
        value: &Value,
        now: Timestamp,
        heads: Heads,
    ) -> BytesMut {
        let mut out = BytesMut::new();
        let version = value["metadata"].get("resourceVersion").cloned();
        self.begin(layout, &version_only(version), heads, &mut out);
        self.value_row(layout, value, now, &mut out);
        out.put_slice(Self::END);
        out
    }
}

fn version_only(version: Option<Value>) -> Map<String, Value> {
    version.map(|version| ("resourceVersion".to_owned(), version)).into_iter().collect()
}

fn begin_row(cells: &[Value], conditions: Option<&Value>, out: &mut BytesMut) {
    out.put_slice(b"{\"cells\":");
    out.put_slice(&codec::json(&cells));
    if let Some(conditions) = conditions {
        out.put_slice(b",\"conditions\":");
        out.put_slice(&codec::json(conditions));
    }
    out.put_slice(b",\"object\":");
}
