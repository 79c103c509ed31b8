//! Uids of objects.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ArcStr;

/// An object's `metadata.uid`. It tells an object from a later one of the same name.
///
/// Holds a UUID, which is what API servers assign, in its sixteen bytes, and any other text as it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    /// The upper and the lower half of a UUID. A UUID whose lower half is zero is kept as text: so the enum needs no room beside the two
    /// halves, and caches hold a uid for each object. API servers assign no such UUID, since the lower half begins with the variant
    /// (RFC 9562, section 4.1).
    Uuid(u64, NonZeroU64),
    Text(ArcStr),
}

impl Uid {
    /// Whether this is the empty text, which stands for a missing uid.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    /// Makes a random uid.
    pub fn random() -> Self {
        let (upper, lower) = uuid::Uuid::new_v4().as_u64_pair();
        Self(Repr::Uuid(upper, NonZeroU64::new(lower).expect("a random UUID must have a variant")))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Repr::Text(ArcStr::new()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        // Packs only the form that `Display` writes, so that any other text stays as it is.
        let canonical = |byte: u8| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let halves = || {
            let uuid = uuid::Uuid::try_parse(text).ok()?;
            let (upper, lower) = uuid.as_u64_pair();
            Some((upper, NonZeroU64::new(lower)?))
        };
        match halves() {
            Some((upper, lower)) if text.len() == 36 && text.bytes().all(canonical) => {
                Self(Repr::Uuid(upper, lower))
            }
            _ => Self(Repr::Text(text.into())),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Uuid(upper, lower) => uuid::Uuid::from_u64_pair(*upper, lower.get()).hyphenated().fmt(f),
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
        let nearly = [
            "0191E7D2-8A6B-4CDE-8F00-1234567890AB",
            "0191e7d28a6b4cde8f001234567890ab",
            "0191e7d2-8a6b-4cde-0000-000000000000",
            "00000000-0000-0000-0000-000000000000",
        ];
        for text in [uuid, "", "my-uid"].into_iter().chain(nearly) {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(matches!(Uid::from(uuid).0, Repr::Uuid(..)));
    }

    #[test]
    fn uids_have_the_order_of_their_texts() {
        let texts = [
            "0191e7d2-8a6b-4cde-8f00-1234567890ab",
            "0191e7d2-8a6b-4cde-9f00-1234567890ab",
            "f191e7d2-8a6b-4cde-8f00-1234567890ab",
        ];
        assert!(texts.map(Uid::from).is_sorted());
    }

    #[test]
    fn a_uid_takes_no_more_room_than_a_uuid() {
        assert_eq!(size_of::<Uid>(), 16);
    }

    #[test]
    fn random_uids_are_packed_and_differ() {
        let (a, b) = (Uid::random(), Uid::random());
        assert_ne!(a, b);
        assert_eq!(Uid::from(a.to_string().as_str()), a);
    }
}
