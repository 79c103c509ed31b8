//! Events as bytes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steersman_api::schema;

use crate::clock::Clock;
use crate::codec::{self, Format};
use crate::faults::Spoiled;
use crate::refusal::Refusal;
use crate::registry::{ENVELOPE_TAIL, Resource, envelope_head, length_delimited};
use crate::rest::{ObjectShape, object_bytes};
use crate::store::{Form, Object, Store, View};
use crate::table::{Heads, Tabulator};

/// Writes the events of one watch.
pub(crate) struct Encoder {
    /// As what the objects are shown.
    pub(crate) resource: Arc<Resource>,
    /// How they are written.
    pub(crate) shape: ObjectShape,
    /// Makes rows of them, where the client wants a table.
    pub(crate) rows: Option<Rows>,
    /// Objects that the client shall not be able to read.
    pub(crate) spoiled: Spoiled,
    /// Where the objects are from.
    pub(crate) store: Arc<Store>,
}

/// The rows of one watch. Its first event says what the columns are.
pub(crate) struct Rows {
    tabulator: Tabulator,
    clock: Clock,
    heads: Heads,
}

impl Rows {
    /// Ages are told by that clock.
    pub(crate) fn new(tabulator: Tabulator, clock: &Clock) -> Self {
        Self { tabulator, clock: clock.clone(), heads: Heads::Shown }
    }

    fn object(&mut self, object: &Object) -> Vec<Bytes> {
        let heads = std::mem::replace(&mut self.heads, Heads::Left);
        vec![self.tabulator.single(object, self.clock.now(), heads).freeze()]
    }

    /// The row of a bookmark, which is that of an object without a name.
    fn marker(&mut self, marker: &Value) -> Vec<Bytes> {
        let heads = std::mem::replace(&mut self.heads, Heads::Left);
        let layout = &self.tabulator.resource.layout;
        vec![self.tabulator.single_value(layout, marker, self.clock.now(), heads).freeze()]
    }
}

impl Encoder {
    /// An event about a change. Its bytes are shared with all who are told of it in the same words.
    pub(crate) fn change(
        &mut self,
        event: &'static str,
        object: &Arc<Object>,
    ) -> Result<Vec<Bytes>, Refusal> {
        if self.rows.is_some() || self.spoiled.hits(object) {
            return self.object(event, object);
        }
        let ObjectShape { format, view, .. } = self.shape;
        let form = Form { event, format, view, resource: Arc::clone(&self.resource) };
        let make = || self.object_as_it_is(event, object).map(|pieces| joined(&pieces));
        Ok(vec![object.encoded(form, self.store.warm(), make)?])
    }

    /// An event about an object, for this client alone.
    pub(crate) fn object(&mut self, kind: &str, object: &Arc<Object>) -> Result<Vec<Bytes>, Refusal> {
        if let Some(rows) = &mut self.rows {
            let row = rows.object(&object.served_as(&self.resource));
            return Ok(self.framed(kind, row));
        }
        if self.spoiled.hits(object) {
            return self.spoiled_object(kind, &object.served_as(&self.resource));
        }
        self.object_as_it_is(kind, object)
    }

    fn object_as_it_is(&self, kind: &str, object: &Arc<Object>) -> Result<Vec<Bytes>, Refusal> {
        Ok(self.framed(kind, object_bytes(&object.served_as(&self.resource), self.shape)?))
    }

    fn spoiled_object(&self, kind: &str, object: &Object) -> Result<Vec<Bytes>, Refusal> {
        let pieces = match self.shape.format {
            Format::Json => {
                let head = object.resource.json_head(self.shape.view);
                vec![head, Bytes::from_static(b","), self.spoiled.json(object).slice(1..)]
            }
            Format::Protobuf => {
                let raw = self.spoiled.protobuf(object).map_err(Refusal::internal)?;
                let head = object.resource.envelope_head(self.shape.view, raw.len());
                vec![head, raw, Bytes::from_static(ENVELOPE_TAIL)]
            }
        };
        Ok(self.framed(kind, pieces))
    }

