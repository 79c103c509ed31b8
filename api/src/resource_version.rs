//! Resource versions of objects and of lists.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A `resourceVersion`: the position of an object's or a list's state in the order of all writes to its resource.
///
/// Since Kubernetes 1.35, versions of one resource are comparable as integers, across objects. Zero means "any version"
/// in requests and "unknown" on objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ResourceVersion(pub u64);

impl ResourceVersion {
    /// An unknown version. In a list request: any state that the server has in its cache.
    pub const ANY: Self = Self(0);

    /// Parses the API's decimal text. The empty text is [`ANY`](Self::ANY).
    ///
    /// # Errors
    /// The text has other characters than decimal digits. Some aggregated API servers have such opaque versions, which
    /// are not comparable.
    pub fn parse(text: &str) -> Result<Self, InvalidResourceVersion> {
        if text.is_empty() {
            return Ok(Self::ANY);
        }
        // `u64::from_str` accepts a leading plus, which versions don't have.
        match text.parse() {
            Ok(number) if text.as_bytes()[0].is_ascii_digit() => Ok(Self(number)),
            _ => Err(InvalidResourceVersion(text.to_owned())),
        }
    }
}

/// The error for a text that is not a decimal number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion {0:?} is not a decimal number")]
pub struct InvalidResourceVersion(pub String);

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_integers() {
        let parse = |text| ResourceVersion::parse(text).unwrap();
        assert!(parse("9") < parse("10"));
        assert_eq!(parse(""), ResourceVersion::ANY);
    }

    #[test]
    fn an_opaque_version_is_refused() {
        for text in ["abc", "+1", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(ResourceVersion::parse(text), Err(InvalidResourceVersion(text.to_owned())));
        }
    }
}
