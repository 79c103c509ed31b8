//! A controller's slices: read from the cache or the API server, and written.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steersman_api::{LabelSelector, Meta, ObjectKey, Uid};
use steersman_client::Sender;
use steersman_controller::call::{Content, PROTOBUF};
use steersman_controller::children::{FirstLooks, Grounds, Look};
use steersman_controller::client::{Changed, Client, Created, Delete, Wrote};
use steersman_controller::controller::SyncError;
use steersman_controller::own_writes::{Awaited, Freshness, Listing, OwnWrites};
use steersman_informer::index::{Index, IndexValue};
use steersman_informer::shared_informer::{Change, Informer};
use steersman_informer::{AnyInformer, Lister, Object, View};
use steersman_kinds::endpoint_slice::EndpointSlice;

use super::expected::Expected;
use super::{CachedSlice, MANAGED_BY, Manifest, SERVICE_NAME, service_of};
use crate::membership::unreadable;

/// The index of slices by the namespace and the name of their service.
const BY_SERVICE: &str = "service";
/// How long a sync waits for the cache to show the controller's own writes, before it lists the service's slices from the API
/// server.
const PATIENCE: Duration = Duration::from_secs(5);

/// The slices of one controller.
///
/// The keys of its methods are those of services. A sync calls [`observe`](Self::observe) before it reads another cache.
pub(crate) struct SliceStore {
    /// The controller's name in the label [`MANAGED_BY`].
    manager: &'static str,
    cache: Lister<CachedSlice>,
    by_service: Index<CachedSlice>,
    /// Decodes only the metadata of answers.
    writer: Client<EndpointSlice>,
    reader: Client<EndpointSlice>,
    own_writes: OwnWrites,
    expected: Expected,
    informer: Arc<dyn AnyInformer>,
    first_looks: FirstLooks,
    /// Whether the cache has been seen to show everything that was written before this term.
    sure: AtomicBool,
}

/// A service's slices.
#[derive(Debug)]
pub(crate) enum Sight {
    /// The slices that the controller manages and that are not being deleted, by name; and whether these are all, so that the
    /// controller may write.
    Slices(Vec<Arc<EndpointSlice>>, Grounds),
    /// The cache does not show the controller's own writes yet.
    Behind {
        /// When to look again at the latest.
        at_most: Duration,
        /// Whether this is the first look that finds it so.
        newly: bool,
    },
}

/// The result of a sync's step that succeeded.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The step was carried out.
    Done,
    /// Nothing can be created, because the namespace is being deleted.
    NamespaceTerminating,
    /// The service's slices, in place of those that the sync has observed.
    Slices(Vec<Arc<EndpointSlice>>),
}

/// A slice to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceRef {
    /// The slice's namespace and name.
    pub key: ObjectKey,
    /// The slice's uid, the precondition of the deletion.
    pub uid: Uid,
}

impl SliceStore {
    /// The slices that have `manager` in the label [`MANAGED_BY`].
    pub(crate) fn new(
        manager: &'static str,
        slices: &Informer<CachedSlice>,
        sender: &Sender,
        first_looks: FirstLooks,
    ) -> Self {
        Self {
            manager,
            cache: slices.lister(),
            by_service: slices.add_index(BY_SERVICE, by_service),
            writer: Client::new(sender.clone()),
            reader: Client::keeping::<CachedSlice>(sender.clone()),
            own_writes: OwnWrites::new(PATIENCE).over(&slices.any()),
            expected: Expected::default(),
            informer: slices.any(),
            first_looks,
            sure: AtomicBool::new(false),
        }
    }

    /// Discards what was learnt in an earlier term. Keeps `own_writes`, which stay valid.
    pub(crate) fn term_begins(&self) {
        self.sure.store(false, Ordering::Release);
    }

    fn manages(&self, slice: &Meta) -> bool {
        slice.labels.get(MANAGED_BY).is_some_and(|manager| manager == self.manager)
    }

