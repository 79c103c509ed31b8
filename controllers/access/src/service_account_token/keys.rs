//! The keys of the controller's two queues. They hold what a sync needs to know of an object that is gone.

use std::fmt;

use steersman_api::{ObjectKey, Uid};
use steersman_kinds::secret::AccountReference;

/// A service account, as it was when it changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountKey {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Uid,
}

/// A token's Secret, as it was when it changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SecretKey {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Uid,
    /// The service account that it named.
    pub account: AccountReference,
}

impl SecretKey {
    /// The namespace and name of the service account.
    pub(super) fn account_key(&self) -> ObjectKey {
        ObjectKey::new(self.key.namespace.clone(), self.account.name.clone())
    }
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}
