//! A request to a resource, understood.

use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, Uri};
use url::form_urlencoded;

use crate::access::Identity;
use crate::registry::Resource;

/// What is asked of a resource, under the names that RBAC and metrics use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// A new object.
    Create,
    /// One object.
    Get,
    /// Many objects.
    List,
    /// Changes as they happen.
    Watch,
    /// Another state in place of an object's.
    Update,
    /// A change to an object's state.
    Patch,
    /// An object shall go.
    Delete,
    /// Many objects shall go.
    DeleteCollection,
}

impl Verb {
    /// Such as `deletecollection`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it changes anything.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which objects a request is about, and what it wants of them.
#[derive(Clone)]
pub(crate) struct Call {
    /// What it wants.
    pub(crate) verb: Verb,
    /// Of which resource.
    pub(crate) resource: Arc<Resource>,
    /// Of which subresource; empty if of the object itself.
    pub(crate) subresource: String,
    /// In which namespace; empty for all, and for cluster-scoped resources.
    pub(crate) namespace: String,
    /// Which object; empty for all of them.
    pub(crate) name: String,
    /// What follows a proxy, with a slash at its end where the client put one; empty for all else.
    pub(crate) path: String,
}

/// A request with its resource found.
#[derive(Clone)]
pub(crate) struct Request {
    /// What it is about.
    pub(crate) call: Call,
    /// As sent.
    pub(crate) method: Method,
    /// As sent.
    pub(crate) uri: Uri,
    /// What follows the question mark.
    pub(crate) query: Query,
    /// As sent.
    pub(crate) headers: HeaderMap,
    /// As sent; decompressed by no one.
    pub(crate) body: Bytes,
    /// Who asks.
    pub(crate) who: Identity,
    /// What came along with it, such as the connection it came over.
    pub(crate) extensions: Extensions,
}

impl Request {
    /// Who asks, by its own word.
    pub(crate) fn user_agent(&self) -> &str {
        self.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// The parameters of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// From what follows the question mark.
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter; the empty text is as good as none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|v| !v.is_empty())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A switch: present and neither `false` nor `0`, as upstream reads it.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.switch(name) == Some(true)
    }

    /// A switch that may be left alone.
    pub(crate) fn switch(&self, name: &str) -> Option<bool> {
        let value = &self.0.iter().find(|(key, _)| key == name)?.1;
        Some(!matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}
