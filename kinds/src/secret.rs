//! The cached fields of Secrets that hold tokens of service accounts, in groups. No data of a Secret are cached, only whether
//! they are there.

use steersman_api::{ArcStr, Uid};
use steersman_informer::serde::{Deserialize, Deserializer};
use steersman_informer::wire::{Field, FieldValue, Key, WireError};
use steersman_informer::{kind, projection};

use super::annotation;
use super::config_map::CA_KEY;
use super::content_digest::ContentDigest;
use super::data::{self, SecretData};

/// The type of Secrets that hold a token of a service account.
pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
/// The annotation that names the service account of a token.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The annotation with the uid of the service account of a token.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The key of the token in a Secret's data.
pub const TOKEN_KEY: &str = "token";
/// The key of the namespace in a Secret's data.
pub const NAMESPACE_KEY: &str = "namespace";

/// The service account that a Secret belongs to, by the annotations [`ACCOUNT_NAME`] and [`ACCOUNT_UID`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccountReference {
    /// The account's name. Empty if the Secret names none.
    pub name: ArcStr,
    /// The account's uid. Empty until the Secret has got its token, unless its creator set it.
    pub uid: Uid,
}

/// Which of a token's data a Secret has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenContents {
    /// The digest of the certificate authority; `None` without one.
    pub ca: Option<ContentDigest>,
    /// Whether there is a namespace.
    pub has_namespace: bool,
    /// Whether there is a token.
    pub has_token: bool,
}

/// Whether the Secret's type is [`SERVICE_ACCOUNT_TOKEN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsToken(pub bool);

projection! {
    /// The service account that the Secret belongs to.
    pub struct TokenAccount {
        /// Its name and uid.
        pub account: AccountReference = 12 "annotations",
    }
}

kind! {
    /// A Secret.
    pub struct Secret("", "v1", "secrets") {
        account: TokenAccount = 1 "metadata",
        contents: TokenContents = 2 "data",
        is_token: IsToken = 3 "type",
    }
}

impl AccountReference {
    fn set(&mut self, key: &str, value: &str) {
        match key {
            ACCOUNT_NAME => self.name = value.into(),
            ACCOUNT_UID => self.uid = value.into(),
            _ => {}
        }
    }
}

impl FieldValue for AccountReference {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        for key in [ACCOUNT_NAME, ACCOUNT_UID] {
            if let Some(value) = annotation::entry(field, key)? {
                self.set(key, value);
            }
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut reference = Self::default();
        let keys = [ACCOUNT_NAME, ACCOUNT_UID];
        annotation::pick_each(deserializer, &keys, |key, value| reference.set(key, value))?;
        Ok(reference)
    }
}

impl FieldValue for IsToken {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0 = field.text()? == SERVICE_ACCOUNT_TOKEN;
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Key::deserialize(deserializer).map(|text| Self(&*text == SERVICE_ACCOUNT_TOKEN))
    }
}

impl SecretData for TokenContents {
    const KEYS: &[&str] = &[CA_KEY, NAMESPACE_KEY, TOKEN_KEY];

    fn add(&mut self, key: &str, value: &[u8]) {
        match key {
            CA_KEY => self.ca = Some(ContentDigest::of(value)),
            NAMESPACE_KEY => self.has_namespace = !value.is_empty(),
            TOKEN_KEY => self.has_token = !value.is_empty(),
            _ => {}
        }
    }
}

impl FieldValue for TokenContents {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (key, value) = data::entry(field)?;
        self.add(key, value);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        data::from_json(deserializer)
    }
}
