//! Decodes the kept groups of one object, and reads each part of the object once for all of them.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::message::Message;
use super::{DecodeError, Encoding, Field, FieldValue, Key, Reader, WireError, field_bit, member, nullable};

/// A set of groups, as a mask of their [`Group::BIT`](super::Group::BIT)s.
pub type GroupSet = u64;

/// The bit of the metadata, which is kept of every object. The groups of a kind have the lower bits.
pub const META: GroupSet = 1 << 63;

/// Where a group looks into an object.
pub struct Source {
    /// The number of the object's field in protobuf.
    pub number: u32,
    /// The name of the object's member in JSON.
    pub name: &'static str,
    /// The group's bit.
    pub group: GroupSet,
    /// The fields of that message that the group looks at: its [`FieldValue::FIELDS`].
    pub fields: u64,
}

/// The groups of one object while it is decoded. [`kind!`](crate::kind) implements it.
pub trait Groups {
    /// Where each group looks, the metadata included.
    const SOURCES: &'static [Source];

    /// Calls `visit` with each of those groups among `groups` that are kept.
    ///
    /// # Errors
    /// The first error of `visit`.
    fn visit<V: Visit>(&mut self, groups: GroupSet, visit: &mut V) -> Result<(), V::Error>;
}

/// What is done to each group of a set.
pub trait Visit {
    /// How it fails.
    type Error;

    /// Does it to one group, whose bit is `bit`.
    ///
    /// # Errors
    /// The implementation says when.
    fn group<G: FieldValue>(&mut self, bit: GroupSet, group: &mut G) -> Result<(), Self::Error>;
}

/// Decodes an object. `kept` are the groups that `groups` keeps.
///
/// # Errors
/// The bytes are not an object of the kind.
pub fn decode(
    groups: &mut impl Groups,
    kept: GroupSet,
    body: &Bytes,
    encoding: Encoding,
) -> Result<(), DecodeError> {
    let kept = kept | META;
    match encoding {
        Encoding::Protobuf => decode_protobuf(groups, kept, Reader::new(body))?,
        Encoding::Json => {
            let mut json = serde_json::Deserializer::from_slice(body);
            json.deserialize_map(Object { groups, kept })?;
            json.end()?;
        }
    }
    Ok(())
}

/// The groups that look into the field of an object for which `matches` is true.
fn looking<G: Groups>(matches: impl Fn(&Source) -> bool) -> GroupSet {
    G::SOURCES.iter().filter(|source| matches(source)).fold(0, |set, source| set | source.group)
}

/// The fields that any of these groups looks at. Most fields of a pod interest none of its 28 groups.
fn fields_of<G: Groups>(groups: GroupSet) -> u64 {
    G::SOURCES.iter().filter(|source| source.group & groups != 0).fold(0, |all, source| all | source.fields)
}

fn decode_protobuf<G: Groups>(
    groups: &mut G,
    kept: GroupSet,
    mut object: Reader<'_>,
) -> Result<(), WireError> {
    while let Some(field) = object.field()? {
        let looking = kept & looking::<G>(|source| source.number == field.number);
        if looking == 0 {
            continue;
        }
        let mut whole = MergeWhole { field, messages: 0 };
        groups.visit(looking, &mut whole)?;
        if whole.messages != 0 {
            let fields = fields_of::<G>(whole.messages);
            let mut message = field.message()?;
            while let Some(field) = message.field()? {
                if fields & field_bit(field.number) != 0 {
                    groups.visit(whole.messages, &mut MergeField(field))?;
                }
            }
        }
    }
    Ok(())
}

/// Merges a field of the object into the groups that need the whole field. Collects the others.
struct MergeWhole<'a> {
    field: Field<'a>,
    messages: GroupSet,
}

impl Visit for MergeWhole<'_> {
    type Error = WireError;
    fn group<G: FieldValue>(&mut self, bit: GroupSet, group: &mut G) -> Result<(), WireError> {
        if group.as_message().is_some() {
            self.messages |= bit;
            return Ok(());
        }
        group.merge(self.field)
    }
}

/// Merges a field of a message into groups that look into the message.
struct MergeField<'a>(Field<'a>);

impl Visit for MergeField<'_> {
    type Error = WireError;
    fn group<G: FieldValue>(&mut self, _: GroupSet, group: &mut G) -> Result<(), WireError> {
        group.as_message().map_or(Ok(()), |message| message.merge_field(self.0))
    }
}

/// Reads an object in JSON.
struct Object<'a, G> {
    groups: &'a mut G,
    kept: GroupSet,
}

impl<'de, G: Groups> Visitor<'de> for Object<'_, G> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Key<'de>>()? {
            let looking = self.kept & looking::<G>(|source| source.name == &*name);
            match looking.count_ones() {
                0 => _ = map.next_value::<IgnoredAny>()?,
                1 => map.next_value_seed(Only { groups: &mut *self.groups, group: looking })?,
                _ => map.next_value_seed(Shared { groups: &mut *self.groups, looking })?,
            }
        }
        Ok(())
    }
}

