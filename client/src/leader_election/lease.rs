//! Reads and writes one Lease, with a deadline for each call.

use std::{future::Future, time::Duration};

use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::PostParams};
use steersman_api::ResourceVersion;

use super::Config;
use crate::fault::told;

/// The client of one Lease. Keeps the metadata of the last read or write, since an update carries the version that it
/// is based on: the server refuses it if another write came in between.
pub(super) struct LeaseLock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    deadline: Duration,
    metadata: ObjectMeta,
}

/// Why a call failed. Try again later. The server may have carried out a failed write.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("error retrieving lease: {}", told(.0))]
    Get(#[source] kube::Error),
    #[error("error creating lease: {}", told(.0))]
    Create(#[source] kube::Error),
    #[error("failed to update lease: {}", told(.0))]
    Update(#[source] kube::Error),
    #[error("no answer within {0:?}")]
    Deadline(Duration),
}

impl Error {
    /// Whether another write came in between.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Error::Update(kube::Error::Api(status)) if status.is_conflict())
    }
}

impl LeaseLock {
    /// Creates a client for the Lease of `config`, without a call.
    pub(super) fn new(client: kube::Client, config: &Config) -> Self {
        let metadata = ObjectMeta {
            namespace: Some(config.namespace.clone()),
            name: Some(config.name.clone()),
            ..ObjectMeta::default()
        };
        Self {
            api: Api::namespaced(client, &config.namespace),
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            deadline: config.call_deadline(),
            metadata,
        }
    }

    /// The API that the calls go to.
    pub(super) fn api(&self) -> Api<Lease> {
        self.api.clone()
    }

    /// Reads the Lease. Returns `None` if it does not exist.
    pub(super) async fn get(&mut self) -> Result<Option<LeaseSpec>, Error> {
        let found = self.within(self.api.get_opt(&self.name), Error::Get).await?;
        Ok(found.map(|lease| self.keep(lease)))
    }

    /// Creates the Lease.
    pub(super) async fn create(&mut self, spec: LeaseSpec) -> Result<LeaseSpec, Error> {
        let metadata = ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        let (lease, params) = (Lease { metadata, spec: Some(spec) }, PostParams::default());
        let created = self.within(self.api.create(&params, &lease), Error::Create).await?;
        Ok(self.keep(created))
    }

    /// Updates the Lease, based on the last read or write.
    pub(super) async fn update(&mut self, spec: LeaseSpec) -> Result<LeaseSpec, Error> {
        let (lease, params) =
            (Lease { metadata: self.metadata.clone(), spec: Some(spec) }, PostParams::default());
        let updated = self.within(self.api.replace(&self.name, &params, &lease), Error::Update).await?;
        Ok(self.keep(updated))
    }

    /// The version of the last read or write. [`ResourceVersion::ANY`] before the first one.
    pub(super) fn version(&self) -> ResourceVersion {
        version(&self.metadata)
    }

    /// Keeps a Lease that the watch shows, as if it had been read. Returns `None` if it is not newer than the last read or
    /// write.
    pub(super) fn shown(&mut self, lease: Lease) -> Option<LeaseSpec> {
        (version(&lease.metadata) > self.version()).then(|| self.keep(lease))
    }

    /// The reference by which events name the Lease.
    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: self.metadata.uid.clone(),
            resource_version: self.metadata.resource_version.clone(),
            field_path: None,
        }
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = kube::Result<T>>,
        failed: impl FnOnce(kube::Error) -> Error,
    ) -> Result<T, Error> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(outcome) => outcome.map_err(failed),
            Err(_) => Err(Error::Deadline(self.deadline)),
        }
    }

    fn keep(&mut self, lease: Lease) -> LeaseSpec {
        self.metadata = lease.metadata;
        lease.spec.unwrap_or_default()
    }
}

/// The version of the Lease with this metadata. An API server's own versions are numbers.
pub(super) fn version(metadata: &ObjectMeta) -> ResourceVersion {
    let text = metadata.resource_version.as_deref().unwrap_or_default();
    ResourceVersion::parse(text).unwrap_or(ResourceVersion::ANY)
}
