//! From kinds to resources and back.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::Client;
use parking_lot::RwLock;
use steersman_api::{ArcStr, GroupVersion, GroupVersionKind, GroupVersionResource};
use tokio::time::Instant;

use crate::discovery::{self, Discovered, Resource};

/// How often a miss may make the mapper ask the server again.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Why there is no mapping.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server has no such kind or resource, and all of its group answered. It may come: ask again in a while.
    #[error("the server has no {0}")]
    NoMatch(String),
    /// It is not known, but its group does not answer: it may well exist. Nothing may be concluded from this.
    #[error("{wanted} is not known, and its group does not answer: {reason}")]
    GroupSick {
        /// What was asked for.
        wanted: String,
        /// What ails the group.
        reason: String,
    },
    /// It is not known, and the server could not be asked. Nothing may be concluded from this.
    #[error(transparent)]
    Discover(#[from] discovery::Error),
}

/// Maps kinds to resources and back, by what the server says of itself.
///
/// Asked for something it does not know, it asks the server, but no more than once in an interval (default
/// [`REFRESH_INTERVAL`]), however many miss. All who miss at the same time wait for one answer. What is known is never
/// lost: groups that do not answer keep their last answer.
pub struct RestMapper {
    client: Client,
    interval: Duration,
    known: RwLock<Arc<Known>>,
    /// The last time the server was asked; held while it is.
    asked: tokio::sync::Mutex<Option<Asked>>,
}

struct Asked {
    at: Instant,
    /// Set if nothing was learnt.
    failed: Option<discovery::Error>,
}

/// What the server said, and indexes into it.
#[derive(Default)]
struct Known {
    discovered: Arc<Discovered>,
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
    by_resource: HashMap<GroupVersionResource, Arc<Resource>>,
    /// Group and kind to the resource in the most preferred version.
    preferred: HashMap<(ArcStr, ArcStr), Arc<Resource>>,
}

impl Known {
    fn index(discovered: Discovered) -> Self {
        let mut known = Known::default();
        // Where two resources are of one kind, the first counts.
        for resource in discovered.resources() {
            let GroupVersionKind { group, kind, .. } = resource.gvk.clone();
            known.by_kind.entry(resource.gvk.clone()).or_insert_with(|| resource.clone());
            known.preferred.entry((group, kind)).or_insert_with(|| resource.clone());
            known.by_resource.insert(resource.gvr.clone(), resource.clone());
        }
        known.discovered = Arc::new(discovered);
        known
    }

    /// What ails `group`, in `version` if one is given.
    fn sickness(&self, group: &str, version: Option<&str>) -> Option<String> {
        let concerns =
            |gv: &GroupVersion| gv.group == group && version.is_none_or(|version| gv.version == version);
        self.discovered.sick.iter().find(|(gv, _)| concerns(gv)).map(|(_, sickness)| sickness.reason.clone())
    }
}

impl RestMapper {
    /// A mapper that knows nothing yet and will ask through `client`.
    pub fn new(client: Client) -> Self {
        Self::with_interval(client, REFRESH_INTERVAL)
    }

    /// As [`new`](Self::new), with another interval.
    pub fn with_interval(client: Client, interval: Duration) -> Self {
        Self { client, interval, known: RwLock::default(), asked: tokio::sync::Mutex::default() }
    }

    /// What is known now.
    pub fn discovered(&self) -> Arc<Discovered> {
        self.known.read().discovered.clone()
    }

    /// Asks the server now.
    ///
    /// # Errors
    /// When nothing was learnt; what was known stays known.
    pub async fn refresh(&self) -> Result<Arc<Discovered>, discovery::Error> {
        let mut asked = self.asked.lock().await;
        self.ask(&mut asked).await?;
        Ok(self.discovered())
    }

    /// Lets the next miss ask the server whatever the interval, for instance after a CRD was seen to change.
    pub async fn reset(&self) {
        *self.asked.lock().await = None;
    }

    /// The resource whose objects are of this kind and version.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resource_for(&self, gvk: &GroupVersionKind) -> Result<Arc<Resource>, Error> {
        let find = |known: &Known| known.by_kind.get(gvk).cloned();
        self.find(find, || gvk.to_string(), &gvk.group, Some(&gvk.version)).await
    }

    /// The resource whose objects are of this kind, in the version the server prefers among those that have it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn preferred_for(&self, group: &str, kind: &str) -> Result<Arc<Resource>, Error> {
        let key = (ArcStr::from(group), ArcStr::from(kind));
        let find = |known: &Known| known.preferred.get(&key).cloned();
        self.find(find, || format!("{kind}.{group}"), group, None).await
    }

    /// The resource served at this place.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resource_at(&self, gvr: &GroupVersionResource) -> Result<Arc<Resource>, Error> {
        let find = |known: &Known| known.by_resource.get(gvr).cloned();
        self.find(find, || format!("{gvr} in {}", gvr.version), &gvr.group, Some(&gvr.version)).await
    }

    async fn find(
        &self,
        find: impl Fn(&Known) -> Option<Arc<Resource>>,
        wanted: impl Fn() -> String,
        group: &str,
        version: Option<&str>,
    ) -> Result<Arc<Resource>, Error> {
        let missed = self.known.read().clone();
        if let Some(resource) = find(&missed) {
            return Ok(resource);
        }
        let mut asked = self.asked.lock().await;
        // Another who missed may have asked while we waited for the lock.
        let unchanged = Arc::ptr_eq(&missed, &self.known.read());
        if unchanged && asked.as_ref().is_none_or(|asked| asked.at.elapsed() >= self.interval) {
            // What became of it is noted in `asked`.
            drop(self.ask(&mut asked).await);
        }
        let failed = asked.as_ref().and_then(|asked| asked.failed.clone());
        drop(asked);
        let known = self.known.read().clone();
        find(&known).ok_or_else(|| match known.sickness(group, version) {
            Some(reason) => Error::GroupSick { wanted: wanted(), reason },
            None => match failed.or_else(|| known.discovered.down_for(group).cloned()) {
                Some(error) => error.into(),
                None => Error::NoMatch(wanted()),
            },
        })
    }

    /// A failure counts as asked, too, lest those who miss ask a server in trouble without pause.
    async fn ask(&self, asked: &mut Option<Asked>) -> Result<(), discovery::Error> {
        let at = Instant::now();
        let last = self.discovered();
        let outcome = Discovered::ask(&self.client, &last).await;
        *asked = Some(Asked { at, failed: outcome.as_ref().err().cloned() });
        let discovered = outcome?;
        for (gv, sickness) in &discovered.sick {
            tracing::warn!(%gv, reason = sickness.reason, "A group of the API does not answer");
        }
        *self.known.write() = Arc::new(Known::index(discovered));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
