//! Splits the byte stream of a list or a watch into objects, each as soon as its last byte has arrived.
//!
//! No body is ever held whole: a list of a hundred thousand pods needs the memory of its largest pod.

mod buffer;
mod json_list;
mod protobuf_list;
mod watch;

use bytes::Bytes;

pub use json_list::JsonList;
pub use protobuf_list::ProtobufList;
pub use watch::{JsonWatch, ProtobufWatch, RawEvent};

use super::WireError;

/// The largest object in bytes that a splitter accepts. etcd refuses objects above 1.5 MiB; aggregated API servers may accept
/// more.
pub const MAX_OBJECT: usize = 64 << 20;

/// A part of a list's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The list's own metadata. It may come before or after the items.
    Meta(Bytes),
    /// One object. In protobuf it has no envelope.
    Item(Bytes),
}

/// The body is malformed. The rest of it can't be split.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The protobuf can't be split.
    #[error("splitting protobuf: {0}")]
    Protobuf(#[from] WireError),
    /// The JSON can't be split.
    #[error("splitting JSON: {0} at byte {1}")]
    Json(&'static str, usize),
    /// The body ended within a part.
    #[error("the body ended early")]
    Truncated,
    /// An object is larger than [`MAX_OBJECT`].
    #[error("an object of {0} bytes is too large")]
    TooLarge(usize),
    /// A watch event has an unknown type.
    #[error("a watch event has the unknown type {0:?}")]
    UnknownEvent(String),
}

/// Splits a body that arrives in pieces.
pub trait Splitter: Send {
    /// The type of the parts.
    type Part;

    /// Appends the next piece of the body.
    fn push(&mut self, piece: Bytes);

    /// The next part, or `None` if it is not complete yet.
    ///
    /// # Errors
    /// The body can't be split. The splitter is of no further use.
    fn next(&mut self) -> Result<Option<Self::Part>, FrameError>;

    /// Checks that the body may end here. The caller calls it when the body has ended.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the body ended within a part.
    fn finish(&self) -> Result<(), FrameError>;
}

#[cfg(test)]
mod tests;
