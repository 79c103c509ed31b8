//! Discovers the API server's resources: with two requests if the server supports aggregated discovery, and without
//! failing if some groups do not respond.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http::{Request, header::ACCEPT};
use kube::Client;
use serde::de::DeserializeOwned;
use steersman_api::{ArcStr, GroupVersion, GroupVersionKind, GroupVersionResource};

use documents::{Answer, ResourceList};

mod documents;

/// Prefers aggregated discovery, then its beta version, then the legacy lists. The server picks the first it
/// supports.
const ACCEPT_AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Deadline of one request, so that a group that does not respond does not delay the others. client-go:
/// `defaultTimeout` of discovery.
const TIMEOUT: Duration = Duration::from_secs(32);

/// Maximum number of concurrent requests if each group must be asked.
const AT_ONCE: usize = 8;

/// Whether the objects of a resource belong to namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each object is in a namespace.
    Namespaced,
    /// No object is in a namespace.
    Cluster,
}

/// A resource of the API server, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The group, version and name under which it is served.
    pub gvr: GroupVersionResource,
    /// The kind of its objects. A few resources have another group or version here than in `gvr`.
    pub gvk: GroupVersionKind,
    /// Whether its objects are in namespaces.
    pub scope: Scope,
    /// The supported verbs, out of `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: Vec<ArcStr>,
    /// The singular name, such as `pod`. May be empty.
    pub singular: ArcStr,
    /// Abbreviations, such as `po`.
    pub short_names: Vec<ArcStr>,
    /// Categories that it belongs to, such as `all`.
    pub categories: Vec<ArcStr>,
    /// The subresources of its objects, such as `status` and `scale`.
    pub subresources: Vec<Subresource>,
}

/// A part of each object with a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The name without the resource's, such as `status`.
    pub name: ArcStr,
    /// The kind that is read and written there, such as `autoscaling/v1, Kind=Scale`.
    pub gvk: GroupVersionKind,
    /// The supported verbs.
    pub verbs: Vec<ArcStr>,
}

impl Resource {
    /// Whether the resource supports `verb`.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Returns the subresource `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Describes the resource for kube's dynamic `Api`.
    pub fn api_resource(&self) -> kube::core::ApiResource {
        let served = GroupVersion { group: self.gvr.group.clone(), version: self.gvr.version.clone() };
        kube::core::ApiResource {
            group: self.gvr.group.to_string(),
            version: self.gvr.version.to_string(),
            api_version: served.to_string(),
            kind: self.gvk.kind.to_string(),
            plural: self.gvr.resource.to_string(),
        }
    }
}

/// One version of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The version, such as `v1`.
    pub name: ArcStr,
    /// The resources of this version.
    pub resources: Vec<Arc<Resource>>,
}

/// A group of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name. Empty for the core group.
    pub name: ArcStr,
    /// The versions, the preferred one first.
    pub versions: Vec<Version>,
}

/// Why discovery of a group version failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sickness {
    /// The reason, for a log line.
    pub reason: String,
    /// Where the resources in [`Discovered`] come from instead.
    pub remedy: Remedy,
}

/// What replaces the response of a group version whose discovery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The last good response.
    LastGood,
    /// An outdated copy that the API server keeps. This process never got a better one.
    Outdated,
    /// Nothing: there was no response yet.
    Nothing,
}

/// The resources of the API server.
///
/// A group version in `sick` keeps the resources of its last good response. If a resource is missing from it, the
/// caller must not conclude that the resource was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The groups in the server's order of preference, the core group first.
    pub groups: Vec<Group>,
    /// The group versions whose discovery failed.
    pub sick: BTreeMap<GroupVersion, Sickness>,
    /// The errors of `/api` and `/apis`, if they failed. New groups below them are unknown then.
    pub down: Vec<Error>,
}

/// Why discovery failed as a whole. Try again later, with backoff; earlier results stay valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("can't discover the server's resources: GET {path}: {reason}")]
pub struct Error {
    /// `/api` or `/apis`.
    pub path: &'static str,
    /// What went wrong.
    pub reason: String,
}

