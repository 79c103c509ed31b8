//! The schema of the object that is being patched.

use super::error::PatchError;
use crate::schema::message::{Field, Message, PatchStrategy, Shape, Type};

/// The schema of an object's members.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    /// The fields of this message.
    Message(&'static Message),
    /// The members are entries of a map, or parts of a value that the schema does not describe. Upstream refuses to
    /// merge objects and lists in it.
    Opaque,
    /// The object is a field that the kind does not have, or part of one.
    Unknown,
}

impl Scope {
    /// Returns the schema of a member's values, and how to merge them.
    pub(super) fn member(self, name: &str) -> Result<(Self, PatchStrategy), PatchError> {
        match self {
            Self::Message(message) => Ok(match message.field(name) {
                Some(field) => (Self::within(field), field.patch_strategy()),
                None => (Self::Unknown, PatchStrategy::default()),
            }),
            Self::Opaque => Err(PatchError::NotAStruct),
            Self::Unknown => Ok((Self::Unknown, PatchStrategy::default())),
        }
    }

    /// Like [`Self::member`], for a list. Fails if the message has no such list.
    pub(super) fn list(self, name: &str) -> Result<(Self, PatchStrategy), PatchError> {
        match self {
            Self::Message(message) => match message.field(name) {
                Some(field) if field.shape == Shape::List => self.member(name),
                Some(_) => Err(PatchError::NotAList),
                None => {
                    Err(PatchError::UnknownField { message: message.short_name(), field: name.to_owned() })
                }
            },
            _ => Err(PatchError::NotAStruct),
        }
    }

    fn within(field: &Field) -> Self {
        match (field.shape, field.ty) {
            (Shape::Single | Shape::List, Type::Message(message)) => Self::Message(message),
            _ => Self::Opaque,
        }
    }
}
