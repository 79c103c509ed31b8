//! Maps kinds to resources and back.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::Client;
use parking_lot::RwLock;
use steersman_api::{ArcStr, GroupVersion, GroupVersionKind, GroupVersionResource};
use tokio::time::Instant;

use crate::discovery::{self, Discovered, Resource};

/// Shortest time between two discoveries that misses cause.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Why there is no mapping.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server does not have this kind or resource, and discovery of its group succeeded. Try again later: it may
    /// be created.
    #[error("the server has no {0}")]
    NoMatch(String),
    /// Unknown, because its group does not respond. It may exist: do not treat it as absent.
    #[error("{wanted} is not known, and its group does not answer: {reason}")]
    GroupSick {
        /// The kind or resource that the caller asked for.
        wanted: String,
        /// Why the group does not respond.
        reason: String,
    },
    /// Unknown, because discovery failed. It may exist: do not treat it as absent.
    #[error(transparent)]
    Discover(#[from] discovery::Error),
}

/// Maps kinds to resources and back, by the server's discovery documents.
///
/// A lookup that misses runs discovery again, but at most once in an interval (default [`REFRESH_INTERVAL`]) for all
/// lookups. Concurrent lookups that miss wait for the same discovery. A group that does not respond keeps its last
/// known resources.
pub struct RestMapper {
    client: Client,
    interval: Duration,
    known: RwLock<Arc<Known>>,
    /// The last discovery. Locked while one is under way.
    asked: tokio::sync::Mutex<Option<Asked>>,
    /// The number of discoveries that have begun, those that were cancelled included. Changes while `asked` is locked.
    begun: AtomicU64,
}

struct Asked {
    at: Instant,
    /// Its place among all discoveries that have begun, from 1.
    number: u64,
    /// The error, if it failed.
    failed: Option<discovery::Error>,
}

/// The discovered resources, and indexes of them.
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
        // If two resources have the same kind, the first wins.
        for resource in discovered.resources() {
            let GroupVersionKind { group, kind, .. } = resource.gvk.clone();
            known.by_kind.entry(resource.gvk.clone()).or_insert_with(|| resource.clone());
            known.preferred.entry((group, kind)).or_insert_with(|| resource.clone());
            known.by_resource.insert(resource.gvr.clone(), resource.clone());
        }
        known.discovered = Arc::new(discovered);
        known
    }

    /// Why `group` does not respond, in `version` if given, or `None` if it does.
    fn sickness(&self, group: &str, version: Option<&str>) -> Option<String> {
        let concerns =
            |gv: &GroupVersion| gv.group == group && version.is_none_or(|version| gv.version == version);
        self.discovered.sick.iter().find(|(gv, _)| concerns(gv)).map(|(_, sickness)| sickness.reason.clone())
    }
}

impl RestMapper {
    /// Creates an empty mapper, which runs discovery through `client` when it is first used.
    pub fn new(client: Client) -> Self {
        Self::with_interval(client, REFRESH_INTERVAL)
    }

    /// Creates a mapper, as [`new`](Self::new) does, with this shortest time between two discoveries.
    pub fn with_interval(client: Client, interval: Duration) -> Self {
        Self {
            client,
            interval,
            known: RwLock::default(),
            asked: Default::default(),
            begun: AtomicU64::new(0),
        }
    }

    /// The resources that are known now.
    pub fn discovered(&self) -> Arc<Discovered> {
        self.known.read().discovered.clone()
    }

    /// Runs discovery now. Callers that wait for the same discovery to end share the next one.
    ///
    /// # Errors
    /// If discovery fails. The mapper keeps what it knew.
    pub async fn refresh(&self) -> Result<Arc<Discovered>, discovery::Error> {
        let begun = self.begun.load(Ordering::Acquire);
        let mut asked = self.asked.lock().await;
        match &*asked {
            // It began after this call.
            Some(Asked { number, failed, .. }) if *number > begun => failed.clone().map_or(Ok(()), Err)?,
            _ => self.ask(&mut asked).await?,
        }
        Ok(self.discovered())
    }

    /// Lets the next miss run discovery without regard to the interval, for instance after a CRD has changed.
    pub async fn reset(&self) {
        *self.asked.lock().await = None;
    }

    /// Returns the resource whose objects have this kind and version, as far as it is known. Runs no discovery, for callers
    /// that must not wait and have another task call [`refresh`](Self::refresh).
    pub fn known_for(&self, gvk: &GroupVersionKind) -> Option<Arc<Resource>> {
        self.known.read().by_kind.get(gvk).cloned()
    }

    /// Returns the resource whose objects have this kind and version.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resource_for(&self, gvk: &GroupVersionKind) -> Result<Arc<Resource>, Error> {
        let find = |known: &Known| known.by_kind.get(gvk).cloned();
        self.find(find, || gvk.to_string(), &gvk.group, Some(&gvk.version)).await
    }

    /// Returns the resource whose objects have this kind, in the server's most preferred version that has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn preferred_for(&self, group: &str, kind: &str) -> Result<Arc<Resource>, Error> {
        let key = (ArcStr::from(group), ArcStr::from(kind));
        let find = |known: &Known| known.preferred.get(&key).cloned();
        self.find(find, || format!("{kind}.{group}"), group, None).await
    }

    /// Returns the resource with this group, version and name.
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
        // Another lookup may have run discovery while this one waited for the lock.
        let unchanged = Arc::ptr_eq(&missed, &self.known.read());
        if unchanged && asked.as_ref().is_none_or(|asked| asked.at.elapsed() >= self.interval) {
            // `ask` records the outcome in `asked`.
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

    /// Runs discovery. A failed one counts for the interval too, so that misses do not overload a failing server.
    async fn ask(&self, asked: &mut Option<Asked>) -> Result<(), discovery::Error> {
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let at = Instant::now();
        let last = self.discovered();
        let outcome = Discovered::ask(&self.client, &last).await;
        *asked = Some(Asked { at, number, failed: outcome.as_ref().err().cloned() });
        let discovered = outcome?;
        for (gv, sickness) in &discovered.sick {
            tracing::warn!(%gv, reason = sickness.reason, "API group does not respond");
        }
        *self.known.write() = Arc::new(Known::index(discovered));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
