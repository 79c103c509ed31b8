//! An object's bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::codec;

/// An object's JSON without `apiVersion` and `kind`, as clients get it, and where in it is what is asked for all the time:
/// nobody reads the whole for that.
#[derive(Clone)]
pub(super) struct Body {
    json: Bytes,
    spans: Spans,
}

/// Where the values of some members are in the bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spans {
    /// Of the object.
    metadata: Span,
    /// These and all below are of metadata, and within its span.
    labels: Span,
    deletion_timestamp: Span,
    resource_version: Span,
    uid: Span,
}

/// From here to there; empty where there is no such member. No object comes near 4 GiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    from: u32,
    to: u32,
}

impl Span {
    fn new(range: Range<usize>) -> Self {
        let narrow = |at| u32::try_from(at).expect("an object must be smaller than 4 GiB");
        Self { from: narrow(range.start), to: narrow(range.end) }
    }

    fn range(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }

    fn is_empty(self) -> bool {
        self.from == self.to
    }

    /// Where it is once `before` has become `after`, both of which begin at the same place.
    fn moved(self, before: Self, after: Self) -> Self {
        let moved = |at: u32| if at >= before.to { at - before.to + after.to } else { at };
        Self { from: moved(self.from), to: moved(self.to) }
    }
}

impl Spans {
    /// That of a member of metadata, if it is one that is asked for.
    fn of_metadata(&mut self, member: &str) -> Option<&mut Span> {
        match member {
            "labels" => Some(&mut self.labels),
            "deletionTimestamp" => Some(&mut self.deletion_timestamp),
            "resourceVersion" => Some(&mut self.resource_version),
            "uid" => Some(&mut self.uid),
            _ => None,
        }
    }
}

impl Body {
    /// Writes the members of an object.
    pub(super) fn write(object: &Map<String, Value>) -> Self {
        // The half of a small pod: few are smaller, and what is too much is given back once the version is known.
        let mut out = Vec::with_capacity(2048);
        let mut spans = Spans::default();
        let mut begin = b'{';
        for (name, value) in object.iter().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"))
        {
            write_name(std::mem::replace(&mut begin, b','), name, &mut out);
            let from = out.len();
            match value {
                Value::Object(metadata) if name == "metadata" => {
                    write_metadata(metadata, &mut out, &mut spans);
                    spans.metadata = Span::new(from..out.len());
                }
                value => codec::write_json(value, &mut out),
            }
        }
        end(begin, &mut out);
        Self { json: out.into(), spans }
    }

    /// Takes over what [`json`](Self::json) was in another process.
    ///
    /// # Errors
    /// It is no JSON object.
    pub(super) fn read(json: Bytes) -> serde_json::Result<Self> {
        let mut spans = Spans::default();
        let mut metadata: Option<&str> = None;
        each_member(&json, |name, value| {
            if name == "metadata" {
                metadata = Some(value);
            }
        })?;
        if let Some(metadata) = metadata.filter(|metadata| metadata.starts_with('{')) {
            let within = |part: &str| {
                let from = part.as_ptr().addr() - json.as_ptr().addr();
                Span::new(from..from + part.len())
            };
            spans.metadata = within(metadata);
            each_member(metadata.as_bytes(), |name, value| {
                if let Some(span) = spans.of_metadata(&name) {
                    *span = within(value);
                }
            })?;
        }
        Ok(Self { json, spans })
    }

    /// The same with another `metadata.resourceVersion`, which must be there.
    pub(super) fn at_version(&self, version: u64) -> Self {
        let before = self.spans.resource_version;
        debug_assert!(!before.is_empty(), "what is stored must have a version");
        let text = format!("\"{version}\"");
        let Range { start, end } = before.range();
        let mut json = Vec::with_capacity(self.json.len() - (end - start) + text.len());
        json.extend_from_slice(&self.json[..start]);
        json.extend_from_slice(text.as_bytes());
        json.extend_from_slice(&self.json[end..]);
        let after = Span::new(start..start + text.len());
        let moved = |span: Span| span.moved(before, after);
        let Spans { metadata, labels, deletion_timestamp, resource_version: _, uid } = self.spans;
        let spans = Spans {
            metadata: moved(metadata),
            labels: moved(labels),
            deletion_timestamp: moved(deletion_timestamp),
            resource_version: after,
            uid: moved(uid),
        };
        Self { json: json.into(), spans }
    }

    /// All of it.
    pub(super) fn json(&self) -> &Bytes {
        &self.json
    }

    /// `metadata`; an empty object where there is none.
    pub(super) fn metadata(&self) -> Bytes {
        if self.spans.metadata.is_empty() {
            return Bytes::from_static(b"{}");
        }
        self.json.slice(self.spans.metadata.range())
    }