    /// The service of a slice, if the controller manages the slice.
    pub(crate) fn service(&self, slice: &Meta) -> Option<ObjectKey> {
        if self.manages(slice) { service_of(slice) } else { None }
    }

    /// Calls `wake` with the services whose slices have changed, and `sync` with those whose slices another party has
    /// changed.
    pub(crate) fn changed(
        &self,
        change: &Change<CachedSlice>,
        wake: impl Fn(&ObjectKey),
        sync: impl Fn(ObjectKey),
    ) {
        let metas = [change.old(), change.new()].map(|slice| slice.map(View::meta));
        let mut services = metas.map(|slice| slice.and_then(service_of));
        if services[0] == services[1] {
            services[0] = None;
        }
        services.iter().flatten().for_each(wake);
        let foreign = match change {
            Change::Resync { .. } | Change::Added { initial: true, .. } => false,
            Change::Added { object, .. } => self.manages(object.meta()) && !self.wrote(object.meta()),
            Change::Updated { old, new } => {
                let (old, new) = (old.meta(), new.meta());
                // The controller never changes these labels.
                services[0].is_some()
                    || self.manages(old) != self.manages(new)
                    || (self.manages(new) && !self.wrote(new))
            }
            Change::Deleted { last } => {
                self.manages(last.meta()) && !self.expected.has_deletion(&last.meta().uid)
            }
        };
        if foreign {
            services.into_iter().flatten().for_each(sync);
        }
    }

    fn wrote(&self, slice: &Meta) -> bool {
        self.expected.has_version(&slice.uid, slice.resource_version)
    }

    /// The writes for a service that the cache does not show yet.
    pub(crate) fn awaited(&self, service: &ObjectKey) -> Vec<Awaited> {
        self.own_writes.awaited(service)
    }

    /// The slices of a service, from the cache if it shows the controller's own writes.
    pub(crate) async fn observe(&self, service: &ObjectKey) -> Result<Sight, SyncError> {
        match self.own_writes.check(service) {
            Freshness::Behind { newly, .. } => Ok(Sight::Behind { at_most: PATIENCE, newly }),
            Freshness::Current => {
                let grounds = if self.sure.load(Ordering::Acquire) { Grounds::Sure } else { Grounds::Unsure };
                Ok(Sight::Slices(self.cached(service)?, grounds))
            }
            Freshness::Doubtful => Ok(Sight::Slices(self.listed(service).await?, Grounds::Sure)),
        }
    }

    /// Observes the slices of a service again, once the controller wants to write and its grounds are [`Grounds::Unsure`]: the
    /// cache of a new leader may not show what the previous leader has written. The new grounds are [`Grounds::Sure`].
    pub(crate) async fn confirm(&self, service: &ObjectKey) -> Result<Outcome, SyncError> {
        let look = self.first_looks.look(self.reader.resource(), &self.informer).await?;
        Ok(Outcome::Slices(match look {
            Look::Current => {
                self.sure.store(true, Ordering::Release);
                self.cached(service)?
            }
            Look::Behind => self.listed(service).await?,
        }))
    }

    fn cached(&self, service: &ObjectKey) -> Result<Vec<Arc<EndpointSlice>>, SyncError> {
        let entry = IndexValue::Pair(service.namespace.clone(), service.name.clone());
        let wanted = |slice: &Meta| self.manages(slice) && !slice.is_deleting();
        let shown = self.cache.by_index_where(&self.by_service, &entry, wanted).map_err(unreadable)?;
        let is_shown = |uid: &Uid| shown.iter().any(|slice| slice.meta().uid == *uid);
        let gone = self.own_writes.gone::<EndpointSlice>(service, is_shown);
        let is_gone =
            |slice: &Meta| gone.is_condemned(&slice.uid) || gone.is_past(&slice.uid, slice.resource_version);
        let there = shown.iter().filter(|slice| !is_gone(slice.meta()));
        Ok(by_name(there.map(|slice| Arc::clone(slice.object())).collect()))
    }

