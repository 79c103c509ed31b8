//! The kinds that quotas name, and how each is watched.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use steersman_api::GroupVersionResource;
use steersman_client::discovery::{Discovered, Scope};
use steersman_informer::factory::{Error, Lease};
use steersman_informer::{AnyInformer, Informer, MappingRegistration, Selection};
use tokio::time::Instant;

use super::super::names::Measured;
use super::super::{
    MeasuredDeviceClaim, MeasuredDeviceClass, MeasuredPod, MeasuredService, MeasuredVolumeClaim,
};
use super::{Cache, Watches, mapping, split};

/// All kinds that quotas name.
pub(super) type Table = BTreeMap<Kind, Entry>;

/// A kind of objects that quotas need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Kind {
    /// A kind whose objects are measured.
    Measured(Measured),
    /// The device classes, which tell what extended resources are.
    DeviceClasses,
}

/// Where the objects of a kind are read.
#[derive(Clone)]
pub(in super::super) enum Reader {
    /// Pods.
    Pods(Cache<MeasuredPod>),
    /// Services.
    Services(Cache<MeasuredService>),
    /// PersistentVolumeClaims.
    VolumeClaims(Cache<MeasuredVolumeClaim>),
    /// ResourceClaims.
    DeviceClaims(Cache<MeasuredDeviceClaim>),
    /// Objects that are counted, by metadata.
    Objects(Arc<dyn AnyInformer>),
    /// Device classes: [`Replenish`](super::Replenish) has them.
    DeviceClasses,
}

/// A kind's place in the table.
pub(super) struct Entry {
    /// When quotas began to name the kind.
    pub since: Instant,
    pub watch: Watch,
    /// The quotas that name the kind were queued after its cache had synced.
    pub announced: bool,
    /// The log says that the cache has not synced.
    pub warned: bool,
}

/// How a kind is watched.
#[derive(Default)]
pub(super) enum Watch {
    /// It is not known yet whether the API server has the kind.
    #[default]
    Unknown,
    /// The API server does not have the kind, or can't watch it.
    Absent,
    /// The kind is cached.
    Running { lease: Lease, mapping: MappingRegistration, reader: Reader },
}

/// The resource that discovery found for a kind; `None` if the API server does not have the kind.
type Found = Option<GroupVersionResource>;

impl Kind {
    /// Whether every API server has the kind.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::Measured(Measured::Pods | Measured::Services | Measured::VolumeClaims) => true,
            Self::Measured(Measured::DeviceClaims) | Self::DeviceClasses => false,
            Self::Measured(Measured::Objects(resource)) => {
                ["configmaps", "secrets", "replicationcontrollers", "resourcequotas"]
                    .contains(&resource.as_str())
            }
        }
    }

    /// The resource of the kind. `None` if it is not known.
    pub(super) fn resource(&self, discovered: Option<&Discovered>) -> Option<Found> {
        if self.is_permanent() {
            return Some(Some(GroupVersionResource::new("", "v1", self.name().0)));
        }
        let discovered = discovered?;
        let (name, group) = self.name();
        let version = match self {
            Self::Measured(Measured::Objects(_)) => None,
            // The version that the program decodes.
            _ => Some("v1"),
        };
        let found = discovered.preferred_resources().chain(discovered.resources()).find(|resource| {
            resource.gvr.group == group
                && resource.gvr.resource == name
                && version.is_none_or(|version| resource.gvr.version == version)
        });
        match found {
            Some(resource) => {
                let counts = *self == Self::DeviceClasses
                    || (resource.scope == Scope::Namespaced
                        && ["create", "list", "watch", "delete"].iter().all(|verb| resource.supports(verb)));
                Some(counts.then(|| resource.gvr.clone()))
            }
            // The group does not answer, so the kind may exist.
            None if discovered.down_for(group).is_some() => None,
            None if discovered.sick.keys().any(|sick| sick.group == group) => None,
            None => Some(None),
        }
    }

    /// The name of the resource, and its group.
    fn name(&self) -> (&str, &str) {
        match self {
            Self::Measured(Measured::Pods) => ("pods", ""),
            Self::Measured(Measured::Services) => ("services", ""),
            Self::Measured(Measured::VolumeClaims) => ("persistentvolumeclaims", ""),
            Self::Measured(Measured::DeviceClaims) => ("resourceclaims", "resource.k8s.io"),
            Self::Measured(Measured::Objects(resource)) => split(resource),
            Self::DeviceClasses => ("deviceclasses", "resource.k8s.io"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            (name, "") => f.write_str(name),
            (name, group) => write!(f, "{name}.{group}"),
        }
    }
}

