//! The schema table of the built-in kinds, and the functions that work on objects of every kind by means of it.
//!
//! [`table`] has the groups, resources, kinds and messages that Kubernetes 1.36 publishes. The functions:
//! - [`to_json`] and [`to_protobuf`] convert objects between JSON and protobuf. [`decode`] and [`encode`] do so
//!   with the protobuf envelope.
//! - [`unknown_fields`], [`prune_unknown_fields`] and [`strict_errors`] find unknown and duplicate fields.
//! - [`strategic_merge`] applies strategic merge patches.
//! - [`normalize`] brings an object into the form in which upstream's API server would return it.
//! - [`count_values`] bounds the memory that a JSON text would take once parsed.
//!
//! The program `steersman-schema-tool` writes `table.txt`; its documentation names the sources. This module parses the
//! index of the table on the first call of [`table`], and the fields of a message on the first use of that message.

mod decode;
mod discovery;
mod encode;
mod error;
mod kind;
mod message;
mod normalize;
mod path;
mod special;
mod strategic;
mod strict;
mod table;
mod unknown;
mod values;

#[cfg(test)]
mod tests;

pub use decode::{decode, to_json, to_json_within};
pub use discovery::{ApiGroupVersion, Resource, Scope, Subresource};
pub use encode::{encode, to_protobuf};
pub use error::TranscodeError;
pub use kind::Kind;
pub use message::{Field, ListType, Message, Omit, PatchStrategy, Shape, Type, Union};
pub use normalize::{normalize, normalize_within};
pub use strategic::{PatchError, strategic_merge};
pub use strict::{has_duplicates, strict_errors};
pub use table::{Table, table};
pub use unknown::{prune_unknown_fields, unknown_fields};
pub use values::count_values;
