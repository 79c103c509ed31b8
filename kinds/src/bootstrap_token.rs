//! The cached fields of the Secrets of bootstrap tokens, and of the ConfigMap that they sign.
//!
//! These types are of their own, apart from those of other Secrets and ConfigMaps, since their informers see the objects of one
//! namespace only. The secret parts of tokens are not cached.

use std::fmt;

use steersman_api::ArcStr;
use steersman_api::bootstrap_token::{EXPIRATION, Expiry, ID, USAGE_SIGNING};
use steersman_informer::kind;
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::{IgnoredAny, MapAccess, Visitor};
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::data::{self, SecretData};

/// What a Secret says of its token, but for the token itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenInfo {
    /// The token's id. Empty if the Secret has none.
    pub id: ArcStr,
    /// When the token expires.
    pub expiry: Expiry,
    /// Whether the token signs the ConfigMap `cluster-info`.
    pub signs: bool,
}

impl SecretData for TokenInfo {
    const KEYS: &[&str] = &[ID, EXPIRATION, USAGE_SIGNING];

    fn add(&mut self, key: &str, value: &[u8]) {
        TokenInfo::add(self, key, value);
    }
}

impl TokenInfo {
    /// Takes in one key of the Secret's data.
    pub fn add(&mut self, key: &str, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match key {
            ID => self.id = text.as_ref().into(),
            EXPIRATION => self.expiry = Expiry::parse(&text),
            USAGE_SIGNING => self.signs = text == "true",
            _ => {}
        }
    }
}

impl FieldValue for TokenInfo {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (key, value) = data::entry(field)?;
        self.add(key, value);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        data::from_json(deserializer)
    }
}

/// Whether a ConfigMap has data. Their content is not cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HasData(pub bool);

impl FieldValue for HasData {
    fn merge(&mut self, _: Field<'_>) -> Result<(), WireError> {
        self.0 = true;
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Data;
        impl<'de> Visitor<'de> for Data {
            type Value = HasData;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HasData, A::Error> {
                let mut has_data = HasData(false);
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    has_data.0 = true;
                }
                Ok(has_data)
            }
        }
        deserializer.deserialize_map(Data)
    }
}

kind! {
    /// The Secret of a bootstrap token.
    pub struct Secret("", "v1", "secrets") {
        token: TokenInfo = 2 "data",
    }
}

/// The ConfigMap `cluster-info`.
pub mod cluster_info {
    use super::{HasData, kind};

    kind! {
        /// A ConfigMap.
        pub struct ConfigMap("", "v1", "configmaps") {
            data: HasData = 2 "data",
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;
    use steersman_api::schema;
    use steersman_informer::wire::{Encoding, Group, Object};

    use super::*;

    #[test]
    fn the_token_itself_is_not_kept_in_either_encoding() {
        let data = [
            (ID, "abcdef"),
            (EXPIRATION, "2026-01-01T00:00:00Z"),
            (USAGE_SIGNING, "true"),
            ("token-secret", "0123456789abcdef"),
        ];
        let data: serde_json::Map<_, _> =
            data.into_iter().map(|(key, value)| (key.to_owned(), STANDARD.encode(value).into())).collect();
        let object = json!({"metadata": {"name": "bootstrap-token-abcdef"}, "data": data});
        let kind = schema::table().kind("", "v1", "Secret").unwrap();
        let protobuf = schema::to_protobuf(kind, &object).unwrap();
        for (body, encoding) in
            [(object.to_string().into(), Encoding::Json), (protobuf.into(), Encoding::Protobuf)]
        {
            let secret = Secret::decode(&body, encoding, u64::MAX).unwrap();
            let info = TokenInfo::of(&secret).unwrap();
            let expiry = Expiry::At("2026-01-01T00:00:00Z".parse().unwrap());
            assert_eq!(*info, TokenInfo { id: "abcdef".into(), expiry, signs: true });
        }
    }

    #[test]
    fn a_config_map_has_data_or_not_in_either_encoding() {
        for (data, expected) in [(json!({"a": "b"}), true), (json!({}), false), (json!(null), false)] {
            let object = json!({"metadata": {"name": "cluster-info"}, "data": data});
            let kind = schema::table().kind("", "v1", "ConfigMap").unwrap();
            let protobuf = schema::to_protobuf(kind, &object).unwrap();
            for (body, encoding) in
                [(object.to_string().into(), Encoding::Json), (protobuf.into(), Encoding::Protobuf)]
            {
                let map = cluster_info::ConfigMap::decode(&body, encoding, u64::MAX).unwrap();
                assert_eq!(HasData::of(&map), Some(&HasData(expected)));
            }
        }
    }
}