impl Entry {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), watch: Watch::Unknown, announced: false, warned: false }
    }

    /// Whether this is how the kind is watched.
    pub(super) fn watches(&self, found: Option<&GroupVersionResource>) -> bool {
        match &self.watch {
            Watch::Unknown => false,
            Watch::Absent => found.is_none(),
            Watch::Running { lease, .. } => found == Some(lease.informer().resource()),
        }
    }
}

impl Watch {
    /// Ends the calls of the mapping, and gives up the lease. The caller must hold no lock.
    pub(super) fn end(self) {
        if let Self::Running { mapping, .. } = &self {
            mapping.remove();
        }
    }
}

impl Watches {
    /// Starts the cache of a kind.
    pub(super) fn begin(&self, kind: &Kind, found: Found) -> Watch {
        let Some(resource) = found else { return Watch::Absent };
        self.started(kind, &resource).unwrap_or_else(|error| {
            // A program that asks for the fields before the start never comes here.
            tracing::error!(%kind, %error, "Quotas can't count a kind");
            Watch::Unknown
        })
    }

    fn started(&self, kind: &Kind, resource: &GroupVersionResource) -> Result<Watch, Error> {
        let quotas = Arc::clone(&self.replenish);
        let gates = self.gates;
        Ok(match kind {
            Kind::Measured(Measured::Pods) => self.typed(|informer| {
                let mapping = informer.map(move |change| mapping::of_pod(change, &quotas, gates));
                (mapping, Reader::Pods(Cache::new(informer)))
            })?,
            Kind::Measured(Measured::Services) => self.typed(|informer| {
                let mapping = informer.map(move |change| mapping::of_service(change, &quotas));
                (mapping, Reader::Services(Cache::new(informer)))
            })?,
            Kind::Measured(Measured::VolumeClaims) => self.typed(|informer| {
                let mapping = informer.map(move |change| mapping::of_volume_claim(change, &quotas));
                (mapping, Reader::VolumeClaims(Cache::new(informer)))
            })?,
            Kind::Measured(Measured::DeviceClaims) => self.typed(|informer| {
                let mapping = informer.map(move |change| mapping::of_device_claim(change, &quotas));
                (mapping, Reader::DeviceClaims(Cache::with_owners(informer)))
            })?,
            Kind::DeviceClasses => self.typed::<MeasuredDeviceClass>(|informer| {
                let changed = Arc::clone(&self.changed);
                let mapping = informer.map(move |change| mapping::of_device_class(change, &quotas, &changed));
                (mapping, Reader::DeviceClasses)
            })?,
            Kind::Measured(measured @ Measured::Objects(_)) => {
                let lease = self.informers.lease(resource);
                let (informer, measured) = (Arc::clone(lease.informer()), measured.clone());
                let call = Box::new(move |change: steersman_informer::MetaChange<'_>| {
                    mapping::of_object(change, &measured, &quotas);
                });
                let mapping = informer.map_meta(call);
                lease.start();
                Watch::Running { lease, mapping, reader: Reader::Objects(informer) }
            }
        })
    }

    fn typed<S: Selection>(
        &self,
        map: impl FnOnce(&Informer<S>) -> (MappingRegistration, Reader),
    ) -> Result<Watch, Error> {
        let (lease, informer) = self.informers.lease_informer::<S>()?;
        let (mapping, reader) = map(&informer);
        lease.start();
        Ok(Watch::Running { lease, mapping, reader })
    }
}
