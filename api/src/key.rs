//! The namespace and name of an object.

use std::fmt;
use std::str::FromStr;

use arcstr::ArcStr;

/// Namespace and name of an object. Identifies it among the objects of its kind, in caches and work queues.
///
/// Displays as `namespace/name`, or as `name` without a namespace, as client-go's `MetaNamespaceKeyFunc` does. Cloning
/// is cheap: clones share both texts.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectKey {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: ArcStr,
    /// The name; never empty for an object that exists.
    pub name: ArcStr,
}

impl ObjectKey {
    /// The key of a namespaced object; with an empty namespace, that of a cluster-scoped object.
    pub fn new(namespace: impl Into<ArcStr>, name: impl Into<ArcStr>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
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

/// The error for a text that is neither `name` nor `namespace/name`.
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
