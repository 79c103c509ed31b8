//! Endpoints as they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use steersman_api::{ArcStr, ObjectKey, OwnerReference, ResourceVersion, Uid};
use steersman_informer::Object;

use crate::kinds::endpoints::{Endpoints, Subset};

/// The whole of an Endpoints object, as the API server is to store it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    api_version: &'static str,
    kind: &'static str,
    /// Its metadata, as far as a writer has a say in it.
    pub metadata: Metadata,
    /// What it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<Subset>,
}

/// Of an update: all that the API server would drop if it were not sent back. It keeps `managedFields` by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// That of the service.
    pub name: ArcStr,
    /// That of the service.
    pub namespace: ArcStr,
    /// Which object of that name is meant; empty: there should be none.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// Which state of it is replaced; zero: none.
    #[serde(skip_serializing_if = "is_unset")]
    pub resource_version: ResourceVersion,
    /// By key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<ArcStr, ArcStr>,
    /// By key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<ArcStr, ArcStr>,
    /// In their order.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub owner_references: Box<[OwnerReference]>,
    /// In their order.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub finalizers: Box<[ArcStr]>,
}

fn is_unset(version: &ResourceVersion) -> bool {
    *version == ResourceVersion::ANY
}

impl Manifest {
    /// Of an object that is not there yet.
    pub fn new(key: &ObjectKey) -> Self {
        let metadata =
            Metadata { name: key.name.clone(), namespace: key.namespace.clone(), ..Metadata::default() };
        Self { api_version: "v1", kind: "Endpoints", metadata, subsets: Vec::new() }
    }

    /// To replace that state of an object: with its metadata, without what it says.
    pub fn replacing(current: &Arc<Endpoints>) -> Self {
        let meta = current.meta();
        let mut manifest = Self::new(&meta.key);
        manifest.metadata = Metadata {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
            labels: meta.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            annotations: current.annotations().iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            owner_references: meta.owners.clone(),
            finalizers: meta.finalizers.clone(),
            ..manifest.metadata
        };
        manifest
    }
}