    async fn listed(&self, service: &ObjectKey) -> Result<Vec<Arc<EndpointSlice>>, SyncError> {
        let labels = [(SERVICE_NAME, service.name.as_str()), (MANAGED_BY, self.manager)];
        let listed = self.reader.list(&service.namespace, &LabelSelector::from_labels(labels)).await?;
        let mut slices = listed.objects;
        let newest = slices.iter().map(|slice| slice.meta().resource_version).max().unwrap_or_default();
        slices.retain(|slice| !slice.meta().is_deleting());
        let held: HashSet<Uid> = slices.iter().map(|slice| slice.meta().uid.clone()).collect();
        let newest = Wrote::of::<EndpointSlice>(newest);
        self.own_writes.reread(service, [newest], |uid| held.contains(uid));
        self.own_writes.listed::<EndpointSlice>(service, Listing { as_of: listed.as_of, held });
        Ok(by_name(slices))
    }

    /// Forgets the writes for a service that is gone.
    pub(crate) fn forget(&self, service: &ObjectKey) {
        self.own_writes.forget(service);
    }

    /// Creates a slice.
    pub(crate) async fn create(
        &self,
        service: &ObjectKey,
        manifest: &Manifest,
    ) -> Result<Outcome, SyncError> {
        let create = self.writer.create(&service.namespace, content(manifest));
        match self.own_writes.write(service, create).await? {
            Created::Now(slice) => self.expect(slice.meta()),
            Created::NamespaceTerminating => return Ok(Outcome::NamespaceTerminating),
            Created::Exists(status) => {
                return Err(SyncError::Refused { what: format!("creating a slice of {service}"), status });
            }
        }
        Ok(Outcome::Done)
    }

    /// Replaces a slice.
    pub(crate) async fn update(&self, service: &ObjectKey, manifest: &Manifest) -> Result<(), SyncError> {
        let key = ObjectKey::new(service.namespace.clone(), manifest.metadata.name.clone());
        let what = || format!("updating endpointslice {key}");
        let update = self.writer.update(&key, content(manifest));
        match self.own_writes.write(service, update).await? {
            Changed::Now(slice) => {
                self.expect(slice.meta());
                Ok(())
            }
            Changed::Gone => {
                Err(SyncError::Failed(format!("endpointslices.discovery.k8s.io \"{}\" not found", key.name)))
            }
            Changed::Conflict(status) => Err(SyncError::Refused { what: what(), status }),
        }
    }

    /// Deletes a slice. Ignores that it is gone already, or that another one has its name.
    pub(crate) async fn delete(&self, service: &ObjectKey, slice: &SliceRef) -> Result<(), SyncError> {
        let delete = Delete::of(&slice.uid);
        let delete = self.writer.delete(&slice.key, &delete);
        self.own_writes.remove::<EndpointSlice, _>(service, &slice.uid, delete).await?;
        if self.cache.meta(&slice.key).is_some() {
            self.expected.deletion(&slice.uid);
        }
        Ok(())
    }

    /// Expects the cache to show a version that the controller has written, unless the cache shows it already.
    fn expect(&self, slice: &Meta) {
        let shown = self.cache.meta(&slice.key).map(|shown| shown.resource_version);
        if shown < Some(slice.resource_version) {
            self.expected.version(&slice.uid, slice.resource_version);
        }
    }
}

fn by_name(mut slices: Vec<Arc<EndpointSlice>>) -> Vec<Arc<EndpointSlice>> {
    slices.sort_unstable_by(|a, b| a.meta().key.cmp(&b.meta().key));
    slices
}

fn by_service(slice: &View<CachedSlice>) -> Vec<IndexValue> {
    let entry = |service: ObjectKey| IndexValue::Pair(service.namespace, service.name);
    service_of(slice.meta()).map(entry).into_iter().collect()
}

fn content(manifest: &Manifest) -> Content {
    Content { media_type: PROTOBUF, bytes: manifest.to_protobuf().into() }
}
