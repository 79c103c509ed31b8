//! What the schema knows at one place of an object.

use super::error::PatchError;
use crate::schema::message::{Field, Message, PatchStrategy, Shape, Type};

/// What the schema knows of the members of an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    /// They are a message's fields.
    Message(&'static Message),
    /// They are entries of a map, or parts of a value that the schema does not look into. Upstream refuses to merge
    /// objects and lists within.
    Opaque,
    /// Nothing: it is a field that the kind does not have, or within one.
    Unknown,
}

impl Scope {
    /// Of the values of a member, and how to merge it.
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

    /// Of the items of a list that the message must have.
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
