//! Sets of fields as `FieldsV1` has them: `{"f:data":{".":{},"f:x":{}}}`.

use std::fmt::{self, Write};

use super::element::Element;
use super::set::FieldSet;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

impl FieldSet {
    /// The text of the set, in upstream's order.
    pub(super) fn to_text(&self) -> String {
        let mut out = String::from("{");
        self.write(&mut out, &mut String::new());
        out.push('}');
        out
    }

    fn write(&self, out: &mut String, buffer: &mut String) {
        for node in self.nodes() {
            if !out.ends_with('{') {
                out.push(',');
            }
            buffer.clear();
            node.element.encode(buffer);
            write_quoted(out, buffer);
            out.push_str(":{");
            if node.member && !node.below.is_empty() {
                out.push_str("\".\":{}");
            }
            node.below.write(out, buffer);
            out.push('}');
        }
    }

    /// Reads a set. Leaves out elements of unknown types.
    ///
    /// # Errors
    /// The text is not JSON, or has something else than path elements.
    pub(super) fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        Ok(serde_json::from_str::<Below>(text)?.set)
    }
}

/// Adds a text as JSON has it.
fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\u{0}'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// A key of such an object.
enum Key {
    /// `.`
    Itself,
    Of(Element),
    /// Of an unknown type.
    Unknown,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path element")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
                if text == "." {
                    return Ok(Key::Itself);
                }
                let element = Element::decode(text).map_err(E::custom)?;
                Ok(element.map_or(Key::Unknown, Key::Of))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// An object of path elements, and whether it says that it is a member itself: with `.`, or with nothing at all.
struct Below {
    member: bool,
    set: FieldSet,
}

impl<'de> Deserialize<'de> for Below {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = Below;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of path elements")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Below, A::Error> {
                let (mut member, mut set) = (false, FieldSet::default());
                while let Some(key) = map.next_key::<Key>()? {
                    if let Key::Of(element) = key {
                        let below: Below = map.next_value()?;
                        set.add(element, below.member, below.set);
                    } else {
                        member |= matches!(key, Key::Itself);
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Below { member: member || set.is_empty(), set })
            }
        }

        deserializer.deserialize_map(Elements)
    }
}