    /// `metadata.uid`.
    pub(super) fn uid(&self) -> Option<&str> {
        self.text(self.spans.uid)
    }

    /// `metadata.resourceVersion`.
    pub(super) fn version(&self) -> Option<&str> {
        self.text(self.spans.resource_version)
    }

    /// `metadata.deletionTimestamp`.
    pub(super) fn deletion_timestamp(&self) -> Option<&str> {
        self.text(self.spans.deletion_timestamp)
    }

    /// The value of a label. Labels are words without anything that JSON would escape.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let mut found = None;
        let labels = &self.json[self.spans.labels.range()];
        let read = each_member(labels, |name, value| {
            if name == key {
                found = text_of(value);
            }
        });
        read.ok().and(found)
    }

    fn text(&self, span: Span) -> Option<&str> {
        std::str::from_utf8(&self.json[span.range()]).ok().and_then(text_of)
    }
}

/// What is between the quotes of a JSON text in which nothing is escaped.
fn text_of(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

fn write_metadata(metadata: &Map<String, Value>, out: &mut Vec<u8>, spans: &mut Spans) {
    let mut begin = b'{';
    for (name, value) in metadata {
        write_name(std::mem::replace(&mut begin, b','), name, out);
        let from = out.len();
        codec::write_metadata_member(name, value, out);
        if let Some(span) = spans.of_metadata(name) {
            *span = Span::new(from..out.len());
        }
    }
    end(begin, out);
}

fn write_name(begin: u8, name: &str, out: &mut Vec<u8>) {
    out.push(begin);
    codec::write_json(&name, out);
    out.push(b':');
}

/// Ends an object. `begin`: what the next member would have begun with.
fn end(begin: u8, out: &mut Vec<u8>) {
    if begin == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}

/// Calls `see` with each member of a JSON object: its name, and the text of its value.
fn each_member<'de>(json: &'de [u8], see: impl FnMut(Cow<'de, str>, &'de str)) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Members(see).deserialize(&mut reader)?;
    reader.end()
}

struct Members<F>(F);

impl<'de, F: FnMut(Cow<'de, str>, &'de str)> DeserializeSeed<'de> for Members<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Cow<'de, str>, &'de str)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        /// Borrowed, unless something in it is escaped.
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &RawValue>()? {
            (self.0)(name, value.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(object: &Value) -> Body {
        Body::write(object.as_object().unwrap())
    }

    #[test]
    fn a_body_is_what_the_codec_writes_and_knows_where_things_are_in_it() {
        let metadata = json!({
            "name": "a\"b", "uid": "u-1", "resourceVersion": "", "labels": {"app": "web", "example.com/x": ""},
            "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"uid": "no", "labels": "{}"},
            "managedFields": [{"manager": "m", "fieldsV1": "{\"f:data\":{}}"}],
        });
        for object in [
            json!({"metadata": metadata, "kind": "A", "spec": {"metadata": 1}, "data": {"k\n": "\u{1f600}"}}),
            json!({"apiVersion": "v1", "metadata": {}}),
            json!({"metadata": {"resourceVersion": "7"}}),
            json!({"a\"b": 1}),
            json!({}),
        ] {
            let body = written(&object);
            assert_eq!(body.json(), &codec::json_without_type(&object));
            let again = Body::read(body.json().clone()).unwrap();
            assert_eq!(again.spans, body.spans, "{object}");
            let expected = |name: &str| object["metadata"].get(name).and_then(Value::as_str);
            assert_eq!(body.uid(), expected("uid"));
            assert_eq!(body.version(), expected("resourceVersion"));
            assert_eq!(body.deletion_timestamp(), expected("deletionTimestamp"));
            for label in ["app", "example.com/x", "none"] {
                let labels = &object["metadata"]["labels"];
                assert_eq!(body.label(label), labels.get(label).and_then(Value::as_str));
            }
        }
    }

    #[test]
    fn another_version_is_put_in_where_the_old_one_was() {
        let of = |version: &str| json!({"metadata": {"labels": {"l": "v"}, "resourceVersion": version, "uid": "u"}, "spec": {}});
        let mut body = written(&of(""));
        for version in [7, 123_456, 8] {
            body = body.at_version(version);
            let expected = written(&of(&version.to_string()));
            assert_eq!((body.json(), body.spans), (expected.json(), expected.spans));
        }
    }

    #[test]
    fn what_is_no_object_is_not_taken_over() {
        for json in ["", "[]", "{\"metadata\":{}", "{\"a\":1}}", "\u{fffd}"] {
            assert!(Body::read(Bytes::copy_from_slice(json.as_bytes())).is_err(), "{json}");
        }
    }
}
