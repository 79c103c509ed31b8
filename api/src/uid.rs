//! Uids of objects.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An object's `metadata.uid`. It tells an object from a later one of the same name.
///
/// Holds a UUID, which is what API servers assign, in sixteen bytes, and any other text as it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    /// Whether this is the empty text, which stands for a missing uid.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    /// Makes a random uid.
    pub fn random() -> Self {
        Self(Repr::Uuid(uuid::Uuid::new_v4().into_bytes()))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Repr::Text("".into()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        // Packs only the form that `Display` writes, so that any other text stays as it is.
        let canonical = |byte: u8| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match uuid::Uuid::try_parse(text) {
            Ok(uuid) if text.len() == 36 && text.bytes().all(canonical) => {
                Self(Repr::Uuid(uuid.into_bytes()))
            }
            _ => Self(Repr::Text(text.into())),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).hyphenated().fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self::from(text.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives() {
        let uuid = "0191e7d2-8a6b-4cde-8f00-1234567890ab";
        for text in
            [uuid, "", "my-uid", "0191E7D2-8A6B-4CDE-8F00-1234567890AB", "0191e7d28a6b4cde8f001234567890ab"]
        {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(matches!(Uid::from(uuid).0, Repr::Uuid(_)));
    }

    #[test]
    fn random_uids_are_packed_and_differ() {
        let (a, b) = (Uid::random(), Uid::random());
        assert_ne!(a, b);
        assert_eq!(Uid::from(a.to_string().as_str()), a);
    }
}
