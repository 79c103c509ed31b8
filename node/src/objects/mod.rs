//! The config maps, secrets and services that pods of this node refer to.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};

mod no_api;
mod references;
mod reflection;
mod service_lister;
#[cfg(test)]
mod tests;
mod watched_object;
mod watched_objects;

pub use no_api::NoApi;
pub use references::References;
pub use service_lister::ServiceLister;
pub use watched_objects::WatchedObjects;

/// Config maps and secrets as the API server has them, watched one by one while a pod that refers to them is registered.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// The config map of that name, no older than the registration of the pod that asks.
    ///
    /// # Errors
    /// See [`ObjectError`].
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError>;

    /// The secret of that name, likewise.
    ///
    /// # Errors
    /// See [`ObjectError`].
    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError>;

    /// Watches what the pod refers to from now on, beside what it referred to before an update of it. To be called at
    /// each sync of a pod, and cheap.
    fn register(&self, pod: &Pod);

    /// The pod no longer needs anything. What no pod needs is no longer watched.
    fn unregister(&self, pod: &Pod);
}

/// Services, for the environment of containers.
#[async_trait]
pub trait Services: Send + Sync + 'static {
    /// Whether services were once listed; without API server always true.
    fn synced(&self) -> bool;
    /// The services of a namespace.
    fn of_namespace(&self, namespace: &str) -> Vec<Arc<Service>>;
}

/// Why an object is not to be had. The pod's next sync tries again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ObjectError {
    /// There is none of that name; the text is the API server's, such as `configmap "a" not found`.
    #[error("{0}")]
    NotFound(String),
    /// It could not be read.
    #[error("{0}")]
    Other(String),
}

impl ObjectError {
    /// Whether there is none of that name.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}
