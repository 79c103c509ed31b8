//! The trait of all cached objects.

use bytes::Bytes;
use steersman_api::{GroupVersionResource, Meta};

use super::WireError;

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/vnd.kubernetes.protobuf`. Bodies of objects are without the envelope.
    Protobuf,
    /// `application/json`.
    Json,
}

/// The representation in which the informer requests the objects of a kind.
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
/// Cached objects are immutable: a cache returns them only behind an `Arc`.
pub trait Object: Sized + Send + Sync + std::fmt::Debug + 'static {
    /// The representation to request.
    const REPRESENTATION: Representation;

    /// The resource of this kind. `None` for types that can hold any kind.
    fn resource() -> Option<GroupVersionResource>;

    /// The metadata.
    fn meta(&self) -> &Meta;

    /// Decodes one object, without an envelope. Keeps only the groups of fields in `groups`, a mask of
    /// [`Group::BIT`](super::Group::BIT)s.
    ///
    /// # Errors
    /// The bytes are not an object of this kind.
    fn decode(body: &Bytes, encoding: Encoding, groups: u64) -> Result<Self, DecodeError>;

    /// The object that the cache holds if only the metadata can be read.
    fn unreadable(meta: Meta) -> Self;

    /// The same object with other metadata. The cache holds it if the body of a newer state can't be read.
    #[must_use]
    fn with_meta(&self, meta: Meta) -> Self;

    /// An estimate of the memory that this object holds beside itself, in bytes.
    fn heap_bytes(&self) -> usize {
        super::meta_bytes(self.meta())
    }
}

/// The bytes are not an object of the kind.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The protobuf does not fit the declaration.
    #[error("decoding protobuf: {0}")]
    Protobuf(#[from] WireError),
    /// The JSON does not fit the declaration.
    #[error("decoding JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The bytes have no `metadata.name`, so they are not an object.
    #[error("the object has no name")]
    Nameless,
}

/// The result of decoding one object. Bad bytes never look like absence.
#[derive(Debug)]
pub enum Decoded<K> {
    /// The object was decoded.
    Good(K),
    /// Only the metadata could be decoded. The first value stands for the object.
    Unreadable(K, DecodeError),
    /// Not even the metadata could be decoded, so the object's key is unknown.
    Lost(DecodeError),
}

impl<K: Object> Decoded<K> {
    /// Decodes one object as far as possible.
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

    /// The object, or the value that stands for it.
    pub fn object(&self) -> Option<&K> {
        match self {
            Self::Good(object) | Self::Unreadable(object, _) => Some(object),
            Self::Lost(_) => None,
        }
    }
}