impl Discovered {
    /// All resources in all versions.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
    }

    /// Each resource once, in the most preferred of the versions that serve it; client-go:
    /// `ServerPreferredResources`.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        self.resources().filter(move |resource| seen.insert((&resource.gvr.group, &resource.gvr.resource)))
    }

    /// Discovers the server's resources. Where that fails, keeps the results in `last`.
    ///
    /// # Errors
    /// If the request to `/api` or `/apis` fails and `last` has no groups below that path.
    pub async fn ask(client: &Client, last: &Discovered) -> Result<Discovered, Error> {
        let (core, named) = futures::join!(
            ask_root(client, "/api", last, |group| group.is_empty()),
            ask_root(client, "/apis", last, |group| !group.is_empty()),
        );
        let mut all = core?;
        let named = named?;
        all.groups.extend(named.groups);
        all.sick.extend(named.sick);
        all.down.extend(named.down);
        Ok(all)
    }

    /// The error that hides whether `group` exists, if the list of groups that would contain it could not be read.
    pub fn down_for(&self, group: &str) -> Option<&Error> {
        let path = if group.is_empty() { "/api" } else { "/apis" };
        self.down.iter().find(|error| error.path == path)
    }

    /// The last good response of a group version.
    fn last_good(&self, group: &str, version: &str) -> Option<&Version> {
        let group = self.groups.iter().find(|known| known.name == group)?;
        let version = group.versions.iter().find(|known| known.name == version)?;
        let gv = GroupVersion { group: group.name.clone(), version: version.name.clone() };
        let empty = self.sick.get(&gv).is_some_and(|sickness| sickness.remedy == Remedy::Nothing);
        (!empty).then_some(version)
    }

    /// Records that discovery of `gv` failed. Returns its version from `last`, or else `outdated`, which may be
    /// empty.
    fn mark_sick(
        &mut self,
        gv: GroupVersion,
        reason: String,
        last: &Discovered,
        outdated: Version,
    ) -> Version {
        let (version, remedy) = match last.last_good(&gv.group, &gv.version) {
            Some(version) => (version.clone(), Remedy::LastGood),
            None if outdated.resources.is_empty() => (outdated, Remedy::Nothing),
            None => (outdated, Remedy::Outdated),
        };
        self.sick.insert(gv, Sickness { reason, remedy });
        version
    }
}

/// Why discovery of a group version failed that an aggregated document calls stale: the API server could not reach it, and
/// has an outdated response at best. In client-go's words, since the namespace controller writes them into conditions.
fn stale(gv: &GroupVersion) -> String {
    format!("stale GroupVersion discovery: {gv}")
}

/// A version without resources.
fn no_answer(gv: &GroupVersion) -> Version {
    Version { name: gv.version.clone(), resources: Vec::new() }
}

/// Discovers the groups below `/api` or `/apis`.
async fn ask_root(
    client: &Client,
    path: &'static str,
    last: &Discovered,
    below: impl Fn(&str) -> bool,
) -> Result<Discovered, Error> {
    let answer = match get::<Answer>(client, path, ACCEPT_AGGREGATED).await {
        Ok(answer) => answer,
        Err(reason) => return fall_back(path, reason, last, below),
    };
    let mut found = Discovered::default();
    match answer {
        Answer::Aggregated(list) => {
            for group in list.items {
                let name = group.name();
                let mut versions = Vec::new();
                for version in group.versions {
                    let gv = GroupVersion { group: name.clone(), version: version.version.clone() };
                    let is_stale = version.is_stale();
                    let answer = version.into_version(&name);
                    versions.push(if is_stale {
                        let reason = stale(&gv);
                        found.mark_sick(gv, reason, last, answer)
                    } else {
                        answer
                    });
                }
                found.groups.push(Group { name, versions });
            }
        }
        Answer::Legacy(listed) => {
            let wanted: Vec<GroupVersion> =
                listed.iter().flat_map(|(_, versions)| versions).cloned().collect();
            let mut answers: BTreeMap<GroupVersion, Result<ResourceList, String>> = stream::iter(wanted)
                .map(|gv| async move {
                    let answer = get(client, &format!("{path}/{gv}"), "application/json").await;
                    (gv, answer)
                })
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            for (name, gvs) in listed {
                let versions = gvs.into_iter().filter_map(|gv| {
                    Some(match answers.remove(&gv)? {
                        Ok(list) => list.into_version(&gv),
                        Err(reason) => {
                            let nothing = no_answer(&gv);
                            found.mark_sick(gv, reason, last, nothing)
                        }
                    })
                });
                let versions = versions.collect();
                found.groups.push(Group { name, versions });
            }
        }
    }
    Ok(found)
}

/// Returns the groups in `last` below a path whose request failed.
fn fall_back(
    path: &'static str,
    reason: String,
    last: &Discovered,
    below: impl Fn(&str) -> bool,
) -> Result<Discovered, Error> {
    let groups: Vec<Group> = last.groups.iter().filter(|group| below(&group.name)).cloned().collect();
    let error = Error { path, reason: reason.clone() };
    if groups.is_empty() {
        return Err(error);
    }
    let mut found = Discovered { down: vec![error], ..Discovered::default() };
    for Group { name, versions } in groups {
        let versions = versions.into_iter().map(|version| {
            let gv = GroupVersion { group: name.clone(), version: version.name };
            let nothing = no_answer(&gv);
            found.mark_sick(gv, reason.clone(), last, nothing)
        });
        let versions = versions.collect();
        found.groups.push(Group { name, versions });
    }
    Ok(found)
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str, accept: &str) -> Result<T, String> {
    let request =
        Request::get(path).header(ACCEPT, accept).body(Vec::new()).map_err(|error| error.to_string())?;
    let answer = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
    let text =
        answer.map_err(|_| format!("no answer within {TIMEOUT:?}"))?.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("the response can't be decoded: {error}"))
}

#[cfg(test)]
mod tests;
