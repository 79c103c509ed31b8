//! What every cached object can do, whatever is kept of it.

use bytes::Bytes;
use steersman_api::{GroupVersionResource, Meta};

use super::WireError;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/vnd.kubernetes.protobuf`. Objects come without the envelope.
    Protobuf,
    /// `application/json`.
    Json,
}

/// Which representation of its objects a kind asks the server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object, in protobuf where the server has it, else in JSON.
    Protobuf,
    /// The object, in JSON.
    Json,
    /// `PartialObjectMetadata`, in protobuf or in JSON.
    Metadata,
}

/// A kind that an informer can cache.
///
/// Nobody can change a cached object: it is only ever handed out behind an `Arc`.
pub trait Object: Sized + Send + Sync + std::fmt::Debug + 'static {
    /// Which representation to ask for.
    const REPRESENTATION: Representation;

    /// Where objects of this kind are served, for kinds that are known when the program is written.
    fn resource() -> Option<GroupVersionResource>;

    /// The metadata.
    fn meta(&self) -> &Meta;

    /// Decodes the bytes of one object, without an envelope. Of the groups of fields only those in `groups` are kept
    /// (a bit each, see [`Group::BIT`](super::Group::BIT)).
    ///
    /// # Errors
    /// Bytes that are no object of this kind.
    fn decode(body: &Bytes, encoding: Encoding, groups: u64) -> Result<Self, DecodeError>;

    /// What stands in the cache for an object of which no more than the metadata can be read.
    fn unreadable(meta: Meta) -> Self;

    /// The same object with other metadata: what stands in the cache for a newer state whose body can't be read.
    #[must_use]
    fn with_meta(&self, meta: Meta) -> Self;
}

/// Bytes that are no object of the kind.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Protobuf that does not fit the declaration.
    #[error("decoding protobuf: {0}")]
    Protobuf(#[from] WireError),
    /// JSON that does not fit it.
    #[error("decoding JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Every object has a name; whatever this is, it could not be found again.
    #[error("the object has no name")]
    Nameless,
}

/// What became of the bytes of one object. Bad bytes never look like absence.
#[derive(Debug)]
pub enum Decoded<K> {
    /// It was read.
    Good(K),
    /// Only its metadata could be read; the first is what stands for it.
    Unreadable(K, DecodeError),
    /// Not even that: nobody can tell which object it was.
    Lost(DecodeError),
}

impl<K: Object> Decoded<K> {
    /// Decodes one object as far as it can be.
    pub fn decode(body: &Bytes, encoding: Encoding, groups: u64) -> Self {
        match K::decode(body, encoding, groups) {
            Ok(object) if object.meta().key.name.is_empty() => Self::Lost(DecodeError::Nameless),
            Ok(object) => Self::Good(object),
            Err(error) => match super::meta::decode(body, encoding) {
                Ok(meta) if !meta.key.name.is_empty() => Self::Unreadable(K::unreadable(meta), error),
                _ => Self::Lost(error),
            },
        }
    }

    /// The object, or what stands for it.
    pub fn object(&self) -> Option<&K> {
        match self {
            Self::Good(object) | Self::Unreadable(object, _) => Some(object),
            Self::Lost(_) => None,
        }
    }
}
