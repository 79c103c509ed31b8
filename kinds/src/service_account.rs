//! The cached fields of ServiceAccounts, in groups.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{kind, projection};

projection! {
    /// A reference to an object of the account's namespace.
    struct Reference {
        pub name: ArcStr = 3 "name",
    }
}

/// The names of the Secrets in an account's list `secrets`: those that its pods may use, and the tokens that old versions of
/// Kubernetes made for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretReferences(pub Box<[ArcStr]>);

kind! {
    /// A service account.
    pub struct ServiceAccount("", "v1", "serviceaccounts") {
        secrets: SecretReferences = 2 "secrets",
    }
}

impl SecretReferences {
    /// Whether the list names this Secret.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|secret| secret == name)
    }
}

impl FieldValue for SecretReferences {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut reference = Reference::default();
        reference.merge(field)?;
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.push(reference.name);
        self.0 = all.into();
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = Vec::<Reference>::from_json(deserializer)?;
        Ok(Self(all.into_iter().map(|reference| reference.name).collect()))
    }
}
