//! The user who makes a request.

/// The name of the user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all users whose credentials are valid.
const AUTHENTICATED: &str = "system:authenticated";

/// The user who makes a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid. Empty if it is unknown.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further facts, sorted by name.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// Whether this is the user of requests without credentials.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// Adds the group of all users whose credentials are valid, unless the user is anonymous (upstream:
    /// `AuthenticatedGroupAdder`).
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let told = self.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if !told && !self.is_anonymous() {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
