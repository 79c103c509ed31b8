//! Compares the caches of a new leader with the API server.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{GroupVersionResource, LabelSelector, Meta, ObjectKey, ResourceVersion, Uid};
use steersman_informer::AnyInformer;
use steersman_informer::wire::Object;
use steersman_informer::wire::meta::MetaOnly;

use crate::client::ResourceClient;
use crate::client::for_each;
use crate::controller::SyncError;

/// Finds out, once in each term and for each kind, whether the cache shows everything that was written before the term.
///
/// A standby's cache is seldom far behind, but it can't tell by how much: while a kind is quiet, the API server tells its
/// version only once a minute. So the new leader compares the metadata of all objects of the kind, in one quorum list, with
/// its cache. It does so when a controller first wants to write, for all controllers together. Cheap to clone.
#[derive(Clone, Default)]
pub struct FirstLooks {
    kinds: Arc<Mutex<HashMap<GroupVersionResource, Arc<Kind>>>>,
}

#[derive(Default)]
struct Kind {
    /// A version of the resource from after the beginning of the term. Locked while it is being read.
    horizon: tokio::sync::Mutex<Option<ResourceVersion>>,
    /// Locked during a look, so that concurrent callers wait for the same one.
    progress: tokio::sync::Mutex<Progress>,
}

#[derive(Default)]
enum Progress {
    #[default]
    NotLooked,
    /// The cache did not show these objects as the API server had them.
    Differs(Vec<Difference>),
    Current,
}

/// Whether a cache shows everything that was written before this term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The cache shows it.
    Current,
    /// The cache does not show it yet: the caller must read what it wants to act on from the API server.
    Behind,
}

/// An object that a cache did not show as the API server had it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Difference {
    /// The cache showed an older state than this, or none.
    Older(ObjectKey, ResourceVersion),
    /// The cache showed an object that did not exist any more.
    Extra(ObjectKey, Uid),
}

impl FirstLooks {
    /// Discards all looks: a new term begins.
    pub fn term_begins(&self) {
        self.kinds.lock().clear();
    }

    /// A version of a resource from after the beginning of the term: an object with a newer version was written in the term.
    ///
    /// # Errors
    /// The call failed.
    pub async fn horizon(&self, client: &ResourceClient) -> Result<ResourceVersion, SyncError> {
        let kind = self.kind(client);
        let mut horizon = kind.horizon.lock().await;
        if let Some(version) = *horizon {
            return Ok(version);
        }
        let version = client.version().await?;
        *horizon = Some(version);
        Ok(version)
    }

    /// Whether `cache` shows everything that was written to its resource before this term.
    ///
    /// # Errors
    /// A call failed.
    pub async fn look(
        &self,
        client: &ResourceClient,
        cache: &Arc<dyn AnyInformer>,
    ) -> Result<Look, SyncError> {
        let horizon = self.horizon(client).await?;
        let kind = self.kind(client);
        let mut progress = kind.progress.lock().await;
        let is_current = |differences: &[Difference]| {
            cache.last_sync_resource_version() >= horizon
                || differences.iter().all(|one| one.is_over(&**cache))
        };
        let differences = match &*progress {
            Progress::Current => return Ok(Look::Current),
            Progress::Differs(differences) if is_current(differences) => Vec::new(),
            Progress::Differs(_) => return Ok(Look::Behind),
            Progress::NotLooked if cache.last_sync_resource_version() >= horizon => Vec::new(),
            Progress::NotLooked => differences(client, &**cache).await?,
        };
        if differences.is_empty() {
            *progress = Progress::Current;
            return Ok(Look::Current);
        }
        tracing::info!(
            resource = %client.resource(),
            objects = differences.len(),
            "Cache lacks writes of the previous leader, reading owners one by one until it shows them"
        );
        *progress = Progress::Differs(differences);
        Ok(Look::Behind)
    }

    fn kind(&self, client: &ResourceClient) -> Arc<Kind> {
        Arc::clone(self.kinds.lock().entry(client.resource().clone()).or_default())
    }
}

/// Compares the metadata of all objects at the API server with a cache.
async fn differences(client: &ResourceClient, cache: &dyn AnyInformer) -> Result<Vec<Difference>, SyncError> {
    let (mut listed, mut differences) = (HashSet::new(), Vec::new());
    let see = |object: MetaOnly| {
        let meta = object.meta();
        listed.insert(meta.uid.clone());
        differences.extend(Difference::of_listed(meta, cache.meta(&meta.key).as_ref()));
    };
    let as_of = for_each::<MetaOnly>(client, 0, "", &LabelSelector::everything(), see).await?;
    cache.for_each_meta(&mut |meta: &Meta| {
        if meta.resource_version <= as_of && !listed.contains(&meta.uid) {
            differences.push(Difference::Extra(meta.key.clone(), meta.uid.clone()));
        }
    });
    // The cache may have moved on since.
    differences.retain(|difference| !difference.is_over(cache));
    Ok(differences)
}

impl Difference {
    fn of_listed(listed: &Meta, cached: Option<&Meta>) -> Option<Self> {
        let is_shown = cached.is_some_and(|cached| cached.resource_version >= listed.resource_version);
        (!is_shown).then(|| Self::Older(listed.key.clone(), listed.resource_version))
    }

    /// Whether the cache shows the object as the API server had it, or newer.
    fn is_over(&self, cache: &dyn AnyInformer) -> bool {
        match self {
            Self::Older(key, version) => match cache.meta(key) {
                Some(meta) => meta.resource_version >= *version,
                // Either the object has been deleted since, or the cache does not show it yet. Only the cache's version can
                // tell, and `look` compares that.
                None => false,
            },
            Self::Extra(key, uid) => cache.meta(key).is_none_or(|meta| meta.uid != *uid),
        }
    }
}
