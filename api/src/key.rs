//! What an object is called within its kind.

use std::fmt;
use std::str::FromStr;

use arcstr::ArcStr;

/// Namespace and name: how caches and work queues name an object of a known kind.
///
/// The namespace is empty for cluster-scoped objects. Written `namespace/name`, or just `name` without a namespace,
/// as client-go's `MetaNamespaceKeyFunc` does. Cloning is cheap: both parts are shared.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: ArcStr,
    /// Never empty for an object that exists.
    pub name: ArcStr,
}

impl ObjectKey {
    /// A namespaced object's key (or a cluster-scoped one's, with an empty namespace).
    pub fn new(namespace: impl Into<ArcStr>, name: impl Into<ArcStr>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// A cluster-scoped object's key.
    pub fn cluster(name: impl Into<ArcStr>) -> Self {
        Self { namespace: ArcStr::new(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not `name` or `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected key format: {0:?}")]
pub struct InvalidKey(pub String);

impl FromStr for ObjectKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        if name.is_empty() || name.contains('/') {
            return Err(InvalidKey(text.to_owned()));
        }
        Ok(Self::new(namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_it_was_written() {
        for key in [ObjectKey::new("default", "web"), ObjectKey::cluster("node-1")] {
            assert_eq!(key.to_string().parse::<ObjectKey>(), Ok(key));
        }
    }

    #[test]
    fn a_key_without_a_name_or_with_three_parts_is_refused() {
        for text in ["", "default/", "a/b/c"] {
            assert_eq!(text.parse::<ObjectKey>(), Err(InvalidKey(text.to_owned())));
        }
    }
}
