//! The discovery documents of the API server: aggregated (apidiscovery.k8s.io) and legacy.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use steersman_api::{ArcStr, GroupVersion, GroupVersionKind, GroupVersionResource};

use super::{Resource, Scope, Subresource, Version};

/// A response of `/api` or `/apis`, distinguished by its `kind`.
#[derive(Deserialize)]
#[serde(try_from = "Root")]
pub(super) enum Answer {
    /// All groups with all their resources.
    Aggregated(AggregatedList),
    /// The groups and their versions without resources, the preferred version first.
    Legacy(Vec<(ArcStr, Vec<GroupVersion>)>),
}

/// The union of `APIGroupDiscoveryList`, `APIGroupList` and `APIVersions`.
#[derive(Deserialize)]
struct Root {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Vec<AggregatedGroup>,
    #[serde(default)]
    groups: Vec<LegacyGroup>,
    #[serde(default)]
    versions: Vec<ArcStr>,
}

impl TryFrom<Root> for Answer {
    type Error = String;

    fn try_from(root: Root) -> Result<Self, String> {
        let core = |version| GroupVersion { group: ArcStr::default(), version };
        match root.kind.as_str() {
            "APIGroupDiscoveryList" => Ok(Answer::Aggregated(AggregatedList { items: root.items })),
            "APIGroupList" => {
                Ok(Answer::Legacy(root.groups.into_iter().map(LegacyGroup::into_parts).collect()))
            }
            "APIVersions" => {
                Ok(Answer::Legacy(vec![(ArcStr::default(), root.versions.into_iter().map(core).collect())]))
            }
            other => Err(format!("kind {other:?} is not a discovery document")),
        }
    }
}

pub(super) struct AggregatedList {
    pub(super) items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
pub(super) struct AggregatedGroup {
    #[serde(default)]
    metadata: Metadata,
    /// The versions, the preferred one first.
    #[serde(default)]
    pub(super) versions: Vec<AggregatedVersion>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    /// Absent for the core group.
    #[serde(default)]
    name: ArcStr,
}

impl AggregatedGroup {
    pub(super) fn name(&self) -> ArcStr {
        self.metadata.name.clone()
    }
}

#[derive(Deserialize)]
pub(super) struct AggregatedVersion {
    pub(super) version: ArcStr,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

impl AggregatedVersion {
    /// Whether the API server could not reach the group's own server recently.
    pub(super) fn is_stale(&self) -> bool {
        self.freshness == "Stale"
    }

    pub(super) fn into_version(self, group: &ArcStr) -> Version {
        let gv = GroupVersion { group: group.clone(), version: self.version.clone() };
        let resources =
            self.resources.into_iter().map(|resource| Arc::new(resource.into_resource(&gv))).collect();
        Version { name: self.version, resources }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: ArcStr,
    #[serde(default)]
    response_kind: Kind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: ArcStr,
    #[serde(default)]
    verbs: Vec<ArcStr>,
    #[serde(default)]
    short_names: Vec<ArcStr>,
    #[serde(default)]
    categories: Vec<ArcStr>,
    #[serde(default)]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedSubresource {
    subresource: ArcStr,
    #[serde(default)]
    response_kind: Kind,
    #[serde(default)]
    verbs: Vec<ArcStr>,
}

/// The kind of the objects at a path.
#[derive(Deserialize, Default)]
struct Kind {
    #[serde(default)]
    group: ArcStr,
    #[serde(default)]
    version: ArcStr,
    #[serde(default)]
    kind: ArcStr,
}

impl Kind {
    /// Completes a kind of an aggregated document. There, a kind is either complete, so that an empty group is the
    /// core group, or missing.
    fn or_within(self, gv: &GroupVersion) -> GroupVersionKind {
        if self.version.is_empty() {
            self.within(gv)
        } else {
            GroupVersionKind::new(self.group, self.version, self.kind)
        }
    }

    /// Completes a kind of a legacy list, whose empty fields are those of the list.
    fn within(self, gv: &GroupVersion) -> GroupVersionKind {
        let or = |part: ArcStr, default: &ArcStr| if part.is_empty() { default.clone() } else { part };
        GroupVersionKind::new(or(self.group, &gv.group), or(self.version, &gv.version), self.kind)
    }
}

impl AggregatedResource {
    fn into_resource(self, gv: &GroupVersion) -> Resource {
        let subresources = self.subresources.into_iter().map(|sub| Subresource {
            name: sub.subresource,
            gvk: sub.response_kind.or_within(gv),
            verbs: sub.verbs,
        });
        Resource {
            gvr: GroupVersionResource::new(gv.group.clone(), gv.version.clone(), self.resource),
            gvk: self.response_kind.or_within(gv),
            scope: if self.scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
            verbs: self.verbs,
            singular: self.singular_resource,
            short_names: self.short_names,
            categories: self.categories,
            subresources: subresources.collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyGroup {
    name: ArcStr,
    #[serde(default)]
    versions: Vec<LegacyVersion>,
    preferred_version: Option<LegacyVersion>,
}

#[derive(Deserialize)]
struct LegacyVersion {
    version: ArcStr,
}

impl LegacyGroup {
    fn into_parts(self) -> (ArcStr, Vec<GroupVersion>) {
        let preferred = self.preferred_version.map(|preferred| preferred.version);
        let mut versions: Vec<ArcStr> = self.versions.into_iter().map(|version| version.version).collect();
        // The sort is stable: the other versions keep the server's order.
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        let of_group = |version| GroupVersion { group: self.name.clone(), version };
        (self.name.clone(), versions.into_iter().map(of_group).collect())
    }
}

/// `APIResourceList`: the resources of one group version.
#[derive(Deserialize)]
pub(super) struct ResourceList {
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource {
    /// `pods`, or `pods/status` for a subresource.
    name: ArcStr,
    #[serde(flatten)]
    kind: Kind,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    singular_name: ArcStr,
    #[serde(default)]
    verbs: Vec<ArcStr>,
    #[serde(default)]
    short_names: Vec<ArcStr>,
    #[serde(default)]
    categories: Vec<ArcStr>,
}

impl ResourceList {
    pub(super) fn into_version(self, gv: &GroupVersion) -> Version {
        let mut subresources: BTreeMap<ArcStr, Vec<Subresource>> = BTreeMap::new();
        let mut resources = Vec::new();
        for listed in self.resources {
            let gvk = listed.kind.within(gv);
            if let Some((parent, name)) = listed.name.split_once('/') {
                let subresource = Subresource { name: name.into(), gvk, verbs: listed.verbs };
                subresources.entry(parent.into()).or_default().push(subresource);
                continue;
            }
            resources.push(Resource {
                gvr: GroupVersionResource::new(gv.group.clone(), gv.version.clone(), listed.name),
                gvk,
                scope: if listed.namespaced { Scope::Namespaced } else { Scope::Cluster },
                verbs: listed.verbs,
                singular: listed.singular_name,
                short_names: listed.short_names,
                categories: listed.categories,
                subresources: Vec::new(),
            });
        }
        let resources = resources.into_iter().map(|mut resource| {
            resource.subresources = subresources.remove(&resource.gvr.resource).unwrap_or_default();
            Arc::new(resource)
        });
        Version { name: gv.version.clone(), resources: resources.collect() }
    }
}
