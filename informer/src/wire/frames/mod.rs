//! Objects out of the byte stream of a list or of a watch, each as soon as its last byte is there.
//!
//! Neither body is ever held whole: a list of a hundred thousand pods needs the room of its largest pod.

mod json_list;
mod protobuf_list;
mod watch;

use bytes::Bytes;

pub use json_list::JsonList;
pub use protobuf_list::ProtobufList;
pub use watch::{JsonWatch, ProtobufWatch, RawEvent};

use super::WireError;

/// The largest object that is taken in; etcd refuses what is above 1.5 MiB, aggregated servers may allow more.
pub const MAX_OBJECT: usize = 64 << 20;

/// What a list's body is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The list's own metadata, before or after the items.
    Meta(Bytes),
    /// One object; in protobuf without an envelope.
    Item(Bytes),
}

/// A stream that is not what it should be: the connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Protobuf that can't be split.
    #[error("splitting protobuf: {0}")]
    Protobuf(#[from] WireError),
    /// JSON that can't be split.
    #[error("splitting JSON: {0} at byte {1}")]
    Json(&'static str, usize),
    /// The body ended too soon.
    #[error("the body ended early")]
    Truncated,
    /// Larger than [`MAX_OBJECT`].
    #[error("an object of {0} bytes is larger than is taken in")]
    TooLarge(usize),
    /// An event of no known type.
    #[error("a watch event has the unknown type {0:?}")]
    UnknownEvent(String),
}

/// Splits a body that arrives in pieces.
pub trait Splitter: Send {
    /// What it is split into.
    type Part;

    /// Takes in the next piece of the body.
    fn push(&mut self, piece: &[u8]);

    /// The next part, or `None` if more of the body is needed for it.
    ///
    /// # Errors
    /// A body that can't be split; nothing more can be had from it.
    fn next(&mut self) -> Result<Option<Self::Part>, FrameError>;

    /// To be asked when the body has ended.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if it ended within a part.
    fn finish(&self) -> Result<(), FrameError>;
}

#[cfg(test)]
mod tests;
