//! Who asks.

use std::collections::BTreeMap;

use crate::names;

/// The group of all who said who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all who did not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of all who did not.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// What the names of service accounts' users begin with; namespace, a colon and name follow.
const OF_ACCOUNTS: &str = "system:serviceaccount:";
/// The group of all service accounts.
const ACCOUNTS: &str = "system:serviceaccounts";

/// The user that a service account is.
pub(crate) fn user_of_account(namespace: &str, name: &str) -> String {
    format!("{OF_ACCOUNTS}{namespace}:{name}")
}

/// The namespace and the name of the service account that a user is, if they can be.
pub(super) fn account_of_user(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(OF_ACCOUNTS)?.split_once(':')?;
    (names::label(namespace).is_empty() && names::subdomain(name).is_empty()).then_some((namespace, name))
}

/// The groups of every service account of a namespace.
pub(super) fn groups_of_accounts(namespace: &str) -> [String; 2] {
    [ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}")]
}

/// A user, as authentication found it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name, such as `system:serviceaccount:default:default`.
    pub user: String,
    /// Tells users of one name apart; empty where nothing does.
    pub uid: String,
    /// What the user belongs to.
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user with groups, who has said who it is.
    pub fn authenticated(user: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        groups.push(AUTHENTICATED.to_owned());
        Self { user: user.into(), groups, ..Self::default() }
    }

    /// One who may do everything: parts of this program, and tests.
    pub fn master(user: impl Into<String>) -> Self {
        Self::authenticated(user, [MASTERS.to_owned()])
    }

    /// One who did not say who it is.
    pub(crate) fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { user: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// Whether it belongs to that group.
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }
}
