//! What a user must be allowed to do.

use http::Method;

/// What a user must be allowed to do, as the API server's authorizers know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attributes {
    /// To act on an object that the API server knows, such as the node that the server belongs to.
    Resource(ResourceAttributes),
    /// To request a path.
    NonResource {
        /// The method in lower case.
        verb: String,
        /// The decoded path.
        path: String,
    },
}

/// An action on an object of the cluster scope, in the core group, version `v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceAttributes {
    /// `get`, `create` and so on.
    pub verb: &'static str,
    /// The resource, in the plural.
    pub resource: &'static str,
    /// The subresource. Empty if there is none.
    pub subresource: &'static str,
    /// The name of the object.
    pub name: String,
}

impl Attributes {
    /// The attributes of a request to a path that is no resource of the API server.
    pub fn of_path(method: &Method, path: &str) -> Self {
        Self::NonResource { verb: method.as_str().to_ascii_lowercase(), path: path.to_owned() }
    }

    /// All parts, for a key. No two attributes have the same parts.
    pub(super) fn parts(&self) -> Vec<&str> {
        match self {
            Self::Resource(ResourceAttributes { verb, resource, subresource, name }) => {
                vec!["resource", verb, resource, subresource, name]
            }
            Self::NonResource { verb, path } => vec!["path", verb, path],
        }
    }
}
