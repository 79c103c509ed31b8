//! Splits a watch's body into events.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::buffer::Buffer;
use super::{FrameError, MAX_OBJECT, Splitter, WireError};
use steersman_api::wire::{MAGIC, Reader};

/// An event whose object is not decoded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawEvent {
    /// An object appeared, or came to match the selector.
    Added(Bytes),
    /// An object changed.
    Modified(Bytes),
    /// An object was deleted, or ceased to match the selector; its last state.
    Deleted(Bytes),
    /// An object with nothing but a version, and sometimes an annotation.
    Bookmark(Bytes),
    /// A `Status`. It ends the watch.
    Error(Bytes),
}

impl RawEvent {
    fn new(kind: &str, object: Bytes) -> Result<Self, FrameError> {
        Ok(match kind {
            "ADDED" => Self::Added(object),
            "MODIFIED" => Self::Modified(object),
            "DELETED" => Self::Deleted(object),
            "BOOKMARK" => Self::Bookmark(object),
            "ERROR" => Self::Error(object),
            other => return Err(FrameError::UnknownEvent(other.chars().take(32).collect())),
        })
    }
}

/// Splits a watch in protobuf: frames of a 4-byte big-endian length and a `metav1.WatchEvent`, whose object has an
/// envelope of its own.
#[derive(Debug, Default)]
pub struct ProtobufWatch {
    buffer: Buffer,
}

impl Splitter for ProtobufWatch {
    type Part = RawEvent;

    fn push(&mut self, piece: Bytes) {
        self.buffer.push(piece);
    }

    fn next(&mut self) -> Result<Option<RawEvent>, FrameError> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| WireError::Truncated)?;
        if length > MAX_OBJECT {
            return Err(FrameError::TooLarge(length));
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let _ = self.buffer.split_to(4);
        let frame = self.buffer.split_to(length);
        event(&frame).map(Some)
    }

    fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(FrameError::Truncated) }
    }
}

/// A `WatchEvent`: its type (1) and a `RawExtension` (2), whose bytes (1) are the object's envelope.
fn event(frame: &Bytes) -> Result<RawEvent, FrameError> {
    let (mut kind, mut object) = ("", Bytes::new());
    let mut reader = Reader::new(frame);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => kind = field.text()?,
            2 => {
                let mut extension = field.message()?;
                while let Some(field) = extension.field()? {
                    if field.number == 1 {
                        object = frame.slice_ref(bare(field.bytes()?));
                    }
                }
            }
            _ => {}
        }
    }
    RawEvent::new(kind, object)
}

/// The object within its envelope. If the envelope can't be read, returns the bytes unchanged, so that the decoder refuses
/// this object alone, and the watch goes on.
fn bare(object: &[u8]) -> &[u8] {
    if object.starts_with(MAGIC) {
        steersman_api::wire::unwrap(object).map_or(object, |e| e.raw)
    } else {
        object
    }
}

/// Splits a watch in JSON: one event per line, with the members `type` and `object`.
#[derive(Debug, Default)]
pub struct JsonWatch {
    buffer: Buffer,
    /// The part of the buffer before this offset has no newline.
    searched: usize,
}

impl Splitter for JsonWatch {
    type Part = RawEvent;

    fn push(&mut self, piece: Bytes) {
        self.buffer.push(piece);
    }

    fn next(&mut self) -> Result<Option<RawEvent>, FrameError> {
        #[derive(Deserialize)]
        struct Event<'a> {
            r#type: String,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        loop {
            let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                let length = self.buffer.len();
                return if length > MAX_OBJECT { Err(FrameError::TooLarge(length)) } else { Ok(None) };
            };
            let line = self.buffer.split_to(self.searched + end + 1);
            self.searched = 0;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event: Event<'_> = serde_json::from_slice(&line)
                .map_err(|e| FrameError::Json("expected a watch event", e.column()))?;
            return RawEvent::new(&event.r#type, line.slice_ref(event.object.get().as_bytes())).map(Some);
        }
    }

    fn finish(&self) -> Result<(), FrameError> {
        let rest = self.buffer.iter().any(|byte| !byte.is_ascii_whitespace());
        if rest { Err(FrameError::Truncated) } else { Ok(()) }
    }
}
