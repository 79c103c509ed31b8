//! What discovery tells of the built-in groups.

use super::kind::Kind;
use super::table::table;

/// One version of a group, and what is served in it.
#[derive(Debug)]
pub struct ApiGroupVersion {
    /// Empty for the core group.
    pub group: &'static str,
    /// Such as `v1`.
    pub version: &'static str,
    /// In the order of their plurals.
    pub resources: Vec<Resource>,
}

/// One resource.
#[derive(Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    /// Such as `v1`.
    pub version: &'static str,
    /// Such as `pods`.
    pub plural: &'static str,
    /// Such as `pod`.
    pub singular: &'static str,
    /// Such as `Pod`.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// Such as `po`.
    pub short_names: Vec<&'static str>,
    /// Such as `all`.
    pub categories: Vec<&'static str>,
    /// Such as `get`, in alphabetical order.
    pub verbs: Vec<&'static str>,
    /// In alphabetical order.
    pub subresources: Vec<Subresource>,
}

/// A resource of one object of a resource, such as `pods/status`.
#[derive(Debug)]
pub struct Subresource {
    /// Such as `status`.
    pub name: &'static str,
    /// The group of its kind.
    pub group: &'static str,
    /// The version of its kind.
    pub version: &'static str,
    /// Such as `Scale`; streams such as `pods/exec` name the kind of their options.
    pub kind: &'static str,
    /// Such as `get`, in alphabetical order.
    pub verbs: Vec<&'static str>,
}

/// Whether a resource's objects live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// They do.
    Namespaced,
    /// There is one set of names in the whole cluster.
    Cluster,
}

/// The verbs of an ordinary resource.
const ORDINARY_VERBS: &str = "create,delete,deletecollection,get,list,patch,update,watch";

impl Resource {
    /// The kind of its objects. None for a resource whose objects have no schema (there is none so far).
    pub fn kind(&self) -> Option<&'static Kind> {
        table().kind(self.group, self.version, self.kind)
    }

    /// The kind of its lists: `PodList`. None for a resource that can't be listed.
    pub fn list_kind(&self) -> Option<&'static Kind> {
        table().kind(self.group, self.version, &format!("{}List", self.kind))
    }

    /// One of its subresources.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether it has this verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// From `resource PLURAL SINGULAR KIND SCOPE VERBS [short=..] [categories=..]`, without the first word.
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
    /// The kind that is sent to it, or comes from it.
    pub fn kind(&self) -> Option<&'static Kind> {
        table().kind(self.group, self.version, self.kind)
    }

    /// From `sub NAME KIND[@GROUP/VERSION] VERBS`, without the first word.
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
