//! The names under which quotas bound resources, and the kinds of objects that use them.

use std::collections::{BTreeMap, BTreeSet};

use steersman_api::ArcStr;

/// A kind of objects, as quotas measure it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Measured {
    /// Pods.
    Pods,
    /// Services.
    Services,
    /// PersistentVolumeClaims.
    VolumeClaims,
    /// ResourceClaims.
    DeviceClaims,
    /// Objects that are only counted: the resource, such as `secrets` or `jobs.batch`.
    Objects(ArcStr),
}

/// The extended resources that device classes stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceClasses {
    /// By the name of the class: the extended resource, such as `example.com/gpu`. Empty for a class without one.
    resources: BTreeMap<ArcStr, ArcStr>,
}

const POD_NAMES: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
const SERVICE_NAMES: [&str; 4] =
    ["count/services", "services", "services.nodeports", "services.loadbalancers"];
const CLAIM_NAMES: [&str; 3] = ["count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"];
/// Kinds whose number had a name before all kinds had one.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
/// Resources that no quota counts: events, and those that the API server does not store.
const UNCOUNTED: [&str; 9] = [
    "bindings",
    "componentstatuses",
    "tokenreviews.authentication.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "events",
    "events.events.k8s.io",
];

/// The prefix of names of requested resources.
pub(super) const REQUESTS: &str = "requests.";
/// The prefix of the resource that stands for a device class without an extended resource.
pub(super) const IMPLICIT_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";
/// The number of ResourceClaims.
pub(super) const COUNT_OF_DEVICE_CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
/// The suffix, after the name of a device class, of the number of devices of that class.
pub(super) const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// Stands between the name of a storage class and what is bounded of it.
pub(super) const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

impl Measured {
    /// The kinds whose objects use what `name` bounds. Most names belong to one kind; extended resources may belong to pods
    /// and to device claims.
    pub(super) fn by_name(name: &str, classes: &DeviceClasses) -> Vec<Self> {
        Self::by_name_if(name, |name| classes.have(name))
    }

    /// As [`by_name`](Self::by_name), for any device classes: all kinds whose objects may use what `name` bounds.
    pub(super) fn possible_by_name(name: &str) -> Vec<Self> {
        Self::by_name_if(name, is_extended)
    }

    /// The resource, as the value of an index.
    pub(super) fn as_text(&self) -> ArcStr {
        match self {
            Self::Pods => "pods".into(),
            Self::Services => "services".into(),
            Self::VolumeClaims => "persistentvolumeclaims".into(),
            Self::DeviceClaims => "resourceclaims.resource.k8s.io".into(),
            Self::Objects(resource) => resource.clone(),
        }
    }

    fn by_name_if(name: &str, is_of_device_class: impl Fn(&str) -> bool) -> Vec<Self> {
        let mut kinds = Vec::new();
        if POD_NAMES.contains(&name)
            || name.starts_with("hugepages-")
            || name.starts_with("requests.hugepages-")
            || is_extended(name)
        {
            kinds.push(Self::Pods);
        }
        let of_storage_class = CLAIM_NAMES[1..]
            .iter()
            .any(|of| name.strip_suffix(of).is_some_and(|class| class.ends_with(OF_STORAGE_CLASS)));
        if SERVICE_NAMES.contains(&name) {
            kinds.push(Self::Services);
        } else if CLAIM_NAMES.contains(&name) || of_storage_class {
            kinds.push(Self::VolumeClaims);
        } else if name == COUNT_OF_DEVICE_CLAIMS || name.ends_with(DEVICES) || is_of_device_class(name) {
            kinds.push(Self::DeviceClaims);
        } else if kinds.is_empty()
            && let Some(resource) = counted(name)
        {
            kinds.push(Self::Objects(resource.into()));
        }
        kinds
    }
}

/// The resource of which a name bounds the number of objects.
fn counted(name: &str) -> Option<&str> {
    let resource = name.strip_prefix("count/").or_else(|| ALIASES.contains(&name).then_some(name))?;
    (!UNCOUNTED.contains(&resource)).then_some(resource)
}

/// Whether a name bounds requests of an extended resource, such as `requests.example.com/gpu`.
pub(super) fn is_extended(name: &str) -> bool {
    let Some(resource) = name.strip_prefix(REQUESTS) else { return false };
    !is_native(name) || resource.starts_with(IMPLICIT_RESOURCE)
}

/// Whether a resource is one of Kubernetes's own.
pub(super) fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Whether it takes the device classes to tell which kinds use what these names bound.
pub(super) fn needs_device_classes<'a>(names: impl IntoIterator<Item = &'a str>) -> bool {
    names.into_iter().any(is_extended)
}

/// All kinds whose objects use what any of these names bounds.
pub(super) fn measured_by<'a>(
    names: impl IntoIterator<Item = &'a str>,
    classes: &DeviceClasses,
) -> BTreeSet<Measured> {
    names.into_iter().flat_map(|name| Measured::by_name(name, classes)).collect()
}

/// The names that bound what the objects of each kind use. Looks at each name once, since a quota may have a name for each of
/// very many kinds.
pub(super) fn by_kind<'a>(
    names: impl IntoIterator<Item = &'a str>,
    classes: &DeviceClasses,
) -> BTreeMap<Measured, BTreeSet<ArcStr>> {
    let mut groups: BTreeMap<Measured, BTreeSet<ArcStr>> = BTreeMap::new();
    for name in names {
        for kind in Measured::by_name(name, classes) {
            groups.entry(kind).or_default().insert(name.into());
        }
    }
    groups
}

impl DeviceClasses {
    /// Records a class with its extended resource, which may be empty.
    pub(super) fn insert(&mut self, class: &ArcStr, resource: &ArcStr) {
        self.resources.insert(class.clone(), resource.clone());
    }

    /// Forgets a class.
    pub(super) fn remove(&mut self, class: &str) {
        self.resources.remove(class);
    }

    /// The extended resource of a class.
    pub(super) fn resource_of(&self, class: &str) -> Option<&ArcStr> {
        self.resources.get(class).filter(|resource| !resource.is_empty())
    }

    /// Whether a name bounds requests of an extended resource that a class stands for.
    fn have(&self, name: &str) -> bool {
        let Some(resource) = name.strip_prefix(REQUESTS).filter(|_| is_extended(name)) else { return false };
        let implicit = resource.strip_prefix(IMPLICIT_RESOURCE);
        implicit.is_some_and(|class| self.resources.contains_key(class))
            || self.resources.values().any(|known| known == resource)
    }
}