/// Reads a member that only one group looks into.
struct Only<'a, G> {
    groups: &'a mut G,
    group: GroupSet,
}

impl<'de, G: Groups> DeserializeSeed<'de> for Only<'_, G> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        struct Set<'de, D>(Option<D>, PhantomData<&'de ()>);
        impl<'de, D: Deserializer<'de>> Visit for Set<'de, D> {
            type Error = D::Error;
            fn group<T: FieldValue>(&mut self, _: GroupSet, group: &mut T) -> Result<(), D::Error> {
                if let Some(value) = self.0.take() {
                    *group = nullable(value)?;
                }
                Ok(())
            }
        }
        self.groups.visit(self.group, &mut Set(Some(value), PhantomData))
    }
}

/// Reads a member that several groups look into.
struct Shared<'a, G> {
    groups: &'a mut G,
    looking: GroupSet,
}

impl<'de, G: Groups> DeserializeSeed<'de> for Shared<'_, G> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        let mut messages = Messages(0);
        let Ok(()) = self.groups.visit(self.looking, &mut messages);
        if messages.0 == self.looking {
            return value.deserialize_option(self);
        }
        // A group that needs the whole member can't share its one reading.
        let raw = <&RawValue>::deserialize(value)?;
        self.groups.visit(self.looking, &mut SetFromRaw(raw)).map_err(D::Error::custom)
    }
}

impl<'de, G: Groups> Visitor<'de> for Shared<'_, G> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }
    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_map(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Key<'de>>()? {
            let mut having = Having { name: &name, groups: 0 };
            let Ok(()) = self.groups.visit(self.looking, &mut having);
            let (groups, having) = (&mut *self.groups, having.groups);
            match having.count_ones() {
                0 => _ = map.next_value::<IgnoredAny>()?,
                1 => map.next_value_seed(OnlyMember { groups, group: having, name: &name })?,
                _ => {
                    let raw = map.next_value::<&RawValue>()?;
                    groups
                        .visit(having, &mut MergeRawMember { name: &name, raw })
                        .map_err(A::Error::custom)?;
                }
            }
        }
        Ok(())
    }
}

/// Collects the groups that are messages.
struct Messages(GroupSet);

impl Visit for Messages {
    type Error = std::convert::Infallible;
    fn group<G: FieldValue>(&mut self, bit: GroupSet, group: &mut G) -> Result<(), Self::Error> {
        if group.as_message().is_some() {
            self.0 |= bit;
        }
        Ok(())
    }
}

/// Collects the groups that declare a member.
struct Having<'a> {
    name: &'a str,
    groups: GroupSet,
}

impl Visit for Having<'_> {
    type Error = std::convert::Infallible;
    fn group<G: FieldValue>(&mut self, bit: GroupSet, group: &mut G) -> Result<(), Self::Error> {
        if group.as_message().is_some_and(|message| message.has_member(self.name)) {
            self.groups |= bit;
        }
        Ok(())
    }
}

/// Sets groups from a member of the object that was split off before.
struct SetFromRaw<'a>(&'a RawValue);

impl Visit for SetFromRaw<'_> {
    type Error = serde_json::Error;
    fn group<G: FieldValue>(&mut self, _: GroupSet, group: &mut G) -> Result<(), serde_json::Error> {
        *group = member(self.0)?;
        Ok(())
    }
}

/// Reads a member of a message that only one group declares.
struct OnlyMember<'a, G> {
    groups: &'a mut G,
    group: GroupSet,
    name: &'a str,
}

impl<'de, G: Groups> DeserializeSeed<'de> for OnlyMember<'_, G> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        struct MergeMember<'a, 'de, D> {
            name: &'a str,
            value: Option<D>,
            input: PhantomData<&'de ()>,
        }
        impl<'de, D: Deserializer<'de>> Visit for MergeMember<'_, 'de, D> {
            type Error = D::Error;
            fn group<T: FieldValue>(&mut self, _: GroupSet, group: &mut T) -> Result<(), D::Error> {
                match (group.as_message(), self.value.take()) {
                    (Some(message), Some(value)) => message.merge_member(self.name, value),
                    _ => Ok(()),
                }
            }
        }
        let mut merge = MergeMember { name: self.name, value: Some(value), input: PhantomData };
        self.groups.visit(self.group, &mut merge)
    }
}

/// Merges a member of a message, split off before, into several groups that declare it.
struct MergeRawMember<'a> {
    name: &'a str,
    raw: &'a RawValue,
}

impl Visit for MergeRawMember<'_> {
    type Error = serde_json::Error;
    fn group<G: FieldValue>(&mut self, _: GroupSet, group: &mut G) -> Result<(), serde_json::Error> {
        let mut value = serde_json::Deserializer::from_str(self.raw.get());
        group.as_message().map_or(Ok(()), |message| message.merge_member(self.name, &mut value))
    }
}
