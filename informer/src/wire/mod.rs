//! From bytes to projections: what of an object is kept, and how it is found in protobuf and in JSON.
//!
//! - [`value`]: what a field can hold, and how each is read in both encodings;
//! - [`projection!`](crate::projection): a message of which only the declared fields are kept;
//! - [`kind!`](crate::kind): a kind with its groups of fields, each kept only if somebody asked for it;
//! - [`object`]: what every cached object can do; [`meta`]: its metadata; [`whole`]: objects kept whole;
//! - [`frames`]: objects out of the byte stream of a list or a watch.

pub mod frames;
pub mod groups;
mod json;
mod kind;
mod message;
pub mod meta;
pub mod object;
pub mod opaque;
mod projection;
pub mod value;
pub mod whole;

#[cfg(test)]
mod tests;

pub use json::{Key, Nullable, ignore, member, nullable};
pub use kind::{Group, Keeps, Kind, Selection, View};
pub use message::{Message, NotAMessage, merge_message, message_from_json};
pub use object::{DecodeError, Decoded, Encoding, Object};
pub use opaque::Opaque;
pub use steersman_api::wire::{Field, Reader, WireError, Writer};
pub use value::{FieldValue, IntOrString};
