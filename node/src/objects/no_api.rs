//! A node without an API server.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};

use super::{ObjectError, Objects, Services};

/// Has nothing, and says why: for a node that runs static pods only.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoApi;

#[async_trait]
impl Objects for NoApi {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        Err(refusal("configMap", namespace, name))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        Err(refusal("secret", namespace, name))
    }

    fn register(&self, _: &Pod) {}

    fn unregister(&self, _: &Pod) {}
}

impl Services for NoApi {
    fn synced(&self) -> bool {
        true
    }

    fn of_namespace(&self, _: &str) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

fn refusal(kind: &str, namespace: &str, name: &str) -> ObjectError {
    // Not `NotFound`: an optional reference would be taken for one to nothing.
    ObjectError::Other(format!("couldn't get {kind} {namespace}/{name}, no kubeClient defined"))
}
