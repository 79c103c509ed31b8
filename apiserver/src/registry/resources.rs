//! All resources that are served.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arcstr::ArcStr;
use steersman_api::schema;

use super::kinds;
use super::resource::Resource;

/// All resources, found as requests name them: by group, version and plural.
///
/// Cheap to clone. To change it, the caller puts a changed clone in its place.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    groups: Vec<Group>,
}

/// A group with its versions, the preferred one first.
#[derive(Clone)]
pub(crate) struct Group {
    /// Empty for the core group.
    pub(crate) name: ArcStr,
    /// The preferred one first.
    pub(crate) versions: Vec<Version>,
}

/// What is served in one version of a group.
#[derive(Clone)]
pub(crate) struct Version {
    /// Such as `v1`.
    pub(crate) name: ArcStr,
    /// By plural.
    pub(crate) resources: HashMap<ArcStr, Arc<Resource>>,
}

impl Resources {
    /// The built-in ones.
    pub(crate) fn built_in() -> Self {
        let mut resources = Self::default();
        for group_version in schema::table().group_versions() {
            for resource in &group_version.resources {
                let resource = kinds::built_in(resource);
                resources.insert(Arc::new(resource));
            }
        }
        resources
    }

    /// All groups, the core group first.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A group.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// A version of a group.
    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.group(group)?.versions.iter().find(|found| found.name == version)
    }

    /// A resource.
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.resources.get(plural)
    }

    /// The resource in whose form the objects of this one are kept: of the versions of one table the one whose group
    /// comes first, in its preferred version.
    pub(crate) fn storage(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        let versions = self.groups.iter().flat_map(|group| &group.versions);
        let mut found = versions.filter_map(|version| version.resources.get(&resource.plural));
        Arc::clone(found.find(|found| found.table == resource.table).unwrap_or(resource))
    }

    /// The resource in whose form the objects of a table are kept.
    pub(crate) fn of_table(&self, table: &str) -> Option<Arc<Resource>> {
        let versions = self.groups.iter().flat_map(|group| &group.versions);
        let mut resources = versions.flat_map(|version| version.resources.values());
        resources.find(|resource| resource.table == table).map(|found| self.storage(found))
    }

    /// Of each table, the resource in whose form its objects are kept.
    pub(crate) fn stored(&self) -> Vec<&Arc<Resource>> {
        let mut tables = HashSet::new();
        let versions = self.groups.iter().flat_map(|group| &group.versions);
        let resources = versions.flat_map(|version| version.resources.values());
        resources.filter(|resource| resource.allows("get") && tables.insert(&resource.table)).collect()
    }

    /// Adds a resource, or puts another in its place.
    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        let version = self.version_mut(&resource.group, &resource.version);
        version.resources.insert(resource.plural.clone(), resource);
    }

    /// Takes out what lives in that table; groups that serve nothing any more go too.
    pub(crate) fn remove_table(&mut self, table: &str) {
        for group in &mut self.groups {
            for version in &mut group.versions {
                version.resources.retain(|_, resource| resource.table != table);
            }
            group.versions.retain(|version| !version.resources.is_empty());
        }
        self.groups.retain(|group| !group.versions.is_empty());
    }

    fn version_mut(&mut self, group: &str, version: &str) -> &mut Version {
        let at = self.groups.iter().position(|found| found.name == group).unwrap_or_else(|| {
            self.groups.push(Group { name: group.into(), versions: Vec::new() });
            self.groups.len() - 1
        });
        let versions = &mut self.groups[at].versions;
        let at = versions.iter().position(|found| found.name == version).unwrap_or_else(|| {
            versions.push(Version { name: version.into(), resources: HashMap::new() });
            versions.len() - 1
        });
        &mut versions[at]
    }
}
