//! The schema table of the built-in kinds, and what can be done with an object by its help alone.
//!
//! [`table`] knows groups, resources, kinds and messages as Kubernetes 1.36 publishes them. On it stand: JSON from
//! protobuf and back for every built-in kind ([`to_json`], [`to_protobuf`], and [`decode`], [`encode`] with the
//! envelope around), fields that no kind knows or that are there twice
//! ([`unknown_fields`], [`prune_unknown_fields`], [`strict_errors`]), strategic merge
//! patches ([`strategic_merge`]), how many values a text has ([`count_values`]), and the form in which upstream would give an object back ([`normalize`]).
//!
//! `table.txt` is written by `steersman-schema-tool`; see there for its sources. It is read lazily: the index when the
//! table is first asked for, a message's fields when that message is first used.

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