    /// A bookmark: an object of the kind that has a version only.
    pub(crate) fn bookmark(&mut self, version: u64) -> Result<Vec<Bytes>, Refusal> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        self.marker(metadata)
    }

    /// The bookmark after what was there when the watch began.
    pub(crate) fn initial_end(&mut self, version: u64) -> Result<Vec<Bytes>, Refusal> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        metadata.insert("annotations".to_owned(), json!({"k8s.io/initial-events-end": "true"}));
        self.marker(metadata)
    }

    fn marker(&mut self, metadata: Map<String, Value>) -> Result<Vec<Bytes>, Refusal> {
        if let Some(rows) = &mut self.rows {
            let (api_version, kind) = self.resource.shown_as(View::Whole);
            let marker = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
            let row = rows.marker(&marker);
            return Ok(self.framed("BOOKMARK", row));
        }
        let pieces = match self.shape.format {
            Format::Json => {
                let head = self.resource.json_head(self.shape.view);
                let mut object = Map::new();
                object.insert("metadata".to_owned(), Value::Object(metadata));
                let mut object = Value::Object(object);
                // Built-in kinds show what they always show, such as an empty spec.
                if let (View::Whole, Some(kind)) = (self.shape.view, self.resource.schema) {
                    object = schema::normalize(kind, &object).map_err(Refusal::internal)?;
                }
                vec![head, Bytes::from_static(b","), codec::json_without_type(&object).slice(1..)]
            }
            Format::Protobuf => {
                let raw = match (self.shape.view, self.resource.schema) {
                    (View::Whole, Some(kind)) => {
                        let mut object = Map::new();
                        object.insert("metadata".to_owned(), Value::Object(metadata));
                        schema::to_protobuf(kind, &Value::Object(object)).map_err(Refusal::internal)?.into()
                    }
                    _ => codec::metadata_to_protobuf(metadata).map_err(Refusal::internal)?,
                };
                let head = self.resource.envelope_head(self.shape.view, raw.len());
                vec![head, raw, Bytes::from_static(ENVELOPE_TAIL)]
            }
        };
        Ok(self.framed("BOOKMARK", pieces))
    }

    /// The last event of a watch that went wrong.
    pub(crate) fn error(&self, refusal: &Refusal) -> Vec<Bytes> {
        let pieces = match self.shape.format {
            Format::Json => vec![codec::json(&refusal.to_json())],
            Format::Protobuf => {
                let raw = refusal.status.to_protobuf();
                let head = envelope_head("v1", "Status", raw.len());
                vec![head, raw.into(), Bytes::from_static(ENVELOPE_TAIL)]
            }
        };
        self.framed("ERROR", pieces)
    }

    fn framed(&self, kind: &str, mut object: Vec<Bytes>) -> Vec<Bytes> {
        match self.shape.format {
            Format::Json => {
                object.insert(0, format!("{{\"type\":\"{kind}\",\"object\":").into());
                object.push(Bytes::from_static(b"}\n"));
            }
            Format::Protobuf => {
                let raw_len: usize = object.iter().map(Bytes::len).sum();
                // RawExtension.raw, within WatchEvent.object.
                let mut raw_head = Vec::with_capacity(6);
                length_delimited(&mut raw_head, 1, raw_len);
                let mut event = Vec::with_capacity(32);
                length_delimited(&mut event, 1, kind.len());
                event.extend_from_slice(kind.as_bytes());
                length_delimited(&mut event, 2, raw_head.len() + raw_len);
                event.extend_from_slice(&raw_head);
                let len = u32::try_from(event.len() + raw_len).unwrap_or(u32::MAX);
                let mut frame = len.to_be_bytes().to_vec();
                frame.extend_from_slice(&event);
                object.insert(0, frame.into());
            }
        }
        object
    }
}

/// As one piece.
fn joined(pieces: &[Bytes]) -> Bytes {
    let mut all = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.into()
}
