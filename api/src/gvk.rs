//! Group versions, kinds and resources.

use std::fmt;

use arcstr::ArcStr;

/// A version of an API group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: ArcStr,
    /// The version, such as `v1`.
    pub version: ArcStr,
}

impl GroupVersion {
    /// Splits an `apiVersion` into group and version: `apps/v1` into `apps` and `v1`, `v1` into the empty group and
    /// `v1`.
    pub fn split(api_version: &str) -> (&str, &str) {
        api_version.rsplit_once('/').unwrap_or(("", api_version))
    }

    /// Parses an `apiVersion`, such as `apps/v1`.
    pub fn parse(api_version: &str) -> Self {
        let (group, version) = Self::split(api_version);
        Self { group: group.into(), version: version.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_group_version(f, &self.group, &self.version)
    }
}

fn write_group_version(f: &mut fmt::Formatter<'_>, group: &str, version: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(version) } else { write!(f, "{group}/{version}") }
}

/// A kind in one version of its group. Objects name theirs in `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: ArcStr,
    /// The version, such as `v1`.
    pub version: ArcStr,
    /// The kind, such as `Pod`.
    pub kind: ArcStr,
}

impl GroupVersionKind {
    /// Makes the value from its three parts. The core group is the empty text.
    pub fn new(group: impl Into<ArcStr>, version: impl Into<ArcStr>, kind: impl Into<ArcStr>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The `apiVersion` of objects of this kind, such as `apps/v1`.
    pub fn api_version(&self) -> String {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }.to_string()
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_group_version(f, &self.group, &self.version)?;
        write!(f, ", Kind={}", self.kind)
    }
}

/// A resource: the API server serves the objects of a kind under its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: ArcStr,
    /// The version, such as `v1`.
    pub version: ArcStr,
    /// The plural name in lower case, such as `pods`.
    pub resource: ArcStr,
}

impl GroupVersionResource {
    /// Makes the value from its three parts. The core group is the empty text.
    pub fn new(group: impl Into<ArcStr>, version: impl Into<ArcStr>, resource: impl Into<ArcStr>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// The HTTP path of the collection: `/api/v1/namespaces/{namespace}/pods`. With an empty namespace, the path of the
    /// whole cluster's collection, `/api/v1/pods`.
    pub fn path(&self, namespace: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.resource);
        path
    }
}

/// Writes the name that metrics and logs use: `pods`, `jobs.batch`.
impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_group_has_its_own_path() {
        assert_eq!(GroupVersionResource::new("", "v1", "pods").path("a"), "/api/v1/namespaces/a/pods");
        assert_eq!(GroupVersionResource::new("batch", "v1", "jobs").path(""), "/apis/batch/v1/jobs");
    }

    #[test]
    fn an_api_version_splits_at_its_last_slash() {
        assert_eq!(GroupVersion::split("v1"), ("", "v1"));
        assert_eq!(GroupVersion::split("apps/v1"), ("apps", "v1"));
    }
}
