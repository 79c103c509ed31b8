//! Volumes of pods that name a claim: from the claim to the persistent volume that it is bound to, and to its source.
//!
//! The node reads both objects from the API server when it mounts such a volume, and keeps neither: a node may read the claims
//! of its own pods only, and a volume that is mounted does not change any more.

use std::fmt::Debug;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use serde::de::DeserializeOwned;
use steersman_api::names;
use steersman_client::fault::told;

mod persistent;
mod reference;
#[cfg(test)]
mod tests;

pub(super) use persistent::{Persistent, Source};
pub(super) use reference::ClaimReference;

/// Reads claims and persistent volumes.
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// The claim of that name, as the API server has it now.
    ///
    /// # Errors
    /// In the API server's words.
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, String>;

    /// The persistent volume of that name, as the API server has it now.
    ///
    /// # Errors
    /// In the API server's words.
    async fn volume(&self, name: &str) -> Result<PersistentVolume, String>;
}

/// Reads claims and persistent volumes from the API server.
pub struct ApiClaims(kube::Client);

impl ApiClaims {
    /// Reads with `client`.
    pub fn new(client: kube::Client) -> Self {
        Self(client)
    }
}

#[async_trait]
impl Claims for ApiClaims {
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, String> {
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.0.clone(), namespace);
        read(&claims, "persistentvolumeclaims", name).await
    }

    async fn volume(&self, name: &str) -> Result<PersistentVolume, String> {
        let volumes = Api::<PersistentVolume>::all(self.0.clone());
        read(&volumes, "persistentvolumes", name).await
    }
}

/// Reads the object of that name. The name comes from a user: in a path, one that no object can have might lead to another
/// object, so the API server is not asked.
async fn read<K>(api: &Api<K>, resource: &str, name: &str) -> Result<K, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    if !names::subdomain(name).is_empty() {
        return Err(format!("{resource} {name:?} not found"));
    }
    api.get(name).await.map_err(|error| told(&error).to_string())
}

/// A node without API server has no claims.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClaims;

#[async_trait]
impl Claims for NoClaims {
    async fn claim(&self, _: &str, _: &str) -> Result<PersistentVolumeClaim, String> {
        Err("no kubeClient defined".to_owned())
    }

    async fn volume(&self, _: &str) -> Result<PersistentVolume, String> {
        Err("no kubeClient defined".to_owned())
    }
}
