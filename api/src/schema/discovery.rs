//! The discovery documents of the built-in groups: group versions, resources and subresources.

use super::kind::Kind;
use super::table::table;

/// One version of a group, with its resources.
#[derive(Debug)]
pub struct ApiGroupVersion {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The resources, sorted by plural.
    pub resources: Vec<Resource>,
}

/// One resource.
#[derive(Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The plural name, such as `pods`.
    pub plural: &'static str,
    /// The singular name, such as `pod`.
    pub singular: &'static str,
    /// The kind of the objects, such as `Pod`.
    pub kind: &'static str,
    /// Whether the objects are namespaced.
    pub scope: Scope,
    /// The short names, such as `po`.
    pub short_names: Vec<&'static str>,
    /// The categories, such as `all`.
    pub categories: Vec<&'static str>,
    /// The verbs, such as `get`, in alphabetical order.
    pub verbs: Vec<&'static str>,
    /// The subresources, in alphabetical order.
    pub subresources: Vec<Subresource>,
}

/// A subresource, such as `pods/status`.
#[derive(Debug)]
pub struct Subresource {
    /// The name, such as `status`.
    pub name: &'static str,
    /// The group of `kind`.
    pub group: &'static str,
    /// The version of `kind`.
    pub version: &'static str,
    /// The kind of the objects, such as `Scale`. For streams such as `pods/exec`, the kind of their options.
    pub kind: &'static str,
    /// The verbs, such as `get`, in alphabetical order.
    pub verbs: Vec<&'static str>,
}

/// Whether the objects of a resource are namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each object is in a namespace.
    Namespaced,
    /// Names are unique in the whole cluster.
    Cluster,
}

/// The verbs that most resources have.
const ORDINARY_VERBS: &str = "create,delete,deletecollection,get,list,patch,update,watch";

impl Resource {
    /// Returns the kind of the objects, or `None` if the table has no schema of it. The table of Kubernetes 1.36 has
    /// them all.
    pub fn kind(&self) -> Option<&'static Kind> {
        table().kind(self.group, self.version, self.kind)
    }

    /// Returns the kind of lists, such as `PodList`, or `None` if the resource can't be listed.
    pub fn list_kind(&self) -> Option<&'static Kind> {
        table().kind(self.group, self.version, &format!("{}List", self.kind))
    }

    /// Returns the subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether the resource supports this verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Parses a row `resource PLURAL SINGULAR KIND SCOPE VERBS [short=..] [categories=..]`, without its first word.
    pub(super) fn parse(group: &'static str, version: &'static str, line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut resource = Self {
            group,
            version,
            plural: words.next()?,
            singular: words.next()?,
            kind: words.next()?,
            scope: if words.next()? == "namespaced" { Scope::Namespaced } else { Scope::Cluster },
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: verbs(words.next()?),
            subresources: Vec::new(),
        };
        for word in words {
            let (label, names) = word.split_once('=')?;
            match label {
                "short" => resource.short_names = names.split(',').collect(),
                "categories" => resource.categories = names.split(',').collect(),
                _ => return None,
            }
        }
        Some(resource)
    }
}

impl Subresource {
    /// Returns the kind of the objects that the subresource accepts or returns.
    pub fn kind(&self) -> Option<&'static Kind> {
        table().kind(self.group, self.version, self.kind)
    }

    /// Parses a row `sub NAME KIND[@GROUP/VERSION] VERBS`, without its first word.
    pub(super) fn parse(group: &'static str, version: &'static str, line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let kind = words.next()?;
        let (kind, (group, version)) = match kind.split_once('@') {
            Some((kind, api_version)) => (kind, crate::GroupVersion::split(api_version)),
            None => (kind, (group, version)),
        };
        Some(Self { name, group, version, kind, verbs: verbs(words.next()?) })
    }
}

fn verbs(word: &'static str) -> Vec<&'static str> {
    if word == "*" { ORDINARY_VERBS } else { word }.split(',').collect()
}
