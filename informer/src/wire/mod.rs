//! Decodes bytes to projections: which fields of an object are kept, and where protobuf and JSON have them.
//!
//! - [`value`]: the types of fields, each with a decoder for both encodings;
//! - [`projection!`](crate::projection): declares a message of which only some fields are kept;
//! - [`kind!`](crate::kind): declares a kind with its groups of fields, each kept only if a user of the cache asks for it;
//! - [`groups`]: decodes an object, reading each part of it once for all kept groups;
//! - [`packed`]: stores the groups of a cached object;
//! - [`object`]: the trait of all cached objects; [`meta`]: metadata; [`whole`]: objects kept whole;
//! - [`frames`]: splits the byte stream of a list or a watch into objects.

pub mod frames;
pub mod groups;
mod json;
mod kind;
mod message;
pub mod meta;
pub mod object;
pub mod opaque;
pub mod packed;
mod projection;
mod size;
pub mod value;
pub mod whole;

#[cfg(test)]
mod tests;

pub use json::{Key, Nullable, ignore, member, nullable};
pub use kind::{Group, Keeps, Kind, Selection, View};
pub use message::{Message, NotAMessage, merge_message, message_from_json};
pub use object::{DecodeError, Decoded, Encoding, Object};
pub use opaque::Opaque;
pub use size::{meta_bytes, text_bytes};
pub use steersman_api::wire::{Field, Reader, WireError, Writer};
pub use value::{FieldValue, IntOrString, field_bit};
