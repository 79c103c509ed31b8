//! Which resources the server has, learnt in two requests where it can be, and in spite of groups that are ill.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http::{Request, header::ACCEPT};
use kube::Client;
use serde::de::DeserializeOwned;
use steersman_api::{ArcStr, GroupVersion, GroupVersionKind, GroupVersionResource};

use documents::{Answer, ResourceList};

mod documents;

/// Aggregated discovery first, then its beta form, then the lists of old; the server takes the first it knows.
const ACCEPT_AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// How long one request may take: an ill group must not hold up the rest. client-go: `defaultTimeout` of discovery.
const TIMEOUT: Duration = Duration::from_secs(32);

/// How many groups are asked at once, where each must be asked.
const AT_ONCE: usize = 8;

/// Where objects of a resource live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In a namespace each.
    Namespaced,
    /// In none.
    Cluster,
}

/// A resource that the server has, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Where it is served.
    pub gvr: GroupVersionResource,
    /// What its objects are. Group and version differ from those of `gvr` for a few resources.
    pub gvk: GroupVersionKind,
    /// Namespaced or not.
    pub scope: Scope,
    /// What can be done with it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: Vec<ArcStr>,
    /// The name of one, such as `pod`; may be empty.
    pub singular: ArcStr,
    /// Such as `po`.
    pub short_names: Vec<ArcStr>,
    /// Such as `all`.
    pub categories: Vec<ArcStr>,
    /// What hangs below its objects, such as `status` and `scale`.
    pub subresources: Vec<Subresource>,
}

/// A part of each object that has a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// Without the resource's name, such as `status`.
    pub name: ArcStr,
    /// What is read and written there, such as `autoscaling/v1, Kind=Scale`.
    pub gvk: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<ArcStr>,
}

impl Resource {
    /// Whether `verb` can be done with it.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// What kube's dynamic `Api` wants to know.
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
    /// Such as `v1`.
    pub name: ArcStr,
    /// What it serves.
    pub resources: Vec<Arc<Resource>>,
}

/// A group of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Empty for the core group.
    pub name: ArcStr,
    /// The preferred one first.
    pub versions: Vec<Version>,
}

/// Why a group version could not be learnt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sickness {
    /// For a log line.
    pub reason: String,
    /// Where its resources in [`Discovered`] come from.
    pub remedy: Remedy,
}

/// What stands in for the answer of a group version that is ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The last good answer.
    LastGood,
    /// The server's own copy of an old answer: we never had another.
    Outdated,
    /// Nothing: it has never answered.
    Nothing,
}

/// What is known of the server's resources.
///
/// A group version that is among the `sick` has those resources that it had when it last answered. That a resource is
/// missing there says nothing: it must not be taken for deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// In the server's order of preference, the core group first.
    pub groups: Vec<Group>,
    /// Those that did not answer.
    pub sick: BTreeMap<GroupVersion, Sickness>,
    /// Of `/api` and `/apis`, those that did not answer: groups may have come of which nothing is known.
    pub down: Vec<Error>,
}

/// Why nothing was learnt. Worth another try later, with back-off; what was known before still holds.
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

    /// Each resource once, in the most preferred of the versions that serve it; client-go: `ServerPreferredResources`.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        self.resources().filter(move |resource| seen.insert((&resource.gvr.group, &resource.gvr.resource)))
    }

    /// Asks the server, and takes over from `last` what it can't tell just now.
    ///
    /// # Errors
    /// When `/api` or `/apis` can't be had and `last` knows nothing of what lies below it.
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

    /// Why nothing can be said of a group that is not known: the list of groups it would be in was not to be had.
    pub fn down_for(&self, group: &str) -> Option<&Error> {
        let path = if group.is_empty() { "/api" } else { "/apis" };
        self.down.iter().find(|error| error.path == path)
    }

    /// The last good answer of a group version.
    fn last_good(&self, group: &str, version: &str) -> Option<&Version> {
        let group = self.groups.iter().find(|known| known.name == group)?;
        let version = group.versions.iter().find(|known| known.name == version)?;
        let gv = GroupVersion { group: group.name.clone(), version: version.name.clone() };
        let empty = self.sick.get(&gv).is_some_and(|sickness| sickness.remedy == Remedy::Nothing);
        (!empty).then_some(version)
    }

    /// Notes that `gv` is ill. Returns its version as `last` had it, else as in `outdated`, which may be empty.
    fn nurse(&mut self, gv: GroupVersion, reason: String, last: &Discovered, outdated: Version) -> Version {
        let (version, remedy) = match last.last_good(&gv.group, &gv.version) {
            Some(version) => (version.clone(), Remedy::LastGood),
            None if outdated.resources.is_empty() => (outdated, Remedy::Nothing),
            None => (outdated, Remedy::Outdated),
        };
        self.sick.insert(gv, Sickness { reason, remedy });
        version
    }
}

/// Why a version of an aggregated document is ill.
const STALE: &str = "the server could not reach it and has an old answer only, if any";

/// What is known of a version that did not answer.
fn no_answer(gv: &GroupVersion) -> Version {
    Version { name: gv.version.clone(), resources: Vec::new() }
}

/// What lies below `/api` or `/apis`.
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
                    let stale = version.is_stale();
                    let answer = version.into_version(&name);
                    versions.push(if stale {
                        found.nurse(gv, STALE.to_owned(), last, answer)
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
                            found.nurse(gv, reason, last, nothing)
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

/// All that `last` knows below a path which can't be had.
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
            found.nurse(gv, reason.clone(), last, nothing)
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
    serde_json::from_str(&text).map_err(|error| format!("can't be understood: {error}"))
}

#[cfg(test)]
mod tests;
