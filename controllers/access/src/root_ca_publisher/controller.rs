//! Syncs of namespaces.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Time};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Changed, Client, Created, ResourceClient};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_kinds::config_map::{CA_KEY, ConfigMap, DESCRIPTION, Description, PublishedCa};
use steersman_kinds::content_digest::ContentDigest;

use super::metrics::Metrics;
use super::plan::{Observed, Step, plan};
use super::{NAME, RootCaMap};
use crate::unreadable;

/// The value of the annotation [`DESCRIPTION`].
const PURPOSE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such \
     as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
     Kubernetes clusters.";

/// Keeps the ConfigMaps. Its keys are those of namespaces.
pub(super) struct RootCaPublisher {
    pub maps: Lister<RootCaMap>,
    pub client: Client<ConfigMap>,
    /// Reads a whole ConfigMap before an update: the cache has only a part of it.
    pub reader: ResourceClient,
    /// The certificate authority, in PEM.
    pub ca: Arc<str>,
    /// The digest of `ca`.
    pub digest: ContentDigest,
    pub metrics: Metrics,
}

impl RootCaPublisher {
    async fn create(&self, namespace: &str) -> Result<Observed, SyncError> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": namespace, "annotations": {DESCRIPTION: PURPOSE}},
            "data": {CA_KEY: *self.ca},
        });
        match self.client.create(namespace, Content::json(JSON, &map)).await {
            Ok(Created::Now(_) | Created::NamespaceTerminating) => Ok(Observed::Settled),
            // The cache will show the ConfigMap that exists: the next sync compares it.
            Ok(Created::Exists(status)) => {
                Err(SyncError::Refused { what: format!("creating ConfigMap {namespace}/{NAME}"), status })
            }
            Err(error) if error.is("NotFound") => Ok(Observed::Settled),
            Err(error) => Err(error),
        }
    }

    /// Restores the ConfigMap as the API server has it, so that the update keeps all fields that the cache lacks.
    async fn restore(&self, namespace: &str) -> Result<Observed, SyncError> {
        let key = ObjectKey::new(namespace, NAME);
        let Some(mut map) = self.reader.get_json(&key).await? else {
            return Ok(Observed::Missing);
        };
        map["data"] = json!({CA_KEY: *self.ca});
        if !map["metadata"]["annotations"].is_object() {
            map["metadata"]["annotations"] = Value::Object(Default::default());
        }
        map["metadata"]["annotations"][DESCRIPTION] = PURPOSE.into();
        match self.client.update(&key, Content::json(JSON, &map)).await? {
            Changed::Now(_) => Ok(Observed::Settled),
            Changed::Gone => Ok(Observed::Missing),
            Changed::Conflict(status) => {
                Err(SyncError::Refused { what: format!("updating ConfigMap {key}"), status })
            }
        }
    }
}

impl Controller for RootCaPublisher {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Observed;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let map = self.maps.get(&ObjectKey::new(key.name.clone(), NAME)).map_err(unreadable("ConfigMap"))?;
        Ok(Observation::Ready(map.map_or(Observed::Missing, |map| Observed::Found {
            data: *map.get::<PublishedCa>(),
            is_described: map.get::<Description>().described.0,
        })))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(*observed, self.digest)
    }

    async fn act(&self, key: &ObjectKey, _: &Observed, step: &Step) -> Result<Observed, SyncError> {
        match step {
            Step::Create => self.create(&key.name).await,
            Step::Restore => self.restore(&key.name).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Observed>) {
        if let StepResult::Done(next) = result {
            *observed = next;
        }
    }

    fn finished(&self, _: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        self.metrics.synced(sync.took, sync.result);
    }
}
