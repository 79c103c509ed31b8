//! Encodings of bodies.

use http::{HeaderMap, header};

use crate::codec::Format;
use crate::refusal::{Refusal, Result};
use crate::store::View;
use crate::table::{Include, MetaVersion, TableShape};

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";
/// The media type of protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The encoding.
    pub(crate) format: Format,
    /// The whole objects, or their metadata.
    pub(crate) view: View,
    /// Rows of a table instead; always JSON then.
    pub(crate) table: Option<TableShape>,
}

impl Shape {
    /// The media type of an answer that is one body.
    pub(crate) fn media_type(self) -> &'static str {
        match self.format {
            Format::Json => JSON,
            Format::Protobuf => PROTOBUF,
        }
    }

    /// The media type of an answer that is a watch.
    pub(crate) fn stream_type(self) -> &'static str {
        match self.format {
            Format::Json => JSON,
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// Chooses the first encoding that the client accepts and that can be written. `has_schema`: whether whole objects
/// have a protobuf form; `kind`: whether metadata alone, or a table, makes sense here.
pub(crate) fn answer_shape(headers: &HeaderMap, has_schema: HasSchema, kind: Answered) -> Result<Shape> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    for clause in accept.split(',') {
        let (media, parameters) = clause.split_once(';').unwrap_or((clause, ""));
        let format = match media.trim() {
            "" | "*/*" | "application/*" | JSON => Format::Json,
            PROTOBUF => Format::Protobuf,
            _ => continue,
        };
        let parameter = |name: &str| {
            parameters.split(';').find_map(|pair| {
                let (key, value) = pair.trim().split_once('=')?;
                (key == name).then_some(value)
            })
        };
        if parameter("as") == Some("Table") && kind != Answered::Other {
            let version = match (parameter("g"), parameter("v")) {
                (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
                (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
                _ => continue,
            };
            if format != Format::Json {
                continue;
            }
            let table = Some(TableShape { version, include: Include::default() });
            return Ok(Shape { format, view: View::Whole, table });
        }
        let view = match (parameter("as"), kind) {
            (None, _) => View::Whole,
            (Some("PartialObjectMetadata"), Answered::Object)
            | (Some("PartialObjectMetadataList"), Answered::List)
            // A watch of metadata; clients that list with this name get a list all the same.
            | (Some("PartialObjectMetadata"), Answered::Watch) => View::Metadata,
            // What is not made here: the next clause may do.
            _ => continue,
        };
        if view == View::Metadata
            && !(parameter("g").is_none_or(|g| g == "meta.k8s.io")
                && parameter("v").is_none_or(|v| v == "v1"))
        {
            continue;
        }
        if format == Format::Protobuf && view == View::Whole && has_schema == HasSchema::No {
            continue;
        }
        return Ok(Shape { format, view, table: None });
    }
    Err(Refusal::not_acceptable())
}

/// Whether whole objects have a protobuf form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HasSchema {
    /// Built-in kinds.
    Yes,
    /// Custom resources.
    No,
}

/// What the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// One object.
    Object,
    /// Many.
    List,
    /// A stream of events.
    Watch,
    /// Something that has no metadata of its own.
    Other,
}

/// How a request's body is written.
pub(crate) fn body_format(headers: &HeaderMap) -> Result<Format> {
    match media_type(headers) {
        "" | JSON => Ok(Format::Json),
        PROTOBUF => Ok(Format::Protobuf),
        _ => Err(Refusal::unsupported_media_type(&[JSON, PROTOBUF])),
    }
}

/// The media type of a request's body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.split(';').next().unwrap_or("").trim()
}
