//! The cached fields of ConfigMaps, in groups.

use std::fmt;

use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::{IgnoredAny, MapAccess, Visitor};
use steersman_informer::wire::{Field, FieldValue, Key, WireError};
use steersman_informer::{kind, projection};

use super::annotation;
use super::content_digest::ContentDigest;
use super::data;

/// The key of a certificate authority in the data of a ConfigMap or Secret.
pub const CA_KEY: &str = "ca.crt";

/// The annotation that says what an object is for.
pub const DESCRIPTION: &str = "kubernetes.io/description";

/// The data of a ConfigMap that publishes a certificate authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishedCa {
    /// The digest of the value of [`CA_KEY`]. `None` if the data lack it.
    pub ca: Option<ContentDigest>,
    /// Whether the data have other keys as well.
    pub has_others: bool,
}

/// Whether the annotation [`DESCRIPTION`] has a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsDescribed(pub bool);

projection! {
    /// What the ConfigMap is for.
    pub struct Description {
        /// Whether the ConfigMap says it.
        pub described: IsDescribed = 12 "annotations",
    }
}

kind! {
    /// A ConfigMap.
    pub struct ConfigMap("", "v1", "configmaps") {
        description: Description = 1 "metadata",
        published_ca: PublishedCa = 2 "data",
    }
}

impl PublishedCa {
    fn add(&mut self, key: &str, value: &[u8]) {
        if key == CA_KEY {
            self.ca = Some(ContentDigest::of(value));
        } else {
            self.has_others = true;
        }
    }
}

impl FieldValue for PublishedCa {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (key, value) = data::entry(field)?;
        self.add(key, value);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = PublishedCa;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PublishedCa, A::Error> {
                let mut published = PublishedCa::default();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    if &*key == CA_KEY {
                        let value = map.next_value::<Option<Key<'de>>>()?;
                        published.add(&key, value.as_deref().unwrap_or_default().as_bytes());
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        published.add(&key, &[]);
                    }
                }
                Ok(published)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl FieldValue for IsDescribed {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, DESCRIPTION)? {
            self.0 = !value.is_empty();
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, DESCRIPTION, |value| Self(!value.is_empty()))
    }
}
